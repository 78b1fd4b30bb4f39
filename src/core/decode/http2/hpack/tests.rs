//! Examples of RFC 7541, losses, and any blocks.

use super::super::fuzz::fuzz_hpack;
use super::*;
use crate::decode::mask::{Mask, MaskKey};
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The fields of a block, with `?` for unknown names and values.
fn fields(hpack: &mut Hpack, block: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut fields = Vec::new();
    let text = |bytes: Option<&[u8]>| bytes.map_or("?".into(), |bytes| String::from_utf8_lossy(bytes).into_owned());
    hpack.decode(block, &mut |field| fields.push(format!("{}: {}", text(field.name), text(field.value))))?;
    Ok(fields)
}

/// Decodes the blocks of one connection from RFC 7541 appendix C, and compares the fields.
fn example(blocks: &[(&str, &[&str])]) {
    let mut hpack = Hpack::new();
    let mut script = Vec::new();
    for (hex, expected) in blocks {
        let block = bytes(hex);
        assert_eq!(fields(&mut hpack, &block).unwrap(), *expected, "{hex}");
        script.push(block.len() as u8);
        script.extend(block);
    }
    fuzz_hpack(&script);
}

/// A mask with a tag is a string of Huffman codes of the same length.
#[test]
fn a_tag_is_coded_in_five_bytes() {
    let (value, length) = (b"ghp_16C7e42F292c6912E7710c838347Ae178B4a", 31);
    let mask = Mask::of(Some(MaskKey::new([7; 16])), value);
    let mut plain = value.to_vec();
    mask.cover(&mut plain);
    let mut block = bytes("0001 78");
    block.push(0x80 | length as u8);
    let start = block.len();
    block.resize(start + length, 0);
    mask.huffman(length).cover(&mut block[start..]);
    let stars = "*".repeat(length - 5);
    let tag = String::from_utf8_lossy(&plain[value.len() - 8..]).into_owned();
    assert_eq!(fields(&mut Hpack::new(), &block).unwrap(), [format!("x: {stars}{tag}")]);
}

#[test]
fn appendix_c_2_header_fields() {
    example(&[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", &["custom-key: custom-header"])]);
    example(&[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"])]);
    example(&[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"])]);
    example(&[("82", &[":method: GET"])]);
}

const REQUESTS: [&[&str]; 3] = [
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

#[test]
fn appendix_c_3_requests() {
    example(&[
        ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0]),
        ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]),
        ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", REQUESTS[2]),
    ]);
}

#[test]
fn appendix_c_4_requests_with_huffman_codes() {
    example(&[
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]),
        ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]),
        ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2]),
    ]);
}

/// The responses of appendices C.5 and C.6. Their table holds 256 bytes, which the first block sets
/// as an encoder would.
const RESPONSES: [&[&str]; 3] = [
    &[
        ":status: 302",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 307",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        "location: https://www.example.com",
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ],
];

#[test]
fn appendix_c_5_responses() {
    example(&[
        (
            "3fe101 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d \
             546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            RESPONSES[0],
        ),
        ("4803 3330 37c1 c0bf", RESPONSES[1]),
        (
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d \
             4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 \
             7369 6f6e 3d31",
            RESPONSES[2],
        ),
    ]);
}

#[test]
fn appendix_c_6_responses_with_huffman_codes() {
    example(&[
        (
            "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 \
             8f0b 97c8 e9ae 82ae 43d3",
            RESPONSES[0],
        ),
        ("4883 640e ffc1 c0bf", RESPONSES[1]),
        (
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf \
             cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            RESPONSES[2],
        ),
    ]);
}

#[test]
fn behind_a_loss_only_what_refers_to_it_is_unknown() {
    let mut hpack = Hpack::new();
    fields(&mut hpack, &bytes("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d")).unwrap();
    hpack.lose();
    // The authority was sent before the loss; cache-control is new.
    let lost = fields(&mut hpack, &bytes("8286 84be 5808 6e6f 2d63 6163 6865")).unwrap();
    assert_eq!(lost, [":method: GET", ":scheme: http", ":path: /", "?: ?", "cache-control: no-cache"]);
    // The newest entry is known again, the one before is not. A value whose name is unknown still
    // counts as an entry.
    let mixed = fields(&mut hpack, &bytes("be bf 7f00 0161 be 5f82 0161")).unwrap();
    assert_eq!(mixed[..2], ["cache-control: no-cache", "?: ?"]);
    assert_eq!(mixed[2..4], ["?: a", "?: a"]);
    assert_eq!(fields(&mut hpack, &bytes("c0")).unwrap(), ["cache-control: no-cache"]);
}

#[test]
fn what_is_no_block_is_malformed() {
    for hex in ["80", "7f", "ff ff ff ff ff ff", "40 05 61", "00 01 61", "40 81 ff 00", "3f ff ff ff ff ff"] {
        assert!(fields(&mut Hpack::new(), &bytes(hex)).is_err(), "{hex}");
    }
    assert_eq!(fields(&mut Hpack::new(), &bytes("20 3f e1 ff 03")), Ok(Vec::new()), "sizes of the table alone");
}

proptest! {
    #[test]
    fn any_blocks(data: Vec<u8>) {
        fuzz_hpack(&data);
    }

    #[test]
    fn blocks_of_likely_bytes(data in prop::collection::vec(prop::sample::select(
        &[0x82, 0x88, 0xbe, 0xbf, 0xc0, 0x40, 0x41, 0x0f, 0x10, 0x57, 0x60, 0x20, 0x3f, 0x01, 0x02, 0x03, 0x81, 0x82, 0x1f, 0x61, 0xf9][..]), 0..200)) {
        fuzz_hpack(&data);
    }
}
