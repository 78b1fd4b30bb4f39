//! What the form of a replay begins with.

use std::ops::ControlFlow;

use anyhow::Result;

use super::super::replay::{CallDraft, Draft};
use crate::compare::Label;
use crate::decode::Direction;
use crate::decode::json::{Object, elements};
use crate::decode::jsonrpc::Kind;
use crate::mcp::facts::part;
use crate::mcp::{Message, MessageNumber, SessionNumber};
use crate::replay::target::Target;
use crate::store::{MessageRow, RowKey, StoreReader};

/// Messages in which the listing of the tools is looked for: it comes at the beginning.
const LOOK: usize = 5_000;

/// Bytes of a listing that are read.
const LONGEST: u64 = 4 << 20;

/// Reads what a session, and the request behind one of its messages, say.
pub(super) fn draft(reader: &StoreReader, session: SessionNumber, message: Option<MessageNumber>) -> Result<Draft> {
    let Some(record) = reader.session(session)? else { return Ok(Draft::default()) };
    let target = Target::recorded(reader, &record)?.unwrap_or_default();
    let selected = message.map(|message| reader.message_of(session, message)).transpose()?.flatten();
    let request = match selected {
        // From an answer to its request.
        Some(answer) if answer.answers.is_some() => {
            answer.answers.map(|request| reader.message_of(session, request)).transpose()?.flatten()
        }
        selected => selected,
    };
    let asks = |message: &Message| (message.direction, message.kind) == (Direction::ClientToServer, Kind::Request);
    let revision = record.protocol_version.unwrap_or_default();
    let call = request.filter(asks).map(|request| call(reader, session, &request, revision)).transpose()?;
    Ok(Draft { target, requests: record.requests, call })
}

fn call(reader: &StoreReader, session: SessionNumber, request: &Message, revision: String) -> Result<CallDraft> {
    let is_call = request.method.as_deref() == Some("tools/call");
    let member = (is_call || request.method.as_deref() == Some("prompts/get")).then_some("arguments");
    let schema = match &request.tool {
        Some(tool) if is_call => schema(reader, session, tool)?,
        _ => None,
    };
    Ok(CallDraft {
        message: request.number.0,
        label: Label::of(request).to_string(),
        member,
        params: part(request, "params").unwrap_or_default().to_owned(),
        schema,
        revision,
    })
}

/// The schema that the session listed last for a tool.
fn schema(reader: &StoreReader, session: SessionNumber, tool: &str) -> Result<Option<String>> {
    let lists = |row: &MessageRow| {
        row.method.as_deref() == Some("tools/list") && row.kind == Kind::Response && row.size <= LONGEST
    };
    let mut found = None;
    for row in reader.message_rows_at(session, 1, LOOK)?.into_iter().filter(lists) {
        let Some(message) = reader.message(RowKey::new(row.capture, row.number.0))? else { continue };
        let Some(tools) = part(&message, "result").and_then(|result| Object::read(result).get("tools")) else {
            continue;
        };
        elements(tools, &mut |listed| {
            let listed = Object::read(listed);
            if listed.text("name").as_deref() == Some(tool) {
                found = listed.get("inputSchema").map(str::to_owned);
            }
            ControlFlow::Continue(())
        });
    }
    Ok(found)
}
