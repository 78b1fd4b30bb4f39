//! `mcptap sessions`: lists sessions.
//!
//! Their state is `live`, `died` (the server ended with an error or by a signal), or `cut` (the
//! recorder was killed, so the rest of the session is unknown).

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use super::args::{Colour, Sessions};
use super::{databases, output, target};
use crate::engine::saver;
use crate::export::jsonl;
use crate::mcp::{Peers, Session};
use crate::store::{Capture, StoreReader};
use crate::view::paint::{Paint, Tone};
use crate::view::safe::{self, Align};
use crate::view::{parties, units};

pub fn run(arguments: Sessions, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let opened = target::open(arguments.target.as_deref(), None, &arguments.decoding, db)?;
    let sessions = opened.sessions()?;
    let mut out = output::stdout();
    if arguments.target.is_none() {
        databases::mention_others(opened.reader.place().path());
    }
    if arguments.json {
        let mut line = Vec::new();
        for session in &sessions {
            output::json_line(&mut out, &mut line, |line| jsonl::write_session(line, session))?;
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let paint = output::paint(colour);
    let head = row(paint, Tone::Dim, HEAD.map(str::to_owned));
    writeln!(out, "{head}")?;
    let recordings = opened.reader.recordings()?;
    let pinned: HashSet<_> = recordings.iter().filter(|one| one.is_pinned).map(|one| one.session).collect();
    for session in &sessions {
        let state = state(&opened.reader, session)?;
        let tone = if state == "live" { Tone::Good } else { Tone::Plain };
        let pinned = if pinned.contains(&session.number) { "  pinned" } else { "" };
        writeln!(out, "{}{pinned}", row(paint, tone, columns(session, state)))?;
    }
    if sessions.is_empty() {
        writeln!(out, "no sessions: wrap a server with \"mcptap wrap\", or read a capture with --save")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The state of a session in a word; empty where nothing is unusual.
fn state(reader: &StoreReader, session: &Session) -> Result<&'static str> {
    if is_live(reader, session)? {
        return Ok("live");
    }
    Ok(match session.exit {
        Some(exit) if exit.code != Some(0) => "died",
        None if capture(reader, session)?.is_some_and(|capture| capture.summary.is_none()) => "cut",
        _ => "",
    })
}

/// Whether a session's capture is still being written and its server has not ended.
pub fn is_live(reader: &StoreReader, session: &Session) -> Result<bool> {
    Ok(session.exit.is_none() && capture(reader, session)?.is_some_and(|capture| capture.is_live(saver::now())))
}

fn capture(reader: &StoreReader, session: &Session) -> Result<Option<Capture>> {
    reader.capture_of(session.number)?.map_or(Ok(None), |capture| reader.capture(capture))
}

const HEAD: [&str; 9] =
    ["session", "state", "server", "client", "transport", "revision", "messages", "errors", "started"];
const WIDTHS: [(usize, Align); 9] = [
    (7, Align::Right),
    (5, Align::Left),
    (32, Align::Left),
    (24, Align::Left),
    (15, Align::Left),
    (10, Align::Left),
    (8, Align::Right),
    (6, Align::Right),
    (19, Align::Left),
];

fn row(paint: Paint, tone: Tone, columns: [String; 9]) -> String {
    let padded: Vec<String> =
        columns.iter().zip(WIDTHS).map(|(column, (width, align))| safe::pad(column, width, align)).collect();
    paint.paint(tone, padded.join("  ").trim_end())
}

fn columns(session: &Session, state: &str) -> [String; 9] {
    let server = match (&session.server, &session.peers) {
        (Some(_), Peers::Process { name: Some(name), .. }) => format!("{name} ({})", parties::server(session)),
        (None, Peers::Network { server, host: Some(host), .. }) => format!("{host}:{}", server.port()),
        _ => parties::server(session),
    };
    [
        session.number.0.to_string(),
        state.to_owned(),
        server,
        parties::party(&session.client).unwrap_or_default(),
        session.transport.name().to_owned(),
        session.protocol_version.clone().unwrap_or_default(),
        session.messages.to_string(),
        match session.outcomes.failed() {
            0 => String::new(),
            failed => failed.to_string(),
        },
        units::clock(session.started),
    ]
}
