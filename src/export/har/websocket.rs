//! The messages of a WebSocket, in the form in which Chromium writes them: `_webSocketMessages`.

use std::io::Write;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::exchange_map::ExchangeMessage;
use crate::decode::Direction;
use crate::export::json::Object;
use crate::store::{CaptureId, RowKey, StoreReader};

/// The opcodes of frames (RFC 6455 section 5.2).
const TEXT: u32 = 1;
const BINARY: u32 = 2;

/// Writes the last members of an entry. Only one message is in memory at a time.
pub(super) fn write(
    out: &mut dyn Write,
    reader: &StoreReader,
    capture: CaptureId,
    carried: &[ExchangeMessage],
) -> Result<()> {
    out.write_all(br#","_resourceType":"websocket","_webSocketMessages":["#)?;
    let mut line = Vec::new();
    for (_, number) in carried {
        let Some(message) = reader.message(RowKey::new(capture, number.0))? else { continue };
        let is_sent = message.direction == Direction::ClientToServer;
        let mut object = Object::inside(&mut line);
        object.word("type", if is_sent { "send" } else { "receive" });
        object.float("time", message.time.0 as f64 / 1e9);
        match message.raw.text() {
            Some(text) => {
                object.number("opcode", TEXT);
                object.text("data", text);
            }
            None => {
                object.number("opcode", BINARY);
                object.word("data", &STANDARD.encode(&*message.raw));
            }
        }
        object.end();
        out.write_all(&line)?;
        line.clear();
        line.push(b',');
    }
    Ok(out.write_all(b"]")?)
}
