//! Recordings for tests, written as conversations: `-> {"id":1,"method":"ping"}`.

use super::{AnalyzedRecording, Recording};
use crate::event::Event;
use crate::mcp::Message;
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, StoreReader, Summary, WriteOptions, Writer};
pub use crate::test_messages::{TICK, read};

/// A recording of these messages in memory.
pub fn recording(text: &str) -> Recording {
    let messages = read(text);
    Recording { session: crate::test_messages::session(&messages), messages }
}

/// The same messages, saved and analyzed for replay.
pub fn analyzed(text: &str) -> AnalyzedRecording {
    analyze(&read(text))
}

/// Saves messages and analyzes them for replay.
pub fn analyze(messages: &[Message]) -> AnalyzedRecording {
    let place = DatabaseFile::temporary().unwrap();
    let info = CaptureInfo::begun(CaptureKind::Import, String::new());
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    writer.event(Event::Session(Box::new(crate::test_messages::session(messages))));
    messages.iter().for_each(|message| writer.event(Event::Message(Box::new(message.clone()))));
    writer.finish(&Summary::default()).unwrap();
    let reader = StoreReader::open(place).unwrap();
    let session = reader.latest_session().unwrap().unwrap();
    AnalyzedRecording::read(&reader, session).unwrap()
}
