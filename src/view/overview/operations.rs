//! The operations of a session: calls that belong together, each in one row.

use anyhow::Result;

use crate::mcp::link::Why;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{CaptureId, RowKey, StoreReader};
use crate::view::units::count;

/// Maximum number of operations that are listed: the first ones.
const LISTED: usize = 40;

/// An operation, with the reasons that link its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its first request.
    pub first: MessageNumber,
    /// Its method and the subject of its first request.
    pub name: String,
    /// The reasons why later messages belong to it, and the number of messages for each.
    pub links: Vec<(Why, u64)>,
}

impl Operation {
    /// The reasons in words: `2 × progress, 1 × with input`.
    pub fn words(&self) -> String {
        let words: Vec<String> = self.links.iter().map(|(why, times)| format!("{times} × {}", why.word())).collect();
        words.join(", ")
    }
}

/// The first operations of a session, and whether there are more.
pub fn read(reader: &StoreReader, capture: CaptureId, session: SessionNumber) -> Result<(Vec<Operation>, bool)> {
    let mut linked = reader.operations(capture, session, LISTED + 1)?;
    let more = linked.len() > LISTED;
    linked.truncate(LISTED);
    let mut operations = Vec::new();
    for (first, links) in linked {
        let row = reader.message_row(RowKey::new(capture, first.0))?;
        let name = row.map(|row| [row.method, row.subject].into_iter().flatten().collect::<Vec<_>>().join(" "));
        // That a response belongs to it adds nothing to its request.
        let links: Vec<_> = links.into_iter().filter(|(why, _)| *why != Why::Answer).collect();
        if !links.is_empty() {
            operations.push(Operation { first, name: name.unwrap_or_default(), links });
        }
    }
    Ok((operations, more))
}

/// The number of operations, for people.
pub fn total(operations: &[Operation], more: bool) -> String {
    let shown = count(operations.len() as u64, "operation");
    if more { format!("the first {shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Time;
    use crate::decode::Direction;
    use crate::event::Event;
    use crate::mcp::link::Link;
    use crate::mcp::{Message, Peers, Session, Transport};
    use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, Summary, WriteOptions, Writer};
    use crate::test_messages;

    /// A store with one session. Each message has the given link.
    fn store(links: &[Option<(u64, Why)>]) -> (StoreReader, CaptureId) {
        let place = DatabaseFile::temporary().unwrap();
        let info = CaptureInfo::begun(CaptureKind::Import, "one".into());
        let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
        let peers = Peers::Process { process: 1, command: Vec::new() };
        writer.event(Event::Session(Box::new(Session::opened(SessionNumber(1), Transport::Stdio, peers, Time(0)))));
        for (number, link) in (1..).zip(links) {
            let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
            let link = link.map(|(operation, why)| Link {
                operation: MessageNumber(operation),
                previous: MessageNumber(operation),
                why,
            });
            let message = test_messages::message(number, Time(0), Direction::ClientToServer, text);
            writer.event(Event::Message(Box::new(Message { link, ..message })));
        }
        let capture = writer.capture();
        writer.finish(&Summary::default()).unwrap();
        (StoreReader::open(place).unwrap(), capture)
    }

    #[test]
    fn an_operation_is_a_row_that_counts_its_reasons() {
        let progress = Some((1, Why::Progress));
        let links = [None, progress, None, progress, Some((1, Why::Retry)), Some((3, Why::Answer)), None];
        let (reader, capture) = store(&links);
        let (operations, more) = read(&reader, capture, SessionNumber(1)).unwrap();
        let rows: Vec<_> = operations.iter().map(|one| (one.first.0, one.name.as_str(), one.words())).collect();
        assert_eq!(rows, [(1, "tools/call add", "2 × progress, 1 × likely retry".to_owned())]);
        assert_eq!(total(&operations, more), "1 operation");
        assert_eq!(read(&reader, capture, SessionNumber(2)).unwrap(), (Vec::new(), false));
    }

    #[test]
    fn only_the_first_of_many_operations_are_listed() {
        let many = 2 * LISTED as u64;
        let links: Vec<_> = (1..=many).map(|_| None).chain((1..=many).map(|of| Some((of, Why::Cursor)))).collect();
        let (reader, capture) = store(&links);
        let (operations, more) = read(&reader, capture, SessionNumber(1)).unwrap();
        assert_eq!((operations.len(), operations[LISTED - 1].first.0), (LISTED, LISTED as u64));
        assert_eq!(total(&operations, more), "the first 40 operations");
    }
}
