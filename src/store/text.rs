//! Texts of messages at rest: short ones as they are, long ones as zstd frames, mostly one.

use std::cell::RefCell;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error};
use zstd::bulk::{Compressor, Decompressor};

use super::codec::Damaged;
use crate::capture::Limits;

/// The fastest level that still codes literals. Measured on messages of 2 KB: 344 MB/s and a
/// ratio of 3.6, where level 1 does 148 MB/s for a ratio of 3.8; on chunks of packets there is
/// little between them.
const LEVEL: i32 = -1;

/// Below this a frame's head and tables eat up what is gained.
const WORTH_COMPRESSING: usize = 1 << 10;

/// A text as its column holds it. The type tells the two apart, for plain SQL too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// UTF-8, kept as TEXT.
    Plain(Vec<u8>),
    /// Zstd frames, kept as BLOB; what is not UTF-8, however short.
    Packed(Vec<u8>),
}

impl Text {
    /// A text of which there are frames already.
    pub(super) fn smaller(raw: Vec<u8>, frames: Vec<u8>) -> Text {
        if frames.len() >= raw.len() && simdutf8::basic::from_utf8(&raw).is_ok() {
            Text::Plain(raw)
        } else {
            Text::Packed(frames)
        }
    }

    /// Bytes it takes.
    pub(super) fn len(&self) -> usize {
        match self {
            Text::Plain(bytes) | Text::Packed(bytes) => bytes.len(),
        }
    }

    /// As its column holds it.
    pub(super) fn column(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(match self {
            Text::Plain(bytes) => ValueRef::Text(bytes),
            Text::Packed(bytes) => ValueRef::Blob(bytes),
        })
    }

    /// The text as it was transmitted.
    pub(super) fn read(column: ValueRef<'_>) -> Result<Vec<u8>, Damaged> {
        match column {
            ValueRef::Text(text) => Ok(text.to_vec()),
            ValueRef::Blob(frame) => unpack(frame, Limits::default().message),
            _ => Err(Damaged("the text of a message")),
        }
    }
}

/// Compresses, keeping its tables and its buffer between texts.
pub(super) struct Packer {
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> std::io::Result<Packer> {
        Ok(Packer { compressor: Compressor::new(LEVEL)?, buffer: Vec::new() })
    }

    /// Gives up its tables and its buffer, for the time in which there is nothing to compress.
    pub(super) fn rest(&mut self) {
        if let Ok(unused) = Packer::new() {
            *self = unused;
        }
    }

    /// The text as it is to be kept: what is smaller.
    pub(super) fn text(&mut self, raw: Vec<u8>) -> Text {
        if raw.len() < WORTH_COMPRESSING && simdutf8::basic::from_utf8(&raw).is_ok() {
            return Text::Plain(raw);
        }
        match self.frame(&raw) {
            Ok(frame) => Text::smaller(raw, frame),
            // No memory for zstd's tables: SQLite keeps any bytes as TEXT.
            Err(_) => Text::Plain(raw),
        }
    }

    /// A zstd frame of `raw`.
    pub(super) fn frame(&mut self, raw: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut frame = Vec::new();
        self.append(raw, &mut frame)?;
        Ok(frame)
    }

    /// Puts a zstd frame of `raw` behind others.
    pub(super) fn append(&mut self, raw: &[u8], frames: &mut Vec<u8>) -> std::io::Result<()> {
        self.buffer.clear();
        self.buffer.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        self.compressor.compress_to_buffer(raw, &mut self.buffer)?;
        frames.extend_from_slice(&self.buffer);
        // One text of 100 MB shall not be paid for till the end.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }
}

/// What zstd frames hold, unless that is more than `most` bytes: a frame of a few bytes can
/// stand for gigabytes.
pub(super) fn unpack(frame: &[u8], most: usize) -> Result<Vec<u8>, Damaged> {
    let mut raw = Vec::new();
    unpack_into(&mut raw, frame, most)?;
    Ok(raw)
}

/// What `look` says of a packed text. Nothing is kept of it: for scans, in which most of the time
/// would go to allocation.
pub(super) fn look_at<T>(frame: &[u8], look: impl FnOnce(&[u8]) -> T) -> Result<T, Damaged> {
    SEEN.with_borrow_mut(|seen| {
        unpack_into(seen, frame, Limits::default().message)?;
        let said = look(seen);
        // One text of 100 MB shall not be paid for till the end.
        seen.clear();
        seen.shrink_to(1 << 20);
        Ok(said)
    })
}

/// Puts what a frame holds, `most` bytes at most, in the place of what `raw` held.
fn unpack_into(raw: &mut Vec<u8>, frame: &[u8], most: usize) -> Result<(), Damaged> {
    const DAMAGED: Damaged = Damaged("a compressed text");
    let length = Decompressor::upper_bound(frame).filter(|length| *length <= most).ok_or(DAMAGED)?;
    raw.clear();
    raw.reserve(length);
    UNPACKER.with_borrow_mut(|tables| {
        let tables = match tables {
            Some(tables) => tables,
            none => none.insert(Decompressor::new().map_err(|_| DAMAGED)?),
        };
        tables.decompress_to_buffer(frame, raw).map(drop).map_err(|_| DAMAGED)
    })
}

thread_local! {
    /// zstd's tables, kept between texts: to make them takes longer than to unpack a text
    /// of some kilobytes.
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    static SEEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Gives SQL the functions `text(x)` (the text of a `message_text.text`; a blob where it is not
/// UTF-8) and `unzstd(x)` (the same, always as a blob).
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("text", 1, flags, |context| {
        Ok(String::from_utf8(argument(context)?).map_or_else(|error| Value::Blob(error.into_bytes()), Value::Text))
    })?;
    connection.create_scalar_function("unzstd", 1, flags, argument)
}

fn argument(context: &Context<'_>) -> rusqlite::Result<Vec<u8>> {
    Text::read(context.get_raw(0)).map_err(|damaged| Error::UserFunctionError(Box::new(damaged)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(raw: &[u8]) -> Text {
        Packer::new().unwrap().text(raw.to_vec())
    }

    #[test]
    fn the_smaller_form_is_kept_and_both_read_the_same() {
        let long = br#"{"jsonrpc":"2.0","id":1}"#.repeat(100);
        let connection = Connection::open_in_memory().unwrap();
        register(&connection).unwrap();
        for (raw, packed) in [(&b"{}\0\xc3\xbc"[..], false), (b"", false), (b"\xff", true), (&long, true)] {
            let text = stored(raw);
            assert_eq!(matches!(text, Text::Packed(_)), packed, "{raw:?}");
            let bytes: Vec<u8> = connection.query_row("SELECT unzstd(?)", [text.column()], |row| row.get(0)).unwrap();
            assert_eq!(bytes, raw);
        }
        let text: String = connection.query_row("SELECT text(?)", [stored(&long).column()], |row| row.get(0)).unwrap();
        assert_eq!(text.as_bytes(), long);
    }

    #[test]
    fn a_frame_that_stands_for_too_much_is_refused() {
        let Text::Packed(frame) = stored(&vec![b' '; 1 << 20]) else { panic!("blanks compress") };
        assert_eq!(unpack(&frame, 1 << 19), Err(Damaged("a compressed text")));
        assert_eq!(unpack(b"no frame", 1 << 19), Err(Damaged("a compressed text")));
        assert_eq!(unpack(&frame[..frame.len() - 1], 1 << 21), Err(Damaged("a compressed text")));
    }
}
