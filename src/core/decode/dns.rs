//! Names of servers, from DNS responses (RFC 1035).
//!
//! A message consists of a header, questions and records. A name is a chain of labels that may end
//! in a pointer to an earlier name. Only the records that lead from the question to addresses are
//! used: aliases (CNAME) and addresses (A, AAAA).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nom::bytes::complete::take;
use nom::combinator::verify;
use nom::error::{Error, ErrorKind};
use nom::multi::length_data;
use nom::number::complete::{be_u8, be_u16, be_u32};
use nom::{IResult, Parser};

/// A queried name and one address of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedName {
    /// The name in the question, in lower case, without the final dot. Bytes other than letters,
    /// digits, `-` and `_` are escaped as in zone files (`\.`, `\007`; RFC 1035 section 5.1), so it
    /// is safe to print.
    pub name: String,
    /// An address from the response, found directly or through aliases (CNAME).
    pub address: IpAddr,
}

/// Aliases that are followed from a question. Resolvers stop after 8 to 16. The bound
/// also ends loops.
const ALIASES: usize = 16;

/// The names and addresses in a DNS response. Empty for a query, an error, or bytes that are not
/// DNS. Of a truncated message, the complete records are used.
///
/// Multicast DNS responses have no question (RFC 6762 section 6). There each address belongs to the
/// name of its own record.
pub fn names(message: &[u8]) -> Vec<ResolvedName> {
    let Ok((mut rest, (questions, answers))) = header(message) else { return Vec::new() };
    let mut question_name = None;
    for _ in 0..questions {
        let Ok((behind, question)) = question(message, rest) else { return Vec::new() };
        rest = behind;
        question_name.get_or_insert(question);
    }
    let mut aliases = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..answers {
        let Ok((behind, (owner, data))) = record(message, rest) else { break };
        rest = behind;
        match data {
            RecordData::Alias(target) => aliases.push((owner, target)),
            RecordData::Address(address) => addresses.push((owner, address)),
            RecordData::Other => {}
        }
    }
    let Some(question_name) = question_name else {
        return addresses.into_iter().map(|(name, address)| ResolvedName { name, address }).collect();
    };
    let mut chain = vec![question_name.as_str()];
    while let Some((_, target)) = aliases.iter().find(|(owner, _)| chain.last() == Some(&owner.as_str())) {
        if chain.len() > ALIASES {
            break;
        }
        chain.push(target);
    }
    let answers = addresses.iter().filter(|(owner, _)| chain.contains(&owner.as_str()));
    answers.map(|(_, address)| ResolvedName { name: question_name.clone(), address: *address }).collect()
}

/// The data of a record, if it is of a type that leads to an address.
enum RecordData {
    Alias(String),
    Address(IpAddr),
    Other,
}

/// The numbers of questions and of answers (RFC 1035 section 4.1.1).
///
/// Fails unless the message is a response (QR) to a standard query (opcode 0) without
/// error (RCODE 0).
fn header(input: &[u8]) -> IResult<&[u8], (u16, u16)> {
    const RESPONSE: u16 = 0x8000;
    const OPCODE: u16 = 0x7800;
    const RCODE: u16 = 0x000f;
    let is_answer = |flags: &u16| flags & (RESPONSE | OPCODE | RCODE) == RESPONSE;
    let (rest, (_identification, _flags, questions, answers, _authorities, _additional)) =
        (be_u16, verify(be_u16, is_answer), be_u16, be_u16, be_u16, be_u16).parse(input)?;
    Ok((rest, (questions, answers)))
}

/// The name in a question. A type and a class follow it (RFC 1035 section 4.1.2).
fn question<'a>(message: &'a [u8], input: &'a [u8]) -> IResult<&'a [u8], String> {
    let (rest, name) = name(message, input)?;
    let (rest, _type_and_class) = be_u32(rest)?;
    Ok((rest, name))
}

/// A record: its name and its data (RFC 1035 section 4.1.3).
fn record<'a>(message: &'a [u8], input: &'a [u8]) -> IResult<&'a [u8], (String, RecordData)> {
    const A: u16 = 1;
    const CNAME: u16 = 5;
    const AAAA: u16 = 28;
    // The upper bit means "cache flush" in multicast DNS (RFC 6762 section 10.2).
    const INTERNET: u16 = 1;
    let (rest, owner) = name(message, input)?;
    let (rest, (kind, class, _time_to_live, bytes)) = (be_u16, be_u16, be_u32, length_data(be_u16)).parse(rest)?;
    let data = match kind {
        _ if class & 0x7fff != INTERNET => RecordData::Other,
        A => <[u8; 4]>::try_from(bytes)
            .map_or(RecordData::Other, |bytes| RecordData::Address(Ipv4Addr::from(bytes).into())),
        AAAA => <[u8; 16]>::try_from(bytes)
            .map_or(RecordData::Other, |bytes| RecordData::Address(Ipv6Addr::from(bytes).into())),
        CNAME => RecordData::Alias(name(message, &input[input.len() - rest.len() - bytes.len()..])?.1),
        _ => RecordData::Other,
    };
    Ok((rest, (owner, data)))
}

/// A name (RFC 1035 sections 3.1 and 4.1.4). `input` is the rest of `message`, from the name on.
fn name<'a>(message: &'a [u8], input: &'a [u8]) -> IResult<&'a [u8], String> {
    let failed = |kind| Err(nom::Err::Error(Error::new(input, kind)));
    let mut text = String::new();
    let mut labels = input;
    // "The total length of a domain name (i.e., label octets and label length octets) is restricted
    // to 255 octets or less."
    let mut left = 255_usize;
    // The record continues after its first pointer.
    let mut behind = None;
    // A pointer leads to "a prior occurance of the same name". Each must lead further back than the
    // one before, so there are no loops.
    let mut before = message.len() - input.len();
    loop {
        let (rest, length) = be_u8(labels)?;
        match length {
            0 => return Ok((behind.unwrap_or(rest), text)),
            1..=63 => {
                let (rest, label) = take(length)(rest)?;
                let Some(less) = left.checked_sub(label.len() + 1) else { return failed(ErrorKind::TooLarge) };
                (left, labels) = (less, rest);
                push_label(label, &mut text);
            }
            0xc0.. => {
                let (rest, low) = be_u8(rest)?;
                let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                if target >= before {
                    return failed(ErrorKind::Verify);
                }
                before = target;
                behind.get_or_insert(rest);
                labels = &message[target..];
            }
            // "The 10 and 01 combinations are reserved for future use."
            _ => return failed(ErrorKind::Switch),
        }
    }
}

/// Appends a label in lower case: names are compared without regard to case (RFC
/// 1035 section 2.3.3).
fn push_label(label: &[u8], text: &mut String) {
    if !text.is_empty() {
        text.push('.');
    }
    for byte in label.to_ascii_lowercase() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
            b'!'..=b'~' => text.extend(['\\', char::from(byte)]),
            _ => text.push_str(&format!("\\{byte:03}")),
        }
    }
}

/// The body of the fuzz target: decodes any bytes as a DNS message.
///
/// Checks that names are printable, that there are no more than the bytes can contain, and that a
/// truncated message yields nothing that the whole one does not.
pub fn fuzz_dns(data: &[u8]) {
    let whole = names(data);
    for name in &whole {
        assert!(name.name.bytes().all(|byte| byte.is_ascii_graphic()), "a name is safe to print");
        assert!(name.name.len() <= 4 * 255, "a name is as long as the wire allows");
    }
    assert!(whole.len() <= data.len() / 15, "the shortest record of an address has fifteen bytes");
    let cut = names(&data[..data.len() / 2]);
    assert!(cut.iter().all(|name| whole.contains(name)), "a part of the records tells a part of the names");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A response: `mcp.Example.com` is an alias of `edge.example.net`, which has two addresses. It
    /// also contains an address of an unrelated name.
    fn answer() -> Vec<u8> {
        let mut message = b"\x12\x34\x81\x80\0\x01\0\x05\0\0\0\0".to_vec();
        message.extend(b"\x03mcp\x07Example\x03com\0\0\x01\0\x01"); // 12: the question; 16: "Example.com"; 24: "com"
        message.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x12\x04edge\x07example\x03net\0"); // 45: "edge.example.net"
        message.extend(b"\xc0\x2d\0\x01\0\x01\0\0\0\x3c\0\x04\xd8\x18\x39\x07");
        message.extend(b"\xc0\x2d\0\x1c\0\x01\0\0\0\x3c\0\x10\x26\x06\x47\0\0\0\0\0\0\0\0\0\0\0\0\x01");
        message.extend(b"\xc0\x10\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01");
        message.extend(b"\xc0\x2d\0\x10\0\x01\0\0\0\x3c\0\x03\x02hi");
        message
    }

    fn name(name: &str, address: &str) -> ResolvedName {
        ResolvedName { name: name.to_owned(), address: address.parse().unwrap() }
    }

    #[test]
    fn the_question_gets_the_addresses_of_its_alias() {
        assert_eq!(names(&answer()), [name("mcp.example.com", "216.24.57.7"), name("mcp.example.com", "2606:4700::1")]);
    }

    #[test]
    fn a_truncated_message_yields_its_complete_records() {
        let (whole, all) = (answer(), names(&answer()));
        for cut in 0..whole.len() {
            let some = names(&whole[..cut]);
            assert_eq!(some, all[..some.len()], "cut to {cut}");
        }
        let mut trailing = whole.clone();
        trailing.extend(b"\xc0\x0c trailing");
        assert_eq!(names(&trailing), all);
    }

    #[test]
    fn queries_and_errors_yield_nothing() {
        let mut message = answer();
        for (flags, what) in [(0x01, "a query"), (0x89, "opcode 1")] {
            message[2] = flags;
            assert_eq!(names(&message), [], "{what}");
        }
        message[2..4].copy_from_slice(b"\x81\x83");
        assert_eq!(names(&message), [], "no such name");
    }

    #[test]
    fn pointers_lead_back_or_nowhere() {
        let head = b"\0\0\x84\0\0\0\0\x01\0\0\0\0".to_vec();
        for pointer in [b"\xc0\x0c", b"\xc0\x0d", b"\xc0\xff", b"\x80\0", b"\x40\0"] {
            let mut message = head.clone();
            message.extend(pointer);
            message.extend(b"\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01");
            assert_eq!(names(&message), [], "{pointer:?}");
        }
    }

    #[test]
    fn circles_of_aliases_end() {
        let mut message = b"\0\0\x81\x80\0\x01\0\x03\0\0\0\0\x01a\0\0\x01\0\x01".to_vec();
        message.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\0\0\x03\x01b\0"); // 31: "b"
        message.extend(b"\xc0\x1f\0\x05\0\x01\0\0\0\0\0\x02\xc0\x0c");
        message.extend(b"\xc0\x1f\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01");
        assert_eq!(names(&message), [name("a", "127.0.0.1")]);
    }

    #[test]
    fn multicast_answers_name_themselves_and_print_safely() {
        let mut message = b"\0\0\x84\0\0\0\0\x01\0\0\0\0".to_vec();
        message.extend(b"\x06My.\x1b\xc3\xa9\x05local\0\0\x01\x80\x01\0\0\0\x78\0\x04\x0a\0\0\x05");
        assert_eq!(names(&message), [name("my\\.\\027\\195\\169.local", "10.0.0.5")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_bytes_are_a_message(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz_dns(&data);
        }

        #[test]
        fn damaged_answers_are_messages(damage in proptest::collection::vec((0usize..140, any::<u8>()), 1..8)) {
            let mut message = answer();
            for (place, byte) in damage {
                let place = place % message.len();
                message[place] = byte;
            }
            fuzz_dns(&message);
        }
    }
}
