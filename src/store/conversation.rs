//! A conversation: the messages of a session in order of number, without their packets, for code
//! that goes through all of them.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::codec::Code;
use super::read::StoreReader;
use super::record::Columns;
use super::text::Text;
use super::{Page, RowKey};
use crate::capture::{Limits, Span, Time};
use crate::decode::Direction;
use crate::decode::json::{Index, members, string_equals};
use crate::decode::jsonrpc::{self, Envelope, JsonRpcText, Kind};
use crate::decode::raw::Raw;
use crate::mcp::link::Why;
use crate::mcp::{Carrier, Message, MessageNumber, Session};

/// Bytes of text after which a page ends early. The caller reads on, and needs no more than
/// this at once.
const PAGE_BYTES: usize = 1 << 20;

/// The columns that [`read`] needs.
const COLUMNS: &str = "id, time, direction, kind, json_id, method, latency, answers, answered_by, redelivered,
    (SELECT text FROM message_text AS t WHERE t.id = message.id)";

impl StoreReader {
    /// Messages of one direction of a session: the one with this number, and some that follow it in
    /// time. They are sorted by number. Left out are the packets, the links and the findings. Of
    /// the envelope only `params`, `result` and `error` are located. The page ends early after 1
    /// MiB of text.
    pub fn conversation(
        &self,
        session: &Session,
        side: Direction,
        from: MessageNumber,
        limit: usize,
    ) -> anyhow::Result<Vec<Message>> {
        let first = self.message_position(session.number, from)? as i64;
        let mut statement = self.db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM message WHERE session = ?1 AND position >= ?2 AND direction = ?3
             ORDER BY position LIMIT ?4",
        ))?;
        let limit = Page::<RowKey>::first(limit).limit();
        let mut rows = statement.query(params![session.number.0, first, side.code(), limit])?;
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES
            && let Some(row) = rows.next()?
        {
            let message = read(row, session, &self.limits)?;
            bytes += message.raw.len();
            messages.push(message);
        }
        messages.sort_by_key(|message| message.number);
        Ok(messages)
    }

    /// One message of a session, as [`StoreReader::conversation`] reads it.
    pub(super) fn conversation_message(&self, session: &Session, key: RowKey) -> anyhow::Result<Option<Message>> {
        let mut statement =
            self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM message WHERE id = ? AND session = ?"))?;
        let mut rows = statement.query(params![key, session.number.0])?;
        rows.next()?.map(|row| read(row, session, &self.limits)).transpose()
    }

    /// The messages of a session that are linked to an earlier one for this reason, in order, each
    /// with the earlier one.
    pub fn linked(&self, session: &Session, why: Why) -> anyhow::Result<Vec<(MessageNumber, MessageNumber)>> {
        self.select(
            "SELECT link.message, previous FROM link JOIN message ON message.id = link.message
             WHERE message.session = ? AND why = ? ORDER BY link.message",
            params![session.number.0, why.code()],
            |row| {
                let mut columns = Columns::new(row);
                let mut number = || anyhow::Ok(MessageNumber(columns.key()?.number()));
                Ok((number()?, number()?))
            },
        )
    }
}

fn read(row: &Row<'_>, session: &Session, limits: &Limits) -> anyhow::Result<Message> {
    let mut columns = Columns::new(row);
    let number = MessageNumber(columns.key()?.number());
    let (time, direction, kind): (_, _, Kind) = (Time(columns.get()?), columns.code()?, columns.code()?);
    let (id, method, latency) = (columns.get()?, columns.get()?, columns.get()?);
    let (answers, answered_by) =
        (columns.optional_u64()?.map(MessageNumber), columns.optional_u64()?.map(MessageNumber));
    let redelivered = columns.get()?;
    let raw = match row.get_ref(TEXT)? {
        // A record that was discarded for lack of room has no text.
        ValueRef::Null => Raw::default(),
        text => Text::read(text)?.into(),
    };
    let envelope =
        parts(&raw, kind).unwrap_or_else(|| match jsonrpc::parse_raw(&raw, limits.json_depth, limits.batch) {
            JsonRpcText::Single(envelope) => envelope,
            JsonRpcText::Batch(_) | JsonRpcText::Invalid(_) => Envelope::default(),
        });
    Ok(Message {
        session: session.number,
        number,
        time,
        transport: session.transport,
        direction,
        kind,
        id,
        method,
        tool: None,
        raw,
        envelope,
        batch: None,
        answers,
        answered_by,
        latency,
        span: Span::default(),
        packets: Vec::new(),
        carrier: Carrier::Line,
        exchange: None,
        sse_id: None,
        line: None,
        redelivered,
        copies: None,
        operation: None,
        link: None,
        findings: Vec::new(),
    })
}

/// Locates the members of a message. The text was validated when it was stored and is not validated
/// again. `None` if it may not be a message.
fn parts(raw: &Raw<'_>, kind: Kind) -> Option<Envelope> {
    let text = raw.text().filter(|_| kind != Kind::Invalid)?;
    let mut envelope = Envelope { kind: Some(kind), ..Envelope::default() };
    let is_whole = members(text, &mut |name, value| {
        let start = value.as_ptr() as usize - text.as_ptr() as usize;
        let place = Some(start..start + value.len());
        for (known, part) in
            [("params", &mut envelope.params), ("result", &mut envelope.result), ("error", &mut envelope.error)]
        {
            if string_equals(name, known) {
                *part = place.clone();
            }
        }
        ControlFlow::Continue(())
    });
    envelope.body = envelope.place_of_body().and_then(|place| text.get(place)).map(Index::of).unwrap_or_default();
    is_whole.then_some(envelope)
}

/// The index of the column with the text.
const TEXT: usize = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_stand_where_reading_the_whole_finds_them(
            members in prop::collection::vec((
                prop::sample::select(vec!["jsonrpc", "id", "method", "params", "p\\u0061rams", "result", "error", "x"]),
                prop::sample::select(vec!["1", "null", "\"a\"", "{ \"a\" : [1, {}], \"isError\":true}", "[]", "{\"code\":1}"]),
                "[ \t]?",
            ), 0..6),
        ) {
            let members: Vec<String> = members.iter().map(|(name, value, blank)| format!("{blank}\"{name}\"{blank}:{blank}{value}")).collect();
            let text = format!(" {{{}}} ", members.join(","));
            if let JsonRpcText::Single(whole) = jsonrpc::parse(text.as_bytes(), 64, 64) {
                let kind = whole.kind.unwrap_or(Kind::Invalid);
                if let Some(found) = parts(&text.clone().into(), kind) {
                    let of = |envelope: Envelope| (envelope.kind, envelope.params, envelope.result, envelope.error, envelope.body);
                    prop_assert_eq!(of(found), of(whole), "{}", text);
                } else {
                    prop_assert_eq!(kind, Kind::Invalid);
                }
            }
        }
    }
}
