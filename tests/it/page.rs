//! The data blocks of a page, unpacked. `src/export/html/block.rs` describes them.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use serde_json::Value;

/// A data block of a page.
pub struct Block {
    pub kind: String,
    pub session: u64,
    /// The position of its first row in the timeline.
    pub from: u64,
    pub json: Value,
    /// The bytes that the JSON refers to.
    pub bytes: Vec<u8>,
}

/// The data blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let begin = "<script type=\"application/octet-stream\" ";
    page.split(begin).skip(1).map(|block| read(block.split("</script>").next().unwrap_or_default())).collect()
}

fn read(block: &str) -> Block {
    let (attributes, packed) = block.split_once('>').expect("a tag ends");
    let attribute = |name: &str| {
        let start = format!("data-{name}=\"");
        let value = attributes.split(&start).nth(1).and_then(|rest| rest.split('"').next());
        value.unwrap_or_else(|| panic!("no {name}: {attributes}")).to_owned()
    };
    let packed = STANDARD.decode(packed).expect("base64");
    let mut bytes = Vec::new();
    DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("deflated");
    let length = u32::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    let json = serde_json::from_slice(&bytes[4..4 + length]).expect("JSON");
    let number = |name| attribute(name).parse().expect("a number");
    let (session, from) = (number("session"), number("from"));
    Block { kind: attribute("kind"), session, from, json, bytes: bytes.split_off(4 + length) }
}

/// A page with the content of its blocks behind it, to search in.
pub fn unpacked(page: &[u8]) -> Vec<u8> {
    let mut all = page.to_vec();
    for block in blocks(&String::from_utf8_lossy(page)) {
        all.extend(block.json.to_string().into_bytes());
        all.extend(block.bytes);
    }
    all
}
