//! The fingerprint of a ClientHello in the form of JA4 (<https://github.com/FoxIO-LLC/ja4>, technical details "JA4"): which program,
//! or rather which TLS library and settings, a client is.
//!
//! ```text
//! t13d1516h2_8daaf6152771_e5627efa2ab1
//! │││ │ │ └ first and last character of the first ALPN     │            └ of the extensions in order and the signature algorithms
//! │││ │ └ extensions       └ SHA-256 of the suites in order, twelve digits
//! ││└ suites
//! │└ with a server name (d) or to an address (i)
//! TCP, best version
//! ```

use std::fmt::Write;

use ring::digest;

use super::handshake::Version;

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;

/// Of the versions offered, the list of suites as sent, and the extensions as sent.
pub(super) fn fingerprint(versions: &[Version], suites: &[u8], extensions: &[(u16, &[u8])]) -> String {
    let version = match versions.iter().max().map(|version| version.0) {
        Some(0x0304) => "13",
        Some(0x0303) => "12",
        Some(0x0302) => "11",
        Some(0x0301) => "10",
        Some(0x0300) => "s3",
        _ => "00",
    };
    let mut suites = numbers(suites);
    suites.sort_unstable();
    let mut kinds: Vec<u16> = extensions.iter().map(|(kind, _)| *kind).filter(|kind| !is_reserved(*kind)).collect();
    let named = if kinds.contains(&SERVER_NAME) { 'd' } else { 'i' };
    let count = kinds.len().min(99);
    // What is always there or depends on the server tells nothing of the client.
    kinds.retain(|kind| !matches!(*kind, SERVER_NAME | ALPN));
    kinds.sort_unstable();
    let content = |kind: u16| extensions.iter().find(|(known, _)| *known == kind).map(|(_, data)| *data);
    let algorithms = content(SIGNATURE_ALGORITHMS).and_then(|data| data.get(2..)).map(numbers).unwrap_or_default();
    let mut second = list(&kinds);
    if !algorithms.is_empty() {
        second = format!("{second}_{}", list(&algorithms));
    }
    let alpn = content(ALPN).map_or_else(|| "00".to_owned(), ends);
    let number = suites.len().min(99);
    let (first, second) = (hash(&list(&suites)), hash(&second));
    format!("t{version}{named}{number:02}{count:02}{alpn}_{first}_{second}")
}

/// The first and the last character of the first protocol name; of their hexadecimal digits where they are not alphanumeric.
fn ends(alpn: &[u8]) -> String {
    let name = match alpn {
        [_, _, length, rest @ ..] => rest.get(..usize::from(*length)).unwrap_or_default(),
        _ => &[],
    };
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return "00".to_owned() };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [*first, *last].map(char::from).iter().collect();
    }
    let (first, last) = (format!("{first:02x}"), format!("{last:02x}"));
    [&first[..1], &last[1..]].concat()
}

fn numbers(bytes: &[u8]) -> Vec<u16> {
    let pairs = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    pairs.filter(|number| !is_reserved(*number)).collect()
}

/// RFC 8701 section 2: values that clients send so that servers get used to unknown ones.
fn is_reserved(number: u16) -> bool {
    number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff
}

fn list(numbers: &[u16]) -> String {
    let mut text = String::new();
    for number in numbers {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{number:04x}");
    }
    text
}

/// The first twelve digits of the SHA-256; zeros where there is nothing.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return "000000000000".to_owned();
    }
    digest::digest(&digest::SHA256, text.as_bytes()).as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the technical details: a browser.
    #[test]
    fn the_published_example() {
        let suites = "1301 1302 1303 c02b c02f c02c c030 cca9 cca8 c013 c014 009c 009d 002f 0035 0a0a";
        let bytes: Vec<u8> = suites
            .split(' ')
            .flat_map(|digits| u16::from_str_radix(digits, 16).expect("digits").to_be_bytes())
            .collect();
        let algorithms = [0, 16, 4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6, 6, 1];
        let kinds: [u16; 17] =
            [0x1b, 0, 0x33, 0x10, 0x4469, 0x17, 0x2d, 0x0d, 5, 0x23, 0x12, 0x2b, 0xff01, 0x0b, 0x0a, 0x15, 0x2a2a];
        let extensions: Vec<(u16, &[u8])> = kinds
            .iter()
            .map(|kind| match kind {
                0x0d => (*kind, algorithms.as_slice()),
                0x10 => (*kind, b"\0\x0c\x02h2\x08http/1.1".as_slice()),
                _ => (*kind, [].as_slice()),
            })
            .collect();
        let text = fingerprint(&[Version(0x0304), Version(0x0303)], &bytes, &extensions);
        assert_eq!(text, "t13d1516h2_8daaf6152771_e5627efa2ab1");
    }

    #[test]
    fn an_empty_hello() {
        assert_eq!(fingerprint(&[], &[], &[]), "t00i000000_000000000000_000000000000");
        assert_eq!(
            fingerprint(&[Version(0x0303)], &[0, 0x2f, 9], &[(16, b"\0\x02\x01\xff")]),
            "t12i0101ff_ba72b8082249_000000000000"
        );
    }
}
