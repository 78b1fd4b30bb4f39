use proptest::prelude::*;
use serde_json::Value;

use super::*;

const TEXT: &[u8] =
    br#" {"jsonrpc":"2.0", "id":4,"result":{"content":[{"type":"text","text":"a\"]}"},[]],"a b":{} } } "#;

fn rows(tree: &Tree, text: &[u8]) -> Vec<String> {
    let row = |row| {
        let node = tree.node(row).unwrap();
        format!("{} {:?}", tree.path(text, row), node.kind)
    };
    (0..tree.len()).map(row).collect()
}

#[test]
fn a_text_opens_into_rows() {
    let tree = Tree::new(TEXT).unwrap();
    assert_eq!(
        rows(&tree, TEXT),
        [
            "$ Object(3)",
            "$.jsonrpc String",
            "$.id Plain",
            "$.result Object(2)",
            "$.result.content Array(2)",
            "$.result.content[0] Object(2)",
            "$.result.content[0].type String",
            "$.result.content[0].text String",
            "$.result.content[1] Array(0)",
            "$.result['a b'] Object(0)",
        ]
    );
    assert_eq!(&TEXT[tree.node(7).unwrap().value.clone()], br#""a\"]}""#);
    assert_eq!(tree.parent(7), Some(5));
}

#[test]
fn folding_hides_and_a_byte_reveals() {
    let mut tree = Tree::new(TEXT).unwrap();
    tree.set_open(TEXT, 3, false);
    assert_eq!(tree.len(), 4);
    let offset = TEXT.windows(3).position(|bytes| bytes == b"]}\"").unwrap();
    assert_eq!(tree.reveal(TEXT, offset), Some(7));
    assert_eq!(tree.len(), 10);
}

#[test]
fn other_text_has_no_tree_and_depth_is_harmless() {
    assert!(Tree::new(b"{").is_none());
    assert!(Tree::new(b"").is_none());
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    if let Some(tree) = Tree::new(deep.as_bytes()) {
        assert!(tree.len() <= ROWS_AT_FIRST);
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,8}|[\\\\\"{}\\[\\],:üπ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\{}]{0,4}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The text of each node, parsed as JSON, is the value that serde_json finds there.
    #[test]
    fn nodes_are_where_the_values_are(value in json(), pretty: bool) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        let mut tree = Tree::new(&text).unwrap();
        tree.unfold_all(&text);
        let leaves = (0..tree.len()).map(|row| tree.node(row).unwrap());
        let mut count = 0;
        for node in leaves {
            let own: Value = serde_json::from_slice(&text[node.value.clone()]).unwrap();
            let children = match &own {
                Value::Object(map) => { prop_assert_eq!(node.kind, JsonKind::Object(map.len())); map.len() }
                Value::Array(list) => { prop_assert_eq!(node.kind, JsonKind::Array(list.len())); list.len() }
                Value::String(_) => { prop_assert_eq!(node.kind, JsonKind::String); 0 }
                _ => { prop_assert_eq!(node.kind, JsonKind::Plain); 0 }
            };
            count += children;
        }
        prop_assert_eq!(count + 1, tree.len());
        for offset in 0..text.len() {
            let row = tree.reveal(&text, offset).unwrap();
            let range = tree.node(row).unwrap().range();
            prop_assert!(range.contains(&offset) || row == 0);
        }
    }
}
