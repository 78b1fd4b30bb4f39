//! The initial values of the replay form.

use std::ops::ControlFlow;

use anyhow::Result;

use super::super::replay::{CallDraft, Draft};
use crate::compare::Label;
use crate::decode::Direction;
use crate::decode::json::{Object, elements};
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::{Message, MessageNumber, SessionNumber};
use crate::replay::target::Target;
use crate::store::{MessageRow, RowKey, StoreReader};

/// Messages in which the list of tools is searched: it is at the beginning.
const SEARCHED: usize = 5_000;

/// Limit of the bytes of a list.
const LONGEST: u64 = 4 << 20;

/// Reads the server of a session, and the request of one of its messages.
pub(super) fn draft(reader: &StoreReader, session: SessionNumber, message: Option<MessageNumber>) -> Result<Draft> {
    let Some(record) = reader.session(session)? else { return Ok(Draft::default()) };
    let target = Target::recorded(reader, &record)?.known().unwrap_or_default();
    let selected = message.map(|message| reader.message_of(session, message)).transpose()?.flatten();
    let request = match selected {
        // The request that an answer answers.
        Some(answer) if answer.answers.is_some() => {
            answer.answers.map(|request| reader.message_of(session, request)).transpose()?.flatten()
        }
        selected => selected,
    };
    let is_request =
        |message: &Message| (message.direction, message.kind) == (Direction::ClientToServer, Kind::Request);
    let revision = record.protocol_version.unwrap_or_default();
    let call = request.filter(is_request).map(|request| call_draft(reader, session, &request, revision)).transpose()?;
    Ok(Draft { target, requests: record.outcomes.requests(), call })
}

fn call_draft(reader: &StoreReader, session: SessionNumber, request: &Message, revision: String) -> Result<CallDraft> {
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

/// The input schema in the session's last list of tools.
fn schema(reader: &StoreReader, session: SessionNumber, tool: &str) -> Result<Option<String>> {
    let lists = |row: &MessageRow| {
        row.method.as_deref() == Some("tools/list") && row.kind == Kind::Response && row.size <= LONGEST
    };
    let mut found = None;
    for row in reader.message_rows_at(session, 1, SEARCHED)?.into_iter().filter(lists) {
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
