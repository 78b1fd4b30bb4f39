//! A store for tests of exports that read one.

use crate::capture::Time;
use crate::event::Event;
use crate::mcp::{Message, Session};
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, StoreReader, WriteOptions, Writer};

/// A store of one capture with one session.
pub(super) fn store(session: &Session, messages: &[Message], more: impl IntoIterator<Item = Event>) -> StoreReader {
    let place = DatabaseFile::temporary().expect("a place");
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "test".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).expect("a writer");
    writer.event(Event::Session(Box::new(session.clone())));
    messages.iter().for_each(|message| writer.event(Event::Message(Box::new(message.clone()))));
    more.into_iter().for_each(|event| writer.event(event));
    writer.commit().expect("a store takes it");
    StoreReader::open(place).expect("a reader")
}
