//! W3C Trace Context in `_meta` (2026-07-28 basic/index "OpenTelemetry trace context"). Before that
//! revision it is a convention.

/// The content of a `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace: 32 hex digits in lower case.
    pub trace: String,
    /// The id of the span that made the request: 16 hex digits.
    pub parent: String,
    /// Trace flags. Bit 0: sampled.
    pub flags: u8,
}

impl TraceParent {
    /// Parses a `traceparent` (W3C Trace Context section 3.2.2): version, trace id, parent id and
    /// flags as lower-case hex digits, with dashes between them.
    ///
    /// `None` for version ff, which is forbidden, and for ids of zeros, which are invalid. A
    /// version above 00 may have more members.
    pub fn read(text: &str) -> Option<TraceParent> {
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_id = |part: &str, length| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
        let mut parts = text.splitn(5, '-');
        let mut next = || parts.next().unwrap_or_default();
        let (version, trace, parent, flags) = (next(), next(), next(), next());
        let is_whole = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !is_whole || !is_id(trace, 32) || !is_id(parent, 16) || !is_hex(flags, 2) {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(TraceParent { trace: trace.to_owned(), parent: parent.to_owned(), flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_traceparents_are_parsed() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = TraceParent::read(good).expect("it is one");
        assert_eq!((&*read.trace, &*read.parent), ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"));
        assert_eq!(read.flags, 1);
        assert_eq!(TraceParent::read(&format!("{}-more", good.replacen("00", "01", 1))), Some(read));
        for bad in [
            "",
            "00",
            &good.to_uppercase(),
            &format!("{good}-more"),
            &good.replacen("00", "ff", 1),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            assert!(TraceParent::read(bad).is_none(), "{bad}");
        }
    }
}
