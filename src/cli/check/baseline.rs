//! The tools that a project accepted, and what became of them: a description that changed under a model's feet is an attack
//! until explained.

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

/// Servers by name, and their tools by name.
pub type Servers = BTreeMap<String, BTreeMap<String, Value>>;

/// Where a tool was listed.
struct Listed {
    session: Session,
    message: Message,
}

/// The tools of each server as last listed.
pub fn tools(opened: &Opened) -> Result<Servers> {
    Ok(listings(opened)?.into_iter().map(|(server, (tools, _))| (server, tools)).collect())
}

/// What differs from the accepted state.
pub fn drift(opened: &Opened, path: &Path) -> Result<Vec<FindingRow>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the baseline {}", path.display()))?;
    let accepted: Servers = serde_json::from_str(&text)
        .with_context(|| format!("{} is no baseline: write one with --write-baseline", path.display()))?;
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

/// The name by which a server is known again: its own, else the command or the host.
fn name(session: &Session) -> String {
    match (&session.server, &session.peers) {
        (Some(server), _) => server.name.clone(),
        (None, Peers::Process { name: Some(name), .. }) => name.clone(),
        (None, Peers::Process { command, .. }) => command.join(" "),
        (None, Peers::Network { host: Some(host), .. }) => host.clone(),
        (None, Peers::Network { server, .. }) => server.to_string(),
    }
}

/// Servers by name: their tools, and where those were listed.
type Listings = BTreeMap<String, (BTreeMap<String, Value>, Listed)>;

/// Each server's tools, and the message that listed them last. A page that follows another adds to it.
fn listings(opened: &Opened) -> Result<Listings> {
    let filter: Filter = "method = tools/list and kind = response".parse()?;
    let sessions: BTreeMap<SessionNumber, Session> =
        opened.sessions()?.into_iter().map(|session| (session.number, session)).collect();
    // Of all sessions at once: asking for each would take as long as there are sessions.
    let scope = opened.session.map_or(Scope::All, Scope::Session);
    let mut servers: Listings = BTreeMap::new();
    // Sessions whose last page said that there is more.
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
        let goes_on = open.remove(&session.number);
        if result.get("nextCursor").is_some_and(|cursor| cursor != "null") {
            open.insert(session.number);
        }
        let tools: Vec<(String, Value)> = tools.collect();
        let listed = Listed { session: session.clone(), message };
        match servers.entry(name(session)) {
            Entry::Vacant(place) => {
                place.insert((tools.into_iter().collect(), listed));
            }
            Entry::Occupied(mut known) => {
                let (known, at) = known.get_mut();
                if !goes_on {
                    known.clear();
                }
                known.extend(tools);
                *at = listed;
            }
        }
    }
    Ok(servers)
}
