//! Headers as fields with words for people.

use super::*;

const SYN_ACK: &str = "\
link Ethernet II 0..14
  destination: 02:00:00:00:00:02
  source: 02:00:00:00:00:01
  type: 802.1Q (0x8100)
link 802.1Q 14..18
  identifier: 42
  priority: 5
  type: IPv4 (0x0800)
network IPv4 18..38
  source: 10.0.0.1
  destination: 10.0.0.2
  header length: 20
  dscp: 0
  ecn: not ECN-capable
  total length: 68
  identification: 0xabcd
  flags: don't fragment
  fragment offset: 0
  time to live: 64
  protocol: TCP (6)
  header checksum: 0x0000 (not filled in)
transport TCP 38..86
  source port: 40000
  destination port: 8000
  sequence number (raw): 7
  acknowledgment number (raw): 9
  header length: 48
  flags: [SYN, ACK]
  window: 1024
  checksum: 0x0000
  options: MSS 1460, SACK permitted, TSval 1 TSecr 2, multipath TCP abcd, NOP, WS 7 (multiply by 128)
  payload length: 0
";

#[test]
fn a_packet_in_words() {
    let mut syn = tcp(b"");
    syn.splice(20.., [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 30, 4, 0xab, 0xcd, 1, 1, 1, 3, 3, 7, 0, 0]);
    syn[12] = 0xc0;
    syn[13] = 0x12;
    let bytes = ethernet(0x8100, &with_ether_type(&[0xa0, 42], 0x0800, &ipv4(6, &syn)));
    let mut text = String::new();
    for header in headers(&packet(1, 1, &bytes)) {
        text += &format!("{} {} {}..{}\n", header.layer, header.protocol, header.start, header.end);
        header.fields.iter().for_each(|(name, value)| text += &format!("  {name}: {value}\n"));
    }
    assert_eq!(text, SYN_ACK);
}

#[test]
fn all_headers_are_described_up_to_the_payload() {
    for (name, link, bytes) in wrappings(TEXT) {
        let headers = headers(&packet(1, link, &bytes));
        let ends = headers.iter().map(|header| header.end);
        let starts = headers.iter().skip(1).map(|header| header.start);
        // Only the control word of a pseudowire is not listed.
        assert!(name == "MPLS pseudowire" || starts.eq(ends.take(headers.len() - 1)), "{name}: {headers:?}");
        let last = headers.last().expect("headers");
        assert_eq!((last.protocol.as_str(), last.end as usize), ("TCP", bytes.len() - TEXT.len()), "{name}");
        assert!(last.fields.contains(&("payload length", TEXT.len().to_string())), "{name}");
        assert_eq!(headers.first().map(|header| header.start), Some(0), "{name}");
    }
}

/// The place of a number holds the number: the table of places agrees with the decoder.
#[test]
fn numbers_are_where_their_places_say() {
    let mut checked = 0;
    for (name, link, bytes) in wrappings(TEXT) {
        for header in headers(&packet(1, link, &bytes)) {
            for (field, value) in &header.fields {
                let range = header.field_range(field);
                assert!(header.start <= range.start && range.end <= header.end, "{name}: {field}");
                let is_whole = (range.start, range.end) == (header.start, header.end);
                let own = &bytes[range.start as usize..range.end as usize];
                let number = own.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
                let width = own.len() * 2 + 2;
                let shares_bytes =
                    ["header length", "flags", "fragment offset", "dscp", "ecn", "flow label", "payload length"];
                let is_number = ["TCP", "UDP", "IPv4", "IPv6"].contains(&header.protocol.as_str());
                if is_number && !is_whole && own.len() <= 4 && field != &"options" && !shares_bytes.contains(field) {
                    let shown = [number.to_string(), format!("{number:#0width$x}"), format!("({number})")];
                    let is_shown = shown.iter().any(|shown| value.contains(shown.as_str()));
                    assert!(is_shown || value.contains('.'), "{name}: {} {field} {value}", header.protocol);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
}
