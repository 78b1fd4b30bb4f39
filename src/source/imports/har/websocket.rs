//! The messages of a WebSocket, as Chromium writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Entry, Framing, SentPiece, head, split};
use crate::capture::Time;

/// An element of `_webSocketMessages`.
#[derive(Deserialize)]
pub(super) struct WebSocketMessage {
    #[serde(rename = "type")]
    kind: String,
    /// Seconds since 1970.
    time: f64,
    /// RFC 6455 section 5.2. Binary data is base64.
    #[serde(default)]
    opcode: u8,
    data: String,
}

/// The opcode of a frame with binary data.
const BINARY: u8 = 2;

/// Adds the handshake and the messages. Over HTTP/2 the handshake is a CONNECT (RFC 8441). Here it
/// is that of HTTP/1.1.
pub(super) fn exchange(entry: &Entry, messages: &[WebSocketMessage], asked: Time, sent: &mut Vec<SentPiece>) {
    let (host, target) = split(&entry.request.url);
    let framing = &Framing::WebSocket;
    let request = head(&format!("GET {target} HTTP/1.1"), &entry.request.headers, Some(host), framing);
    sent.push((asked, true, request));
    let line = "HTTP/1.1 101 Switching Protocols";
    sent.push((asked, false, head(line, &entry.response.headers, None, framing)));
    let mut latest = asked;
    for message in messages {
        latest = latest.max(Time((message.time * 1e9) as i64));
        let is_client = message.kind == "send";
        let data = match message.opcode {
            BINARY => STANDARD.decode(&message.data).unwrap_or_else(|_| message.data.clone().into_bytes()),
            _ => message.data.clone().into_bytes(),
        };
        sent.push((latest, is_client, frame(message.opcode, is_client, &data)));
    }
}

/// A frame with a whole message (RFC 6455 section 5.2). Clients mask theirs, here with zeros.
fn frame(opcode: u8, is_client: bool, data: &[u8]) -> Vec<u8> {
    let first = 0x80 | (opcode & 0x0f);
    let mask = if is_client { 0x80 } else { 0 };
    let mut frame = match data.len() {
        length @ ..126 => vec![first, mask | length as u8],
        length @ ..0x1_0000 => [&[first, mask | 126], &(length as u16).to_be_bytes()[..]].concat(),
        length => [&[first, mask | 127], &(length as u64).to_be_bytes()[..]].concat(),
    };
    if is_client {
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(data);
    frame
}
