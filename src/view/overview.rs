//! What a session is, beside its messages: who agreed on what, what each side declared and used, what the lists of the server cost a
//! model's context, when what happened, and how it ended.

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
use crate::mcp::facts::body;
use crate::mcp::meta;
use crate::mcp::method::Method;
use crate::mcp::operations::Why;
use crate::mcp::revision::{Revision, Revisions};
use crate::mcp::{Message, MessageNumber, Session};
use crate::store::{MessageRow, MethodCount, Page, RowKey, Scope, StoreReader};
use operations::Operation;

/// The messages that say what a session is: handshakes, lists, and what the timeline names.
const TELLING: [&str; 10] = [
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

/// Messages at the beginning among which a client without a handshake says who it is.
const FIRST: usize = 100;

/// Messages read at once.
const SLICE: u64 = 10_000;

/// Texts that are read whole: handshakes and lists; a server that changes its tools all the time would have one after the other.
const TEXTS: usize = 1_000;

/// Bytes of a text that is read.
const LONGEST: u64 = 4 << 20;

/// Items of a list that are counted.
const ITEMS: usize = 100_000;

/// Changes of lists that the timeline names.
const EVENTS: usize = 40;

/// Exchanges, the last ones, among which the end of the session is looked for.
const LAST: usize = 50;

/// Bytes of JSON that make a token. Tokenizers differ; for English and JSON those in use need one for about four bytes.
const BYTES_A_TOKEN: u64 = 4;

/// A list of the server, as last given: all its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Items.
    pub items: u64,
    /// Bytes of their definitions, as sent.
    pub bytes: u64,
    /// The answer that gave the first page.
    pub message: MessageNumber,
}

impl Listed {
    /// Tokens of a model's context that the definitions take, estimated at four bytes a token.
    pub fn tokens(&self) -> u64 {
        self.bytes.div_ceil(BYTES_A_TOKEN)
    }
}

fn is(count: &MethodCount, method: Method) -> bool {
    count.method.as_deref().is_some_and(|name| Method::named(name) == method)
}

/// A capability of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub capability: Capability,
    /// The message that declared it.
    pub declared: Option<MessageNumber>,
    /// How many messages used it, and the first of them.
    pub used: Option<(u64, MessageNumber)>,
}

impl Standing {
    /// Whether a method of its own uses it.
    fn is_observable(&self) -> bool {
        Method::KNOWN.iter().any(|method| method.gate(Revisions::ALL) == Some(self.capability))
    }

    /// In words.
    pub fn words(&self) -> String {
        match (self.declared, self.used) {
            (Some(_), Some((times, _))) => format!("declared, used {}", self::times(times)),
            (Some(_), None) if self.is_observable() => "declared, not used".to_owned(),
            // What is allowed inside other messages.
            (Some(_), None) => "declared".to_owned(),
            (None, Some((times, _))) => format!("used {} undeclared", self::times(times)),
            (None, None) => String::new(),
        }
    }
}

/// One line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// 0 for a heading.
    pub depth: usize,
    /// What it is.
    pub name: String,
    /// What it says; as transmitted, not yet safe for a terminal.
    pub value: String,
    /// The message that said it.
    pub message: Option<MessageNumber>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The revision that the client asked for, or said in its requests.
    pub asked: Option<(String, MessageNumber)>,
    /// The revision that the server gave.
    pub given: Option<(String, MessageNumber)>,
    /// What the server says of its use.
    pub instructions: Option<(String, MessageNumber)>,
    /// What client and server declared.
    declared: [Option<(Capabilities, MessageNumber)>; 2],
    used: BTreeMap<Capability, (u64, MessageNumber)>,
    /// Lists by the member that holds them.
    pub lists: BTreeMap<&'static str, Listed>,
    /// What happened when, in order.
    pub timeline: Vec<(Time, String, MessageNumber)>,
    /// The first operations, and whether there are more.
    pub operations: (Vec<Operation>, bool),
    /// How it ended.
    pub end: String,
    texts: usize,
}

/// Reads the overview of a session.
///
/// # Errors
/// The database cannot be read, or is damaged.
pub fn read(reader: &StoreReader, session: &Session) -> Result<Overview> {
    let mut overview = Overview::default();
    let revisions =
        session.protocol_version.as_deref().and_then(Revision::named).map_or(Revisions::ALL, Revisions::only);
    let counts = reader.method_counts(session.number)?;
    overview.count(&counts, revisions);
    let Some(capture) = reader.capture_of(session.number)? else { return Ok(overview) };
    let filter: Filter = TELLING.map(|method| format!("method = {method}")).join(" or ").parse()?;
    // How many there are is known: the calls that mostly follow them are not gone through.
    let is_telling = |count: &&MethodCount| count.method.as_deref().is_some_and(|method| TELLING.contains(&method));
    let mut telling: u64 = counts.iter().filter(is_telling).map(|count| count.count).sum();
    let first_call = counts.iter().find(|count| count.kind == Kind::Request && is(count, Method::ToolsCall));
    let mut page = Page::first(telling.min(SLICE) as usize);
    while telling > 0 {
        let rows = reader.matching(&filter, Scope::Session(session.number), page)?;
        let Some(last) = rows.last() else { break };
        telling = telling.saturating_sub(rows.len() as u64);
        page = Page::from(last.key().next(), telling.min(SLICE) as usize);
        for row in &rows {
            overview.passed(row);
            if overview.tells(row) {
                overview.hear(reader, row)?;
            }
        }
        // A server that says all the time that its lists have changed tells nothing new.
        if overview.texts >= TEXTS && overview.timeline.len() >= EVENTS {
            break;
        }
    }
    if let Some(count) = first_call
        && let Some(row) =
            reader.message_rows(Scope::Capture(capture), Page::from(RowKey::new(capture, count.first.0), 1))?.pop()
    {
        overview.timeline.push((row.time, "first call of a tool".to_owned(), row.number));
        overview.timeline.sort_by_key(|(_, _, number)| *number);
    }
    // Without a handshake the client's first requests say who it is.
    for row in reader.message_rows_at(session.number, 1, FIRST)? {
        if overview.asked.is_none() && row.kind == Kind::Request && row.direction == Direction::ClientToServer {
            overview.hear(reader, &row)?;
        }
    }
    for number in reader.messages_asking_for_input(session.number, TEXTS)? {
        if let Some(message) = reader.message(RowKey::new(capture, number.0))? {
            overview.asked_back(&message);
        }
    }
    overview.operations = operations::read(reader, capture, session.number)?;
    overview.end = end(reader, session)?;
    Ok(overview)
}

impl Overview {
    /// Which capabilities were used, how often, and where first.
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

    /// What a result asked the client for (`inputRequests`, 2026-07-28), where the client went on with it.
    fn asked_back(&mut self, message: &Message) {
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
    fn tells(&self, row: &MessageRow) -> bool {
        let Some(method) = row.method.as_deref() else { return false };
        match row.kind {
            Kind::Request => method == "initialize",
            Kind::Response => matches!(method, "initialize" | "server/discover") || list(method).is_some(),
            Kind::Notification | Kind::Error | Kind::Invalid => false,
        }
    }

    /// Reads a message, within bounds.
    fn hear(&mut self, reader: &StoreReader, row: &MessageRow) -> Result<()> {
        if self.texts < TEXTS
            && row.size <= LONGEST
            && let Some(message) = reader.message(row.key())?
        {
            self.texts += 1;
            self.said(&message);
        }
        Ok(())
    }

    /// A message that the timeline may name, without its text.
    fn passed(&mut self, row: &MessageRow) {
        let Some(name) = row.method.as_deref() else { return };
        let method = Method::named(name);
        let what = match (row.kind, method) {
            (Kind::Request, Method::Initialize | Method::ServerDiscover) => format!("{name} asked"),
            (Kind::Response, Method::Initialize | Method::ServerDiscover) => {
                format!("{name} answered after {}", duration(row.latency.unwrap_or_default()))
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

    /// A handshake or a list.
    fn said(&mut self, message: &Message) {
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
                self.asked = version.map(|version| (version.into_owned(), number)).or(self.asked.take());
                if let Some(capabilities) = capabilities {
                    self.declared[0] = Some((Capabilities::read(Declarer::Client, capabilities), number));
                }
            }
            (Kind::Response, Some(method @ ("initialize" | "server/discover"))) => {
                let result = body(message);
                if method == "initialize" {
                    self.given = result.text("protocolVersion").map(|version| (version.into_owned(), number));
                } else {
                    let versions = array(result.get("supportedVersions").unwrap_or_default(), 16);
                    let versions: Vec<&str> = versions.into_iter().map(|version| version.trim_matches('"')).collect();
                    self.given = Some((versions.join(" or "), number));
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
                // A page belongs to the list before it, anything else begins a list.
                let goes_on = message.link.is_some_and(|link| link.why == Why::Answer);
                let listed = self.lists.entry(member).or_default();
                if !goes_on || listed.message == MessageNumber::default() {
                    *listed = Listed { message: number, ..Listed::default() };
                }
                listed.items += items.len() as u64;
                listed.bytes += items.iter().map(|item| item.len() as u64).sum::<u64>();
            }
            _ => {}
        }
    }

    /// The capabilities of a side that were declared or used, in the order of the specification's table.
    pub fn capabilities(&self, side: Declarer) -> Vec<Standing> {
        let declared = &self.declared[side as usize];
        let mut all: Vec<Capability> = declared.iter().flat_map(|(declared, _)| declared.iter()).collect();
        all.extend(self.used.keys().copied().filter(|capability| capability.declarer() == side));
        all.sort_unstable();
        all.dedup();
        let standing = |capability| Standing {
            capability,
            declared: declared.as_ref().filter(|(said, _)| said.has(capability)).map(|(_, number)| *number),
            used: self.used.get(&capability).copied(),
        };
        all.into_iter().map(standing).collect()
    }

    /// The ids of the extensions that a side declared.
    pub fn extensions(&self, side: Declarer) -> &[String] {
        self.declared[side as usize].as_ref().map_or(&[], |(declared, _)| declared.extensions.as_slice())
    }

    /// Extensions that both sides declared: they are in force.
    pub fn negotiated(&self) -> impl Iterator<Item = &str> {
        let server = self.extensions(Declarer::Server);
        self.extensions(Declarer::Client).iter().filter(|id| server.contains(id)).map(String::as_str)
    }

    /// For people.
    pub fn lines(&self, session: &Session) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut line = |depth, name: &str, value: String, message| {
            lines.push(Line { depth, name: name.to_owned(), value, message });
        };
        for (name, party) in [("client", &session.client), ("server", &session.server)] {
            let party = party.as_ref().map(|party| format!("{} {}", party.name, party.version));
            line(0, name, party.unwrap_or_else(|| "unknown".to_owned()), None);
        }
        for (name, said) in [("revision asked", &self.asked), ("revision given", &self.given)] {
            if let Some((version, number)) = said {
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
            let standing = self.capabilities(side);
            let unknown = self.declared[side as usize].is_none();
            let all = if unknown { "no declaration was seen".to_owned() } else { standing.len().to_string() };
            line(0, name, all, self.declared[side as usize].as_ref().map(|(_, number)| *number));
            for one in standing {
                let place = one.used.map(|(_, number)| number).or(one.declared);
                // Where no declaration was seen nothing is known to be undeclared.
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

/// The member that holds the items of a list.
fn list(method: &str) -> Option<&'static str> {
    Some(match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        "resources/templates/list" => "resourceTemplates",
        _ => return None,
    })
}

/// Bytes and tokens.
fn costs(listed: &Listed) -> String {
    format!("{}, about {}", size(listed.bytes), count(listed.tokens(), "token"))
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// How a session ended, as far as the capture says.
fn end(reader: &StoreReader, session: &Session) -> Result<String> {
    let waiting = match session.unanswered {
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
            // "Clients that no longer need a particular session SHOULD send an HTTP DELETE" (2025-03-26 basic/transports,
            // Session Management).
            let names_it = |exchange: &Exchange| {
                let mut fields = exchange.request.fields.iter();
                fields.any(|(name, value)| name.eq_ignore_ascii_case("mcp-session-id") && value == id)
            };
            let mut last = last.into_iter();
            let delete = last.find(|exchange| exchange.method.as_deref() == Some("DELETE") && names_it(exchange));
            match delete.map(|exchange| exchange.status) {
                Some(Some(status)) => format!("the client deleted the session: status {status}"),
                Some(None) => "the client deleted the session".to_owned(),
                None => "last message; nobody ended the session in this capture".to_owned(),
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
        let said = Capabilities::read(Declarer::Server, r#"{"tools":{},"logging":{},"extensions":{"a/b":{}}}"#);
        overview.declared[1] = Some((said, MessageNumber(2)));
        overview.used.insert(Capability::Tools, (3, MessageNumber(4)));
        overview.used.insert(Capability::Prompts, (1, MessageNumber(9)));
        overview.used.insert(Capability::Sampling, (1, MessageNumber(7)));
        let said: Vec<String> = overview
            .capabilities(Declarer::Server)
            .into_iter()
            .map(|one| format!("{}: {}", one.capability.path(), one.words()))
            .collect();
        assert_eq!(
            said,
            ["tools: declared, used 3 times", "prompts: used once undeclared", "logging: declared, not used"]
        );
        assert_eq!(overview.negotiated().count(), 0, "the client declared no extension");
        assert_eq!(overview.capabilities(Declarer::Client).len(), 1);
    }
}
