//! The data blocks of a page, unpacked, as `src/export/html/block.rs` describes them. And the
//! scripts that show a page in a browser.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use serde_json::Value;

use crate::program::root;

/// Puts a script of `tests/browser` where Node finds puppeteer-core beside it. Several tests do so
/// at once, so each file is there whole or not at all.
pub fn browser_script(modules: &Path, name: &str) -> PathBuf {
    for name in ["browser.mjs", name] {
        let whole = tempfile::NamedTempFile::new_in(modules).expect("a file");
        fs::copy(root().join("tests/browser").join(name), whole.path()).expect("the script");
        whole.persist(modules.join(name)).expect("the script");
    }
    modules.join(name)
}

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
    let json: Value = serde_json::from_slice(&bytes[4..4 + length]).expect("JSON");
    let json = if matches!(&attribute("kind")[..], "rows" | "exchanges" | "findings") { items(&json) } else { json };
    let number = |name| attribute(name).parse().expect("a number");
    let (session, from) = (number("session"), number("from"));
    Block { kind: attribute("kind"), session, from, json, bytes: bytes.split_off(4 + length) }
}

/// A value of a column. A column whose values are all the same has one.
pub fn value_at(column: &Value, index: usize) -> &Value {
    let values = column.as_array().expect("a column");
    &values[if values.len() == 1 { 0 } else { index }]
}

/// The items of a table, as `src/export/html/columns.rs` describes it.
fn items(table: &Value) -> Value {
    let columns = table["columns"].as_object().expect("columns");
    let item = |index| columns.iter().map(|(name, column)| (name.clone(), value_at(column, index).clone())).collect();
    (0..table["length"].as_u64().expect("a length") as usize).map(|index| Value::Object(item(index))).collect()
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
