//! The tools that a project accepted, and the changes since then.
//!
//! A changed description of a tool is treated as an attack on the model until it is explained.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cli::target::Opened;
use crate::decode::json::{self, Object};
use crate::decode::jsonrpc::Kind;
use crate::filter::Filter;
use crate::findings::baseline::{Drift, compare};
use crate::mcp::content::part;
use crate::mcp::contract::TOOLS;
use crate::mcp::{Message, Peers, Session, SessionNumber};
use crate::store::{CaptureId, FindingRow, Scope};

/// The tools of each server, both by name.
pub type Servers = BTreeMap<String, BTreeMap<String, Value>>;

/// The message that listed tools, and its session.
struct Listed {
    session: Session,
    message: Message,
}

/// The tools of each server in its last listing.
pub fn tools(opened: &Opened) -> Result<Servers> {
    Ok(listings(opened)?.into_iter().map(|(server, (tools, _))| (server, tools)).collect())
}

/// The differences from the accepted tools, as findings.
pub fn drift(opened: &Opened, path: &Path) -> Result<Vec<FindingRow>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the baseline {} (--write-baseline makes it)", path.display()))?;
    let accepted: Servers = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a baseline: write one with --write-baseline", path.display()))?;
    let mut found = Vec::new();
    for (server, (tools, listed)) in listings(opened)? {
        let nothing = BTreeMap::new();
        let before = accepted.get(&server).unwrap_or(&nothing);
        found.extend(compare(before, &tools).into_iter().map(|drift| row(opened, &server, drift, &listed)));
    }
    Ok(found)
}

fn row(opened: &Opened, server: &str, drift: Drift, listed: &Listed) -> FindingRow {
    let capture = opened.reader.capture_of(listed.session.number).ok().flatten().unwrap_or(CaptureId(0));
    FindingRow {
        number: 0,
        capture,
        rule: drift.rule.id.to_owned(),
        severity: drift.rule.severity,
        title: drift.rule.title.to_owned(),
        spec: drift.rule.spec.to_owned(),
        session: Some(listed.session.number),
        messages: vec![listed.message.number],
        packets: listed.message.packets.clone(),
        span: Some(listed.message.span),
        text: format!("{server}: {}", drift.text),
        repeated: 0,
    }
}

/// The name that identifies a server in the baseline: the one it gave itself, else its command
/// or its host.
fn name(session: &Session) -> String {
    match (&session.server, &session.name, &session.peers) {
        (Some(server), ..) => server.name.clone(),
        (None, Some(name), _) => name.clone(),
        (None, None, Peers::Process { command, .. }) => command.join(" "),
        (None, None, Peers::Network { host: Some(host), .. }) => host.clone(),
        (None, None, Peers::Network { server, .. }) => server.to_string(),
    }
}

/// Servers by name: their tools, and the message that listed them.
type Listings = BTreeMap<String, (BTreeMap<String, Value>, Listed)>;

/// Reads each server's tools and the message that listed them last. A page of a list adds to the
/// pages before it.
fn listings(opened: &Opened) -> Result<Listings> {
    let filter = Filter::parse("method = tools/list and kind = response")?;
    let sessions: BTreeMap<SessionNumber, Session> =
        opened.sessions()?.into_iter().map(|session| (session.number, session)).collect();
    // One query over all sessions: one for each would take time in proportion to their number.
    let scope = opened.session.map_or(Scope::All, Scope::Session);
    let mut servers: Listings = BTreeMap::new();
    // Sessions whose last page had a cursor to another one.
    let mut open = BTreeSet::new();
    for row in opened.reader.all_matching(&filter, scope) {
        let row = row?;
        let Some(session) = sessions.get(&row.session) else { continue };
        let Some(message) = opened.reader.message(row.key())? else { continue };
        let Some(result) = part(&message, "result").filter(|_| message.kind == Kind::Response) else { continue };
        let result = Object::read(result);
        let read = json::array(result.get("tools").unwrap_or_default(), TOOLS);
        let tools = read.into_iter().filter_map(|tool| {
            let value: Value = serde_json::from_str(tool).ok()?;
            Some((value.get("name")?.as_str()?.to_owned(), value))
        });
        let continues = open.remove(&session.number);
        if result.get("nextCursor").is_some_and(|cursor| cursor != "null") {
            open.insert(session.number);
        }
        let tools: Vec<(String, Value)> = tools.collect();
        let listed = Listed { session: session.clone(), message };
        match servers.entry(name(session)) {
            Entry::Vacant(entry) => {
                entry.insert((tools.into_iter().collect(), listed));
            }
            Entry::Occupied(mut known) => {
                let (known, at) = known.get_mut();
                if !continues {
                    known.clear();
                }
                known.extend(tools);
                *at = listed;
            }
        }
    }
    Ok(servers)
}
