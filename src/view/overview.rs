//! The summary of a session apart from its messages: the revision, capabilities declared and used,
//! the cost of the server's lists in a model's context, a timeline, and the end.

mod capability_use;
mod operations;

use std::collections::BTreeMap;

use anyhow::Result;

use super::units::{count, duration, relative, size};
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::exchange::Exchange;
use crate::decode::json::{Object, array};
use crate::decode::jsonrpc::Kind;
use crate::filter::Filter;
use crate::mcp::capability::{Capabilities, Capability, Declarer};
use crate::mcp::content::body;
use crate::mcp::link::Why;
use crate::mcp::meta;
use crate::mcp::method::Method;
use crate::mcp::revision::{Revision, Revisions};
use crate::mcp::{Message, MessageNumber, Session};
use crate::store::{MessageRow, MethodCount, Page, RowKey, Scope, StoreReader};
pub use capability_use::CapabilityUse;
use operations::Operation;

/// Methods whose messages the summary is made from: handshakes, lists, and changes of lists.
const SUMMARISED_METHODS: [&str; 10] = [
    "initialize",
    "server/discover",
    "notifications/initialized",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Number of messages at the beginning among which a client without a handshake identifies itself.
const FIRST: usize = 100;

/// Number of messages read at once.
const SLICE: u64 = 10_000;

/// Maximum number of texts that are read whole. A server that changes its tools all the time would
/// have no end of them.
const TEXTS: usize = 1_000;

/// Maximum length of a text that is read, in bytes.
const LONGEST: u64 = 4 << 20;

/// Maximum number of items of a list that are counted.
const ITEMS: usize = 100_000;

/// Maximum number of events in the timeline.
const EVENTS: usize = 40;

/// Number of exchanges, the last ones, among which the end of the session is searched for.
const LAST: usize = 50;

/// Estimated bytes of JSON in a token. Tokenizers differ; those in use need one token for about
/// four bytes of English or JSON.
const BYTES_A_TOKEN: u64 = 4;

/// A list of the server in its latest state, with all its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The number of items.
    pub items: u64,
    /// Bytes of their definitions, as sent.
    pub bytes: u64,
    /// The response with the first page.
    pub message: MessageNumber,
}

impl Listed {
    /// Tokens that the definitions take in a model's context, estimated at four bytes each.
    pub fn tokens(&self) -> u64 {
        self.bytes.div_ceil(BYTES_A_TOKEN)
    }
}

fn is(count: &MethodCount, method: Method) -> bool {
    count.method.as_deref().is_some_and(|name| Method::named(name) == method)
}

/// A row of the summary: a name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// The level of indentation; 0 for a heading.
    pub depth: usize,
    /// The name of the row.
    pub name: String,
    /// The value, as transmitted. It is not yet safe for a terminal.
    pub value: String,
    /// The message that the value comes from.
    pub message: Option<MessageNumber>,
}

/// The summary of a session.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The revision that the client requested or, without a handshake, put into its requests.
    pub requested_revision: Option<(String, MessageNumber)>,
    /// The revision that the server selected. For `server/discover` all that it supports.
    pub selected_revision: Option<(String, MessageNumber)>,
    /// The server's instructions for its use.
    pub instructions: Option<(String, MessageNumber)>,
    /// The capabilities that the client and the server declared.
    declared: [Option<(Capabilities, MessageNumber)>; 2],
    used: BTreeMap<Capability, (u64, MessageNumber)>,
    /// The server's lists, by the member that contains them.
    pub lists: BTreeMap<&'static str, Listed>,
    /// Events with their time and message, in order.
    pub timeline: Vec<(Time, String, MessageNumber)>,
    /// The first operations, and whether there are more.
    pub operations: (Vec<Operation>, bool),
    /// The end of the session, in words.
    pub end: String,
    texts: usize,
}

/// Reads the summary of a session.
pub fn read(reader: &StoreReader, session: &Session) -> Result<Overview> {
    let mut overview = Overview::default();
    let revisions =
        session.protocol_version.as_deref().and_then(Revision::named).map_or(Revisions::ALL, Revisions::only);
    let counts = reader.method_counts(session.number)?;
    overview.count(&counts, revisions);
    let Some(capture) = reader.capture_of(session.number)? else { return Ok(overview) };
    let filter = Filter::parse(&SUMMARISED_METHODS.map(|method| format!("method = {method}")).join(" or "))?;
    // Their number is known, so the search ends at the last one, before the many calls
    // that mostly follow.
    let is_summarised =
        |count: &&MethodCount| count.method.as_deref().is_some_and(|method| SUMMARISED_METHODS.contains(&method));
    let mut left: u64 = counts.iter().filter(is_summarised).map(|count| count.count).sum();
    let first_call = counts.iter().find(|count| count.kind == Kind::Request && is(count, Method::ToolsCall));
    let mut page = Page::first(left.min(SLICE) as usize);
    while left > 0 {
        let rows = reader.matching(&filter, Scope::Session(session.number), page)?;
        let Some(last) = rows.last() else { break };
        left = left.saturating_sub(rows.len() as u64);
        page = Page::from(last.key().next(), left.min(SLICE) as usize);
        for row in &rows {
            overview.add_to_timeline(row);
            if overview.needs_text(row) {
                overview.read_text(reader, row)?;
            }
        }
        // A server that announces changes of its lists all the time adds nothing new.
        if overview.texts >= TEXTS && overview.timeline.len() >= EVENTS {
            break;
        }
    }
    if let Some(count) = first_call
        && let Some(row) = reader.message_row(RowKey::new(capture, count.first.0))?
    {
        overview.timeline.push((row.time, "first call of a tool".to_owned(), row.number));
        overview.timeline.sort_by_key(|(_, _, number)| *number);
    }
    // Without a handshake the client identifies itself in its first requests.
    for row in reader.message_rows_at(session.number, 1, FIRST)? {
        if overview.requested_revision.is_none()
            && row.kind == Kind::Request
            && row.direction == Direction::ClientToServer
        {
            overview.read_text(reader, &row)?;
        }
    }
    for number in reader.messages_asking_for_input(session.number, TEXTS)? {
        if let Some(message) = reader.message(RowKey::new(capture, number.0))? {
            overview.count_input_requests(&message);
        }
    }
    overview.operations = operations::read(reader, capture, session.number)?;
    overview.end = end(reader, session)?;
    Ok(overview)
}

impl Overview {
    /// Counts the uses of capabilities, and finds the first use of each.
    fn count(&mut self, counts: &[MethodCount], revisions: Revisions) {
        for count in counts.iter().filter(|count| matches!(count.kind, Kind::Request | Kind::Notification)) {
            let method = count.method.as_deref().map_or(Method::Other, Method::named);
            if let Some(capability) = method.gate(revisions) {
                self.uses(capability, count.count, count.first);
            }
        }
    }

    fn uses(&mut self, capability: Capability, times: u64, first: MessageNumber) {
        let used = self.used.entry(capability).or_insert((0, first));
        *used = (used.0 + times, used.1.min(first));
    }

    /// Counts the requests that a result made to the client (`inputRequests`, 2026-07-28). The
    /// caller passes only results after which the client went on.
    fn count_input_requests(&mut self, message: &Message) {
        let requests = body(message).object("inputRequests");
        for (_, request) in requests.iter().take(ITEMS) {
            let name = Object::read(request).text("method");
            let method = name.map_or(Method::Other, |name| Method::named(&name));
            if let Some(capability) = method.gate(Revisions::MODERN) {
                self.uses(capability, 1, message.number);
            }
        }
    }

    /// Whether the text of a message has to be read.
    fn needs_text(&self, row: &MessageRow) -> bool {
        let Some(method) = row.method.as_deref() else { return false };
        match row.kind {
            Kind::Request => method == "initialize",
            Kind::Response => matches!(method, "initialize" | "server/discover") || list(method).is_some(),
            Kind::Notification | Kind::Error | Kind::Invalid => false,
        }
    }

    /// Reads the text of a message, within bounds.
    fn read_text(&mut self, reader: &StoreReader, row: &MessageRow) -> Result<()> {
        if self.texts < TEXTS
            && row.size <= LONGEST
            && let Some(message) = reader.message(row.key())?
        {
            self.texts += 1;
            self.add_text(&message);
        }
        Ok(())
    }

    /// Adds a message to the timeline if it belongs there. Its text is not needed.
    fn add_to_timeline(&mut self, row: &MessageRow) {
        let Some(name) = row.method.as_deref() else { return };
        let method = Method::named(name);
        let what = match (row.kind, method) {
            (Kind::Request, Method::Initialize | Method::ServerDiscover) => format!("{name} asked"),
            (Kind::Response, Method::Initialize | Method::ServerDiscover) => {
                let after = row.latency.map(|latency| format!(" after {}", duration(latency)));
                format!("{name} answered{}", after.unwrap_or_default())
            }
            (Kind::Error, Method::Initialize | Method::ServerDiscover) => format!("{name} refused"),
            (Kind::Notification, Method::Initialized) => "the client is ready".to_owned(),
            (
                Kind::Notification,
                Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged,
            ) => name.trim_start_matches("notifications/").to_owned(),
            _ => return,
        };
        if self.timeline.len() < EVENTS {
            self.timeline.push((row.time, what, row.number));
        }
    }

    /// Adds the facts in the text of a handshake or a list.
    fn add_text(&mut self, message: &Message) {
        let number = message.number;
        match (message.kind, message.method.as_deref()) {
            (Kind::Request, Some(method)) => {
                let params = body(message);
                let meta = params.object("_meta");
                let (version, capabilities) = if method == "initialize" {
                    (params.text("protocolVersion"), params.get("capabilities"))
                } else {
                    (meta.text(meta::VERSION), meta.get(meta::CAPABILITIES))
                };
                self.requested_revision =
                    version.map(|version| (version.into_owned(), number)).or(self.requested_revision.take());
                if let Some(capabilities) = capabilities {
                    self.declared[0] = Some((Capabilities::read(Declarer::Client, capabilities), number));
                }
            }
            (Kind::Response, Some(method @ ("initialize" | "server/discover"))) => {
                let result = body(message);
                if method == "initialize" {
                    self.selected_revision =
                        result.text("protocolVersion").map(|version| (version.into_owned(), number));
                } else {
                    let versions = array(result.get("supportedVersions").unwrap_or_default(), 16);
                    let versions: Vec<&str> = versions.into_iter().map(|version| version.trim_matches('"')).collect();
                    self.selected_revision = Some((versions.join(" or "), number));
                }
                if let Some(text) = result.text("instructions") {
                    self.instructions = Some((text.into_owned(), number));
                }
                if let Some(capabilities) = result.get("capabilities") {
                    self.declared[1] = Some((Capabilities::read(Declarer::Server, capabilities), number));
                }
            }
            (Kind::Response, Some(method)) => {
                let Some(member) = list(method) else { return };
                let result = body(message);
                let items = array(result.get(member).unwrap_or_default(), ITEMS);
                // A page belongs to the list before it. Anything else begins a list.
                let continues = message.link.is_some_and(|link| link.why == Why::Answer);
                let listed = self.lists.entry(member).or_default();
                if !continues || listed.message == MessageNumber::default() {
                    *listed = Listed { message: number, ..Listed::default() };
                }
                listed.items += items.len() as u64;
                listed.bytes += items.iter().map(|item| item.len() as u64).sum::<u64>();
            }
            _ => {}
        }
    }

    /// The capabilities that a side declared or used, in the order of the specification's table.
    pub fn capabilities(&self, side: Declarer) -> Vec<CapabilityUse> {
        let declared = &self.declared[side as usize];
        let mut all: Vec<Capability> = declared.iter().flat_map(|(declared, _)| declared.iter()).collect();
        all.extend(self.used.keys().copied().filter(|capability| capability.declarer() == side));
        all.sort_unstable();
        all.dedup();
        let usage = |capability| CapabilityUse {
            capability,
            declared: declared.as_ref().filter(|(declared, _)| declared.has(capability)).map(|(_, number)| *number),
            used: self.used.get(&capability).copied(),
        };
        all.into_iter().map(usage).collect()
    }

    /// The ids of the extensions that a side declared.
    pub fn extensions(&self, side: Declarer) -> &[String] {
        self.declared[side as usize].as_ref().map_or(&[], |(declared, _)| declared.extensions.as_slice())
    }

    /// The extensions that both sides declared: these are in force.
    pub fn negotiated(&self) -> impl Iterator<Item = &str> {
        let server = self.extensions(Declarer::Server);
        self.extensions(Declarer::Client).iter().filter(|id| server.contains(id)).map(String::as_str)
    }

    /// The summary as rows for people.
    pub fn lines(&self, session: &Session) -> Vec<SummaryRow> {
        let mut lines = Vec::new();
        let mut line = |depth, name: &str, value: String, message| {
            lines.push(SummaryRow { depth, name: name.to_owned(), value, message });
        };
        for (name, party) in [("client", &session.client), ("server", &session.server)] {
            let party = party.as_ref().map(|party| format!("{} {}", party.name, party.version));
            line(0, name, party.unwrap_or_else(|| "unknown".to_owned()), None);
        }
        for (name, revision) in
            [("revision asked", &self.requested_revision), ("revision given", &self.selected_revision)]
        {
            if let Some((version, number)) = revision {
                line(0, name, version.clone(), Some(*number));
            }
        }
        if let Some((text, number)) = &self.instructions {
            let cost = Listed { bytes: text.len() as u64, ..Listed::default() };
            line(0, "instructions", format!("{}  {text}", costs(&cost)), Some(*number));
        }
        for (name, side) in
            [("capabilities of the client", Declarer::Client), ("capabilities of the server", Declarer::Server)]
        {
            let uses = self.capabilities(side);
            let unknown = self.declared[side as usize].is_none();
            let all = if unknown { "no declaration was captured".to_owned() } else { uses.len().to_string() };
            line(0, name, all, self.declared[side as usize].as_ref().map(|(_, number)| *number));
            for one in uses {
                let place = one.used.map(|(_, number)| number).or(one.declared);
                // Where no declaration was captured, no use can be called undeclared.
                let words = if unknown { one.words().replace(" undeclared", "") } else { one.words() };
                line(1, one.capability.path(), words, place);
            }
            for id in self.extensions(side) {
                let both = self.negotiated().any(|known| known == id);
                line(1, id, if both { "extension, declared by both" } else { "extension, declared" }.to_owned(), None);
            }
        }
        if !self.lists.is_empty() {
            line(0, "context cost", "tokens are estimated at four bytes of JSON each".to_owned(), None);
            for (name, listed) in &self.lists {
                line(1, name, format!("{}  {}", listed.items, costs(listed)), Some(listed.message));
            }
        }
        let (operations, more) = &self.operations;
        if !operations.is_empty() {
            line(0, "operations", operations::total(operations, *more), None);
            for operation in operations {
                line(1, &operation.name, operation.words(), Some(operation.first));
            }
        }
        line(0, "timeline", String::new(), None);
        for (time, what, number) in &self.timeline {
            line(1, &relative(*time, session.started), what.clone(), Some(*number));
        }
        line(1, &relative(session.ended, session.started), self.end.clone(), None);
        lines
    }
}

/// The member of a list's result that contains the items.
fn list(method: &str) -> Option<&'static str> {
    Some(match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        "resources/templates/list" => "resourceTemplates",
        _ => return None,
    })
}

/// The cost of a list, in bytes and tokens.
fn costs(listed: &Listed) -> String {
    format!("{}, about {}", size(listed.bytes), count(listed.tokens(), "token"))
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// The end of a session, as far as the capture shows it.
fn end(reader: &StoreReader, session: &Session) -> Result<String> {
    let waiting = match session.outcomes.unanswered {
        0 => String::new(),
        requests => format!(", {} unanswered", count(requests, "request")),
    };
    let how = match (session.exit, &session.session_id) {
        (Some(exit), _) => match (exit.signal, exit.code) {
            (Some(signal), _) => format!("the server died of signal {signal}"),
            (None, Some(code)) => format!("the server ended with status {code}"),
            (None, None) => "the server ended".to_owned(),
        },
        (None, Some(id)) => {
            let last = reader.exchanges(session.number, Page::last(LAST))?;
            // "Clients that no longer need a particular session SHOULD send an HTTP DELETE"
            // (2025-03-26 basic/transports, Session Management).
            let names_it = |exchange: &Exchange| {
                let mut fields = exchange.request.fields.iter();
                fields.any(|(name, value)| name.eq_ignore_ascii_case("mcp-session-id") && value == id)
            };
            let mut last = last.into_iter();
            let delete = last.find(|exchange| exchange.method.as_deref() == Some("DELETE") && names_it(exchange));
            match delete.map(|exchange| exchange.status) {
                Some(Some(status)) => format!("the client deleted the session: status {status}"),
                Some(None) => "the client deleted the session".to_owned(),
                None => "last message; the end of the session was not captured".to_owned(),
            }
        }
        (None, None) => "last message".to_owned(),
    };
    Ok(format!("{how}{waiting}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_rounded_up_from_bytes() {
        let cost = |bytes| Listed { bytes, ..Listed::default() }.tokens();
        assert_eq!([0, 1, 4, 5, 4_000].map(cost), [0, 1, 1, 2, 1_000]);
    }

    #[test]
    fn a_capability_is_declared_or_used_or_both() {
        let mut overview = Overview::default();
        let declared = Capabilities::read(Declarer::Server, r#"{"tools":{},"logging":{},"extensions":{"a/b":{}}}"#);
        overview.declared[1] = Some((declared, MessageNumber(2)));
        overview.used.insert(Capability::Tools, (3, MessageNumber(4)));
        overview.used.insert(Capability::Prompts, (1, MessageNumber(9)));
        overview.used.insert(Capability::Sampling, (1, MessageNumber(7)));
        let words: Vec<String> = overview
            .capabilities(Declarer::Server)
            .into_iter()
            .map(|one| format!("{}: {}", one.capability.path(), one.words()))
            .collect();
        assert_eq!(
            words,
            ["tools: declared, used 3 times", "prompts: used once undeclared", "logging: declared, not used"]
        );
        assert_eq!(overview.negotiated().count(), 0, "the client declared no extension");
        assert_eq!(overview.capabilities(Declarer::Client).len(), 1);
    }
}
