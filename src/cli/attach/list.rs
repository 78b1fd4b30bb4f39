//! `mcptap attach --list`: the MCP pairs of this machine, over STDIO and over HTTP.
//!
//! ```text
//!     4711  stdio  node server.js                  the server
//!           host 4700 node client.js  under npx (4709)
//!     4712  http   node server.js streamableHttp   at 127.0.0.1:3000
//!           host 4701 python client.py
//!           to see it: sudo mcptap sniff -i lo -f "tcp port 3000"
//! ```

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;

use anyhow::Result;
use serde_json::{Value, json};

use super::{command, hidden};
use crate::cli::args::Colour;
use crate::cli::output::{self, note};
use crate::source::attach::http_pairs::{self, Evidence};
use crate::source::attach::visibility::{self, HttpVisibility};
use crate::source::attach::{HttpPair, Pair, Snapshot};
use crate::source::command::program;
use crate::view::paint::{Paint, Tone};
use crate::view::{command_line, safe};

/// The most addresses of a pair that a line shows.
const ADDRESSES: usize = 3;

/// Prints all pairs, with what can be seen of each.
pub(super) fn list(snapshot: &Snapshot, pairs: &[Pair], json: bool, colour: Colour) -> Result<()> {
    let mut out = output::stdout();
    let http = http_pairs::http_pairs(snapshot, pairs);
    let (paint, width) = (output::paint(colour), output::width());
    let page = Page { snapshot, paint, width };
    for pair in pairs {
        if json { writeln!(out, "{}", page.stdio_json(pair))? } else { page.stdio(&mut out, pair)? }
    }
    for pair in &http {
        if json { writeln!(out, "{}", page.http_json(pair))? } else { page.http(&mut out, pair)? }
    }
    if !json && pairs.is_empty() && http.is_empty() {
        writeln!(out, "no MCP server was found")?;
    }
    if let Some(hidden) = hidden(snapshot) {
        note!("{hidden}");
    }
    Ok(out.flush()?)
}

/// The list and the terminal that it is made for.
struct Page<'p> {
    snapshot: &'p Snapshot,
    paint: Paint,
    width: usize,
}

impl Page<'_> {
    fn words(&self, process: u32) -> Vec<String> {
        command_line::masked(&command(self.snapshot, process))
    }

    fn party(&self, process: u32) -> Value {
        json!({"process": process, "command": self.words(process)})
    }

    fn stdio_json(&self, pair: &Pair) -> Value {
        json!({
            "type": "pair", "host": self.party(pair.host), "server": self.party(pair.server), "transport": "stdio",
            "processes": pair.processes, "names_mcp": pair.names_mcp,
            "obstacles": visibility::obstacles(self.snapshot, pair),
        })
    }

    fn stdio(&self, out: &mut impl Write, pair: &Pair) -> Result<()> {
        let launchers: Vec<String> = pair
            .processes
            .iter()
            .filter(|id| **id != pair.server)
            .map(|id| format!("{} ({id})", command(self.snapshot, *id).first().map_or("?", |word| program(word))))
            .collect();
        let under = if launchers.is_empty() { String::new() } else { format!("  under {}", launchers.join(", ")) };
        let server = format!("{:>8}  stdio  {}", pair.server, self.words(pair.server).join(" "));
        self.first(out, if pair.names_mcp { Tone::Strong } else { Tone::Plain }, &server)?;
        self.more(out, Tone::Dim, &format!("host {} {}{under}", pair.host, self.words(pair.host).join(" ")))?;
        visibility::obstacles(self.snapshot, pair).iter().try_for_each(|why| self.whole(out, Tone::Warning, why))
    }

    fn http_json(&self, pair: &HttpPair) -> Value {
        let HttpVisibility { command, obstacles } = visibility::of_http(self.snapshot, pair);
        let texts = |addresses: &BTreeSet<SocketAddr>| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut server = pair.server.map_or(json!({}), |process| self.party(process));
        server["addresses"] = json!(texts(&pair.addresses));
        let mut host = pair.client.map_or(json!({}), |process| self.party(process));
        if !pair.remote_clients.is_empty() {
            host["addresses"] = json!(texts(&pair.remote_clients));
        }
        let mut line = json!({
            "type": "pair", "transport": transport(pair), "server": server,
            "names_mcp": pair.evidence != Evidence::ClientHostsMcp, "evidence": pair.evidence.text(),
            "obstacles": obstacles,
        });
        if host != json!({}) {
            line["host"] = host;
        }
        if let Some(command) = command {
            line["see"] = command.into();
        }
        line
    }

    fn http(&self, out: &mut impl Write, pair: &HttpPair) -> Result<()> {
        let HttpVisibility { command, obstacles } = visibility::of_http(self.snapshot, pair);
        let (transport, addresses) = (transport(pair), shown(&pair.addresses));
        let server = match pair.server {
            Some(server) => format!("{server:>8}  {transport:<5}  {}  at {addresses}", self.words(server).join(" ")),
            None => format!("{:>8}  {transport:<5}  {addresses}", ""),
        };
        let tone = if pair.evidence == Evidence::ServerNamesMcp { Tone::Strong } else { Tone::Plain };
        self.first(out, tone, &server)?;
        let host = match pair.client {
            Some(client) => format!("host {client} {}", self.words(client).join(" ")),
            None if pair.remote_clients.is_empty() => "no client is connected now".to_owned(),
            None => format!("hosts at {}", shown(&pair.remote_clients)),
        };
        self.more(out, Tone::Dim, &host)?;
        if pair.evidence != Evidence::ServerNamesMcp {
            self.more(out, Tone::Dim, pair.evidence.text())?;
        }
        obstacles.iter().try_for_each(|why| self.whole(out, Tone::Warning, why))?;
        command.iter().try_for_each(|command| self.whole(out, Tone::Plain, &format!("to see it: {command}")))
    }

    fn first(&self, out: &mut impl Write, tone: Tone, line: &str) -> Result<()> {
        Ok(writeln!(out, "{}", self.paint.paint(tone, &safe::fit(line, self.width)))?)
    }

    fn more(&self, out: &mut impl Write, tone: Tone, line: &str) -> Result<()> {
        self.first(out, tone, &format!("          {line}"))
    }

    /// A line that is not cut at the width of the terminal.
    fn whole(&self, out: &mut impl Write, tone: Tone, line: &str) -> Result<()> {
        Ok(writeln!(out, "          {}", self.paint.paint(tone, &safe::visible(line)))?)
    }
}

fn transport(pair: &HttpPair) -> &'static str {
    if pair.is_https { "https" } else { "http" }
}

/// The first addresses, and the number of the others.
fn shown(addresses: &BTreeSet<SocketAddr>) -> String {
    let first: Vec<String> = addresses.iter().take(ADDRESSES).map(ToString::to_string).collect();
    match addresses.len().saturating_sub(ADDRESSES) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
