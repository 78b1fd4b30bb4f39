use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use proptest::prelude::*;

use super::*;
use crate::mcp::{MessageNumber, Party, Session};
use crate::test_messages;

/// The rows of the written file, column by column, and the number of groups.
fn read(session: &Session, messages: &[Message]) -> (Vec<Vec<(String, Field)>>, usize) {
    let file = tempfile::tempfile().unwrap();
    let mut parquet = Parquet::new(file.try_clone().unwrap()).unwrap();
    messages.iter().for_each(|message| parquet.message(session, message.clone()).unwrap());
    parquet.finish().unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    (rows.map(|row| row.unwrap().into_columns()).collect(), reader.num_row_groups())
}

fn field<'r>(row: &'r [(String, Field)], name: &str) -> &'r Field {
    &row.iter().find(|(known, _)| known == name).expect("a column").1
}

fn text(text: &str) -> Field {
    Field::Str(text.to_owned())
}

#[test]
fn a_message_is_a_row() {
    let mut messages = test_messages::read(
        r#"
        -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}
        <- {"jsonrpc":"2.0","id":1,"result":{"isError":true}}
        <- {"jsonrpc":"2.0","method":"notifications/message"}
        "#,
    );
    messages[1].findings = vec!["schema-result-invalid", "a"];
    messages[2].raw = b"\xff".to_vec().into();
    let server = Some(Party { name: "server".to_owned(), version: "2".to_owned() });
    let (rows, _) = read(&Session { server, ..test_messages::session(&messages) }, &messages);
    let [request, response, notification] = rows.as_slice() else { panic!("three rows: {rows:?}") };
    for (row, name, value) in [
        (request, "number", Field::Long(1)),
        (request, "kind", text("request")),
        (request, "id", text("1")),
        (request, "answered_by", Field::Long(2)),
        (request, "status", Field::Null),
        (request, "server", text("server 2")),
        (request, "client", Field::Null),
        (response, "method", text("tools/call")),
        (response, "status", text("tool-error")),
        (response, "latency_ns", Field::Long(test_messages::TICK)),
        (response, "answers", Field::Long(1)),
        (response, "redelivered", Field::Bool(false)),
        (response, "bytes", Field::Null),
        (notification, "text", Field::Null),
        (notification, "size", Field::Long(1)),
        (notification, "id", Field::Null),
    ] {
        assert_eq!(*field(row, name), value, "{name}");
    }
    assert!(matches!(field(notification, "bytes"), Field::Bytes(bytes) if bytes.data() == b"\xff"));
    let found = |row| match field(row, "findings") {
        Field::ListInternal(list) => list.elements().to_vec(),
        other => panic!("a list: {other:?}"),
    };
    assert_eq!((found(request), found(response)), (vec![], vec![text("schema-result-invalid"), text("a")]));
}

#[test]
fn a_session_without_messages_is_a_file_without_rows() {
    assert_eq!(read(&test_messages::session(&[]), &[]), (Vec::new(), 0));
}

#[test]
fn long_texts_end_a_group() {
    let long = format!(r#"-> {{"method":"x","params":{{"a":"{}"}}}}"#, "a".repeat(BYTES / 2));
    let messages = test_messages::read(&[&*long, &*long, "-> {}", &*long].join("\n"));
    let (rows, groups) = read(&test_messages::session(&messages), &messages);
    assert_eq!((rows.len(), groups), (4, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rows are found again whole when any value is missing or empty.
    #[test]
    fn written_files_are_read_again(
        records in prop::collection::vec((any::<Option<String>>(), any::<Option<u32>>(), any::<Vec<u8>>(), 0..4_usize), 0..40),
    ) {
        let mut messages = test_messages::read(&"-> {}\n".repeat(records.len()));
        for (message, (method, answers, raw, findings)) in messages.iter_mut().zip(&records) {
            message.method = method.as_deref().map(Into::into);
            message.answers = answers.map(|number| MessageNumber(number.into()));
            message.raw = raw.clone().into();
            message.findings = ["a", "", "c"][..*findings % 4].to_vec();
        }
        let (rows, _) = read(&test_messages::session(&messages), &messages);
        prop_assert_eq!(rows.len(), records.len());
        for (row, (method, answers, raw, findings)) in rows.iter().zip(&records) {
            prop_assert_eq!(field(row, "method"), &method.as_deref().map_or(Field::Null, text));
            prop_assert_eq!(field(row, "answers"), &answers.map_or(Field::Null, |number| Field::Long(number.into())));
            match std::str::from_utf8(raw) {
                Ok(raw) => prop_assert_eq!(field(row, "text"), &text(raw)),
                Err(_) => prop_assert!(matches!(field(row, "bytes"), Field::Bytes(bytes) if bytes.data() == raw)),
            }
            let Field::ListInternal(list) = field(row, "findings") else { panic!("a list") };
            prop_assert_eq!(list.len(), *findings);
        }
    }
}
