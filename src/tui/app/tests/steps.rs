//! The table of steps, read in pages while it grows.

use std::collections::BTreeSet;

use super::*;
use crate::mcp::MessageNumber;
use crate::store::{Page, RowKey, Scope};
use crate::tui::data::PAGE;
use crate::view::steps::{Step, StepTable};

/// All pages of the table so far. Each step occurs once, in order of first packet.
fn paged(index: &mut StepTable, reader: &StoreReader) -> Vec<Step> {
    index.grow(reader, &|| false).unwrap();
    let pages = (0..index.total()).step_by(PAGE).map(|first| index.steps(reader, first, PAGE).unwrap());
    let steps: Vec<Step> = pages.flatten().collect();
    assert_eq!(steps.len(), index.total());
    assert!(steps.iter().zip(1..).all(|(step, number)| step.number == number));
    assert!(steps.is_sorted_by_key(|step| step.packets.iter().min().copied()));
    steps
}

/// The messages that the steps refer to.
fn named(steps: &[Step]) -> Vec<MessageNumber> {
    steps.iter().flat_map(|step| step.messages.clone()).collect()
}

#[test]
fn a_growing_table_ends_complete_and_contains_every_message_once() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    for name in ["weather/capture", "helpdesk/capture", "helpdesk/stdio", "tls/capture", "polluted-stdout/stdio"] {
        let path = samples.join(format!("{name}.pcapng"));
        let place = DatabaseFile::temporary().unwrap();
        let import = Import::new(&[path], place.clone(), Decoding::default()).unwrap();
        let mut growing: Option<(StoreReader, Vec<(SessionNumber, StepTable)>)> = None;
        import.run(
            &mut |_| {
                // The store as far as it was written by now.
                let (reader, indexes) =
                    growing.get_or_insert_with(|| (StoreReader::open(place.clone()).unwrap(), Vec::new()));
                for session in reader.sessions(Page::<SessionNumber>::first(10)).unwrap() {
                    if !indexes.iter().any(|(number, _)| *number == session.number) {
                        indexes.push((session.number, StepTable::new(session.number, usize::MAX)));
                    }
                }
                indexes.iter_mut().for_each(|(_, index)| drop(paged(index, reader)));
            },
            &AtomicBool::new(false),
        );
        let (reader, mut indexes) = growing.unwrap();
        assert!(!indexes.is_empty());
        for (session, index) in &mut indexes {
            let steps = paged(index, &reader);
            assert_eq!(paged(&mut StepTable::new(*session, usize::MAX), &reader), steps, "{name}");
            let messages = reader.message_rows(Scope::Session(*session), Page::<RowKey>::first(10_000)).unwrap();
            let known: BTreeSet<MessageNumber> = messages.iter().map(|message| message.number).collect();
            let named = named(&steps);
            assert_eq!((named.len(), BTreeSet::from_iter(named)), (known.len(), known), "{name}");
        }
    }
}
