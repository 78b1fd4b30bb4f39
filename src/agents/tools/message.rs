//! `read_message`.

use anyhow::{Result, bail};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::search::{FoundMessage, found};
use crate::agents::answer::{MaxBytes, NOTICE, Room};
use crate::agents::recorded::{Recorded, masked, name};
use crate::store::{FindingRow, RowKey, StoreReader};
use crate::view::layers::{self, StoredSession};

pub const DESCRIPTION: &str = "Reads one message: its text, the protocol rules that it breaks with the remedy for \
    each, and the layers that carried it, from the link up. search_messages and explain_session give the numbers. A \
    long text is cut: pass offset to read on.";

/// Bytes of one field of a layer.
const FIELD: usize = 300;

/// Packets of a layer that are named.
const PACKETS: usize = 32;

/// Bytes of a text that are read even if the answer gets too large, so that reading ends.
const SMALLEST: usize = 64;

/// Findings of one message that are listed.
const FINDINGS: usize = 20;

/// The arguments of `read_message`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageArguments {
    /// The number of the session. Without it, the latest recording.
    #[serde(default)]
    session: Option<u32>,
    /// The number of the message.
    message: u64,
    /// The byte at which the text begins, to read on in a long one.
    #[serde(default)]
    offset: usize,
    /// Whether to add the layers. The default is true.
    #[serde(default = "yes")]
    layers: bool,
    #[serde(default)]
    max_bytes: MaxBytes,
}

fn yes() -> bool {
    true
}

/// A message with its text, findings and layers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WholeMessage {
    /// A reminder about recorded text.
    notice: &'static str,
    /// The facts about the message.
    about: FoundMessage,
    /// The rules that it breaks.
    findings: Vec<BrokenRule>,
    /// The text as it was transmitted, from `offset` on.
    text: Recorded,
    /// The number of bytes of the whole text.
    text_bytes: usize,
    /// The offset of the rest of the text, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The layers, from the link up. For STDIO they begin with the pipe.
    layers: Vec<LayerRow>,
    /// What to do next.
    hint: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct BrokenRule {
    /// The id of the rule.
    rule: String,
    /// error, warning or info.
    severity: &'static str,
    /// What is wrong here.
    text: Recorded,
    /// The section of the specification.
    specification: String,
    /// What to do about it.
    remedy: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct LayerRow {
    /// link, network, transport, tls, http, sse, json-rpc, mcp or pipe.
    layer: &'static str,
    /// The protocol, such as TCP or HTTP/1.1.
    protocol: String,
    /// The fields as `name: value`.
    fields: Vec<Recorded>,
    /// The numbers of the packets that carried it, at most 32.
    packets: Vec<u64>,
}

/// Reads a message.
pub fn read(reader: &StoreReader, arguments: MessageArguments) -> Result<WholeMessage> {
    let (session, capture) = super::session(reader, arguments.session)?;
    let key = RowKey::new(capture, arguments.message);
    let row = reader.message_row(key)?.filter(|row| row.session == session.number);
    let (Some(row), Some(message)) = (row, reader.message(key)?) else {
        bail!("session {} has no message {}: search_messages lists its messages", session.number.0, arguments.message);
    };
    let mut room = Room::of(arguments.max_bytes);
    let about = found(reader, &row)?;
    room.takes(&about);
    let findings = reader.message_findings(key)?;
    let findings: Vec<BrokenRule> =
        findings.iter().take(FINDINGS).map(broken).take_while(|finding| room.takes(finding)).collect();
    let raw = masked(&message.raw);
    let rest = raw.get(arguments.offset..).unwrap_or_default();
    // The layers need room too.
    let share = if arguments.layers { room.left() / 2 } else { room.left() / 4 * 3 };
    let (text, kept) = page(rest, share);
    room.takes(&text);
    let (mut layers, mut all_layers) = (Vec::new(), 0);
    if arguments.layers {
        let stored = StoredSession { reader, capture, session: &session };
        let all = layers::layers(&stored, &message)?;
        all_layers = all.len();
        // The upper layers say most, so they get room first.
        layers.extend(all.iter().rev().map(layer).filter(|layer| room.takes(layer)));
        layers.reverse();
    }
    let next_offset = (kept < rest.len()).then(|| arguments.offset + kept);
    let hint = match (next_offset, row.answered_by.or(row.answers)) {
        (Some(next), _) => format!("the text goes on: pass offset {next}, or a larger max_bytes"),
        _ if layers.len() < all_layers => "not all layers fit: pass a larger max_bytes".to_owned(),
        (None, Some(partner)) => format!("message {} is the other half of the call", partner.0),
        (None, None) => "search_messages shows the messages around it".to_owned(),
    };
    Ok(WholeMessage { notice: NOTICE, about, findings, text, text_bytes: raw.len(), next_offset, layers, hint })
}

/// The first part of a text, and its length. It takes at most `share` bytes of JSON, and ends
/// between two characters.
fn page(rest: &[u8], share: usize) -> (Recorded, usize) {
    let mut kept = rest.len().min(share);
    loop {
        while kept > 0 && kept < rest.len() && rest[kept] & 0xc0 == 0x80 {
            kept -= 1;
        }
        let text = Recorded::part(&rest[..kept]);
        // Escapes make a text longer.
        let size = serde_json::to_vec(&text).map_or(0, |json| json.len());
        if size <= share || kept <= SMALLEST {
            return (text, kept);
        }
        kept = (kept / 2).max(SMALLEST);
    }
}

fn broken(row: &FindingRow) -> BrokenRule {
    BrokenRule {
        rule: row.rule.clone(),
        severity: row.severity.name(),
        text: Recorded::new(&row.text, FIELD),
        specification: row.spec.clone(),
        remedy: crate::findings::rule(&row.rule).map_or("", |rule| rule.remedy),
    }
}

fn layer(layer: &layers::Layer) -> LayerRow {
    // The text of the message itself is in the answer already.
    let fields = layer.fields.iter().map(|field| Recorded::new(&format!("{}: {}", field.name, field.value), FIELD));
    LayerRow {
        layer: layer.layer,
        protocol: name(&layer.protocol),
        fields: fields.collect(),
        packets: layer.packets.iter().take(PACKETS).map(|packet| packet.0).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Escapes make a text up to eight times longer.
    #[test]
    fn pages_of_any_text_fit_and_lose_nothing() {
        for text in ["\u{200b}".repeat(9_000).into_bytes(), vec![0xff; 20_000], "é".repeat(9_000).into_bytes()] {
            let (mut rest, mut pages) = (&text[..], 0);
            while !rest.is_empty() {
                let (page, kept) = page(rest, 2_000);
                assert!(kept > 0 && serde_json::to_vec(&page).unwrap().len() <= 2_000);
                (rest, pages) = (&rest[kept..], pages + 1);
            }
            assert!(pages > 1);
        }
    }

    /// A page that begins inside a token shows nothing of it.
    #[test]
    fn secrets_are_masked_before_a_text_is_cut() {
        let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        for end in ["", "\u{fffd}", "x"] {
            let text = format!("{{\"a\":\"{token}\",\"b\":\"{end}\"}}");
            let mut bytes = text.clone().into_bytes();
            if end == "x" {
                bytes.push(0xff);
            }
            let masked = masked(&bytes);
            assert_eq!(masked.len(), bytes.len());
            for at in 0..masked.len() {
                let shown = serde_json::to_string(&page(&masked[at..], 2_000).0).unwrap();
                assert!(!shown.contains("uvwxyz"), "{shown}");
            }
        }
    }
}
