//! Recordings written as conversations, for tests: `-> {"id":1,"method":"ping"}`.

use super::{Recording, Script};
use crate::capture::Time;
use crate::event::Event;
use crate::mcp::Message;
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, StoreReader, Summary, WriteOptions, Writer};
pub use crate::talk::{TICK, read};

/// A recording of those messages.
pub fn recording(text: &str) -> Recording {
    let messages = read(text);
    Recording { session: crate::talk::session(&messages), messages }
}

/// The same, saved and read for replay.
pub fn script(text: &str) -> Script {
    recorded(&read(text))
}

/// Messages, saved and read for replay.
pub fn recorded(messages: &[Message]) -> Script {
    let place = DatabaseFile::temporary().unwrap();
    let info = CaptureInfo { kind: CaptureKind::Import, source: String::new(), process: 1, started: Time(0) };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    writer.event(Event::Session(Box::new(crate::talk::session(messages))));
    messages.iter().for_each(|message| writer.event(Event::Message(Box::new(message.clone()))));
    writer.finish(&Summary::default()).unwrap();
    let reader = StoreReader::open(place).unwrap();
    let session = reader.latest_session().unwrap().unwrap();
    Script::read(&reader, session).unwrap()
}
