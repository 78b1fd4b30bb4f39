//! Stored texts of messages: short ones unchanged, long ones as zstd frames, usually one.

use std::cell::RefCell;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error};
use zstd::bulk::{Compressor, Decompressor};

use super::codec::Damaged;
use crate::capture::Limits;

/// The fastest level that still codes literals. Measured on messages of 2 KB: 344 MB/s and a ratio
/// of 3.6. Level 1 has 148 MB/s and a ratio of 3.8. On chunks of packets they differ little.
const LEVEL: i32 = -1;

/// Shorter texts gain nothing: the frame's header and tables take what compression saves.
const WORTH_COMPRESSING: usize = 1 << 10;

/// A text in the form in which its column holds it. The column type distinguishes the two, also
/// for plain SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// UTF-8, stored as TEXT.
    Plain(Vec<u8>),
    /// Zstd frames, stored as BLOB. Also used for any text that is not UTF-8, however short.
    Packed(Vec<u8>),
}

impl Text {
    /// The smaller form of a text whose frames exist already.
    pub(super) fn smaller(raw: Vec<u8>, frames: Vec<u8>) -> Text {
        if frames.len() >= raw.len() && simdutf8::basic::from_utf8(&raw).is_ok() {
            Text::Plain(raw)
        } else {
            Text::Packed(frames)
        }
    }

    /// Bytes that it takes in the file.
    pub(super) fn len(&self) -> usize {
        match self {
            Text::Plain(bytes) | Text::Packed(bytes) => bytes.len(),
        }
    }

    /// The value for its column.
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

/// Compresses texts, and retains its tables and its buffer between them.
pub(super) struct Packer {
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> std::io::Result<Packer> {
        Ok(Packer { compressor: Compressor::new(LEVEL)?, buffer: Vec::new() })
    }

    /// Frees its tables and its buffer for a time without texts.
    pub(super) fn rest(&mut self) {
        if let Ok(unused) = Packer::new() {
            *self = unused;
        }
    }

    /// The smaller form of a text.
    pub(super) fn text(&mut self, raw: Vec<u8>) -> Text {
        if raw.len() < WORTH_COMPRESSING && simdutf8::basic::from_utf8(&raw).is_ok() {
            return Text::Plain(raw);
        }
        match self.frame(&raw) {
            Ok(frame) => Text::smaller(raw, frame),
            // No memory for zstd's tables. SQLite stores any bytes as TEXT.
            Err(_) => Text::Plain(raw),
        }
    }

    /// A zstd frame of `raw`.
    pub(super) fn frame(&mut self, raw: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut frame = Vec::new();
        self.append(raw, &mut frame)?;
        Ok(frame)
    }

    /// Appends a zstd frame of `raw` to other frames.
    pub(super) fn append(&mut self, raw: &[u8], frames: &mut Vec<u8>) -> std::io::Result<()> {
        self.buffer.clear();
        self.buffer.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        self.compressor.compress_to_buffer(raw, &mut self.buffer)?;
        frames.extend_from_slice(&self.buffer);
        // After one text of 100 MB its memory is freed.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }
}

/// The content of zstd frames; an error if that is more than `most` bytes, because a frame of a few
/// bytes can stand for gigabytes.
pub(super) fn unpack(frame: &[u8], most: usize) -> Result<Vec<u8>, Damaged> {
    let mut raw = Vec::new();
    unpack_into(&mut raw, frame, most)?;
    Ok(raw)
}

/// The result of `look` for a compressed text. The text is decompressed into a shared buffer,
/// because in a search most of the time would go to allocation.
pub(super) fn look_at<T>(frame: &[u8], look: impl FnOnce(&[u8]) -> T) -> Result<T, Damaged> {
    SEEN.with_borrow_mut(|seen| {
        unpack_into(seen, frame, Limits::default().message)?;
        let said = look(seen);
        // After one text of 100 MB its memory is freed.
        seen.clear();
        seen.shrink_to(1 << 20);
        Ok(said)
    })
}

/// Replaces the content of `raw` by that of a frame, `most` bytes at most.
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
    /// zstd's tables, retained between texts: making them takes longer than decompressing a text
    /// of some kilobytes.
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    static SEEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Defines the SQL functions `text(x)` and `unzstd(x)`. The first returns the text of a
/// `message_text.text`, or a blob if it is not UTF-8. The second always returns a blob.
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
