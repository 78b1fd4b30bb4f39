//! Server-sent events of a body, with their times.

use memchr::memchr2;

use super::{PIECES, plus_milliseconds};
use crate::capture::Time;

/// The events of a stream, and whether each has a text. The rest of the stream is the last one.
struct Events<'a>(&'a [u8]);

impl<'a> Iterator for Events<'a> {
    type Item = (&'a [u8], bool);

    fn next(&mut self) -> Option<(&'a [u8], bool)> {
        let (mut at, mut has_data, mut has_text) = (0, false, true);
        while at < self.0.len() {
            let rest = &self.0[at..];
            let length = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            let (line, end) = rest.split_at(length);
            at += length + if end.starts_with(b"\r\n") { 2 } else { end.len().min(1) };
            if line.is_empty() {
                break;
            } else if let Some(kind) = line.strip_prefix(b"event:") {
                // HTTP+SSE (2024-11-05) announces the address for messages so.
                has_text = kind.trim_ascii() != b"endpoint";
            } else if let Some(data) = line.strip_prefix(b"data:") {
                has_data |= !data.trim_ascii().is_empty();
            }
        }
        let (event, rest) = self.0.split_at_checked(at).filter(|(event, _)| !event.is_empty())?;
        self.0 = rest;
        Some((event, has_data && has_text))
    }
}

/// The events of a body with their times. mcptap itself writes those with texts, as milliseconds
/// after the `start` of the exchange. Other archives have none: the first event has the time at
/// which the body `begins`, the last that at which it `ends`, and the others are spread between.
/// Events beyond the limit of pieces arrive with the last one.
pub(super) fn dated(body: &[u8], times: &[f64], [start, begins, ends]: [Time; 3]) -> Vec<(Time, Vec<u8>)> {
    let mut pieces: Vec<(Time, Vec<u8>)> = Vec::new();
    let mut texts = Vec::new();
    for (event, has_text) in Events(body) {
        match pieces.last_mut().filter(|_| texts.len() >= PIECES) {
            Some((_, last)) => last.extend_from_slice(event),
            None => {
                pieces.push((begins, event.to_vec()));
                texts.push(has_text);
            }
        }
    }
    let last = pieces.len().saturating_sub(1) as i128;
    let are_known = !times.is_empty() && texts.iter().filter(|has_text| **has_text).count() == times.len();
    let (mut times, mut latest) = (times.iter(), begins);
    for (index, ((time, _), has_text)) in (0..).zip(pieces.iter_mut().zip(texts)) {
        *time = if are_known {
            let known = has_text.then(|| times.next()).flatten();
            latest = latest.max(known.map_or(latest, |time| plus_milliseconds(start, *time)));
            latest
        } else if last == 0 {
            ends
        } else {
            begins.plus((i128::from(ends.since(begins)) * index / last) as i64)
        };
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_at_blank_lines_whatever_the_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let events = ["event: endpoint|data: /m||", ": ping||", "id: 1|data: {}||", "data:||", "data: cut"];
            let body = events.concat().replace('|', end);
            let found: Vec<(String, bool)> = Events(body.as_bytes())
                .map(|(event, has_text)| (String::from_utf8_lossy(event).replace(end, "|"), has_text))
                .collect();
            let texts = [false, false, true, false, true];
            assert_eq!(found, events.map(str::to_owned).into_iter().zip(texts).collect::<Vec<_>>(), "{end:?}");
        }
    }

    #[test]
    fn events_have_their_times_or_are_spread() {
        let at = |body: &str, times: &[f64]| {
            let pieces = dated(body.as_bytes(), times, [Time(0), Time(2_000_000), Time(6_000_000)]);
            pieces.into_iter().map(|(time, _)| time.0 / 1_000_000).collect::<Vec<_>>()
        };
        let body = "event: endpoint\ndata: /m\n\ndata: {}\n\ndata: {}\n\n";
        assert_eq!(at(body, &[3.0, 5.0]), [2, 3, 5]);
        assert_eq!(at(body, &[3.0]), [2, 4, 6], "times of other events are no times of these");
        assert_eq!(at(body, &[]), [2, 4, 6]);
        assert_eq!(at("data: {}\n\n", &[]), [6]);
        assert_eq!(at("", &[]), [0; 0]);
    }
}
