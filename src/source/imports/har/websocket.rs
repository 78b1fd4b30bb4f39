//! The messages of a WebSocket, as Chromium writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Entry, Framing, PIECES, SentPiece, head, split};
use crate::capture::Time;

/// An element of `_webSocketMessages`.
#[derive(Deserialize)]
pub(super) struct WebSocketMessage {
    #[serde(rename = "type")]
    kind: String,
    /// Seconds since 1970.
    time: f64,
    /// RFC 6455 section 5.2. Binary data is base64. Some programs leave it out for texts, and
    /// Chromium notes an error as -1.
    opcode: Option<i64>,
    data: String,
}

const TEXT: u8 = 1;
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
    for message in messages.iter().take(PIECES) {
        let is_client = match message.kind.as_str() {
            "send" => true,
            "receive" => false,
            // An error: nothing was sent.
            _ => continue,
        };
        let Ok(opcode @ 0..=15) = u8::try_from(message.opcode.unwrap_or(TEXT.into())) else { continue };
        latest = latest.max(Time((message.time * 1e9) as i64));
        let data = match opcode {
            BINARY => STANDARD.decode(&message.data).unwrap_or_else(|_| message.data.clone().into_bytes()),
            _ => message.data.clone().into_bytes(),
        };
        sent.push((latest, is_client, frame(opcode, is_client, &data)));
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

#[cfg(test)]
mod tests {
    use super::super::{ImportBuilder, read};

    /// The statuses and the texts of an import of one entry.
    fn imported(status: u16, messages: &str) -> (Vec<u8>, Vec<(u64, String)>) {
        let entry = format!(
            r#"{{"startedDateTime":"2026-01-01T00:00:00Z","request":{{"method":"GET","url":"ws://a.example/mcp"}},"response":{{"status":{status}}},"_webSocketMessages":{messages}}}"#
        );
        let mut builder = ImportBuilder::default();
        read(&format!(r#"{{"log":{{"entries":[{entry}]}}}}"#), &mut builder);
        let import = builder.finish();
        (import.capture, import.damage)
    }

    fn has(capture: &[u8], text: &str) -> bool {
        memchr::memmem::find(capture, text.as_bytes()).is_some()
    }

    #[test]
    fn frames_are_read_and_an_error_is_none() {
        let (capture, damage) = imported(
            101,
            r#"[{"type":"send","time":1,"opcode":1,"data":"{ping}"},{"type":"receive","time":2,"data":"{pong}"},
                {"type":"error","time":3,"opcode":-1,"data":"broken"}]"#,
        );
        assert!(damage.is_empty(), "{damage:?}");
        assert!(has(&capture, "101 Switching") && !has(&capture, "broken"));
        assert!(has(&capture, "{ping}") && has(&capture, "{pong}"));
    }

    #[test]
    fn a_refused_handshake_is_an_exchange() {
        let (capture, damage) = imported(401, "[]");
        assert!(damage.is_empty() && has(&capture, "HTTP/1.1 401") && !has(&capture, "101 Switching"), "{damage:?}");
    }
}
