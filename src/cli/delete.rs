//! `mcptap delete` and `mcptap pin`: remove recordings and give their space back; keep some.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use super::args::{Delete, Pin};
use super::output::note;
use super::{output, target};
use crate::engine::saver;
use crate::mcp::SessionNumber;
use crate::store::{DatabaseFile, Fate, Maintenance, Recording, Space, StoreReader};
use crate::view::{parties, safe, units};

/// Sessions that a question lists one by one.
const LISTED: usize = 20;

pub fn delete(arguments: Delete, db: Option<PathBuf>) -> Result<ExitCode> {
    let place = DatabaseFile::file(target::existing(target::database(db)?)?);
    let reader = StoreReader::open(place.clone())?;
    let mut chosen = choose(&reader, &arguments)?;
    let kept = report_kept(&mut chosen);
    // Who named a session wants it to go. The other options mean those that may go.
    let refused = ExitCode::from(u8::from(kept > 0 && !arguments.sessions.is_empty()));
    let mut out = output::stdout();
    let lines = describe(&reader, &chosen)?;
    if !chosen.is_empty() && !arguments.yes && !confirmed(&reader, &chosen, &lines)? {
        note!("nothing was deleted");
        return Ok(ExitCode::from(1));
    }
    drop(reader);

    let mut maintenance = Maintenance::open(place)?;
    match maintenance.resume()? {
        0 => {}
        sessions => {
            writeln!(out, "an interrupted deletion of {} was finished", units::count(sessions, "session"))?;
        }
    }
    let numbers: Vec<_> = chosen.iter().map(|recording| recording.session).collect();
    let (mut deleted, mut failed) = (0, Ok(()));
    maintenance.delete(&numbers, |session, fate| match fate {
        Fate::Deleted => {
            deleted += 1;
            let line = lines.get(&session).map_or("", String::as_str);
            let written = writeln!(out, "deleted session {}: {line}", session.0).and_then(|()| out.flush());
            failed = std::mem::replace(&mut failed, Ok(())).and(written);
        }
        kept => note_kept(session, kept),
    })?;
    failed?;
    writeln!(out, "{}", summary(deleted, maintenance.give_back()?))?;
    out.flush()?;
    Ok(refused)
}

pub fn pin(arguments: Pin, db: Option<PathBuf>) -> Result<ExitCode> {
    let place = DatabaseFile::file(target::existing(target::database(db)?)?);
    let reader = StoreReader::open(place.clone())?;
    let sessions: Vec<_> = named(&reader, &arguments.sessions)?.iter().map(|recording| recording.session).collect();
    let mut maintenance = Maintenance::open(place)?;
    let mut out = output::stdout();
    for session in sessions {
        ensure!(maintenance.pin(session, !arguments.unpin)?, "session {} was deleted meanwhile", session.0);
        writeln!(out, "session {} is {}", session.0, if arguments.unpin { "no longer pinned" } else { "pinned" })?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The sessions with these names, each once.
fn named(reader: &StoreReader, names: &[String]) -> Result<Vec<Recording>> {
    let all = reader.recordings()?;
    let mut sessions = Vec::new();
    for name in names {
        sessions.push(match name.as_str() {
            "latest" => target::latest(reader)?,
            name => SessionNumber(name.parse().ok().with_context(|| format!("{name:?} is no number of a session"))?),
        });
    }
    sessions.sort_unstable();
    sessions.dedup();
    let find = |session: SessionNumber| {
        let at = all.binary_search_by_key(&session, |recording| recording.session).ok()?;
        all.get(at).cloned()
    };
    sessions.into_iter().map(|session| find(session).with_context(|| target::no_session(session, ""))).collect()
}

fn choose(reader: &StoreReader, arguments: &Delete) -> Result<Vec<Recording>> {
    if !arguments.sessions.is_empty() {
        return named(reader, &arguments.sessions);
    }
    let mut chosen = reader.recordings()?;
    if let Some(age) = arguments.before {
        let now = saver::now();
        chosen.retain(|recording| now.since(recording.last) > age);
    }
    if let Some(limit) = arguments.larger {
        let sizes = reader.stored_sizes(chosen.iter())?;
        chosen.retain(|recording| sizes.get(&recording.session).is_some_and(|size| *size > limit));
    }
    Ok(chosen)
}

/// Removes the sessions that stay from the list and names them. Returns their number.
fn report_kept(chosen: &mut Vec<Recording>) -> usize {
    let before = chosen.len();
    chosen.retain(|recording| {
        let fate = if recording.is_pinned { Fate::Pinned } else { Fate::Live };
        let stays = recording.is_pinned || recording.is_live;
        if stays {
            note_kept(recording.session, fate);
        }
        !stays
    });
    before - chosen.len()
}

fn note_kept(session: SessionNumber, fate: Fate) {
    let number = session.0;
    match fate {
        Fate::Pinned => note!("session {number} stays: it is pinned (\"mcptap pin --unpin {number}\")"),
        Fate::Live => note!("session {number} stays: it is being recorded"),
        Fate::Missing => note!("session {number} was deleted meanwhile"),
        Fate::Deleted => {}
    }
}

/// What each session is, in a line without control characters.
fn describe(reader: &StoreReader, chosen: &[Recording]) -> Result<HashMap<SessionNumber, String>> {
    let mut lines = HashMap::new();
    for recording in chosen {
        let Some(session) = reader.session(recording.session)? else { continue };
        let name = recording.name.clone().unwrap_or_else(|| parties::server(&session));
        let (messages, started) = (units::count(session.messages, "message"), units::clock(session.started));
        lines.insert(recording.session, safe::visible(&format!("{name}, {messages}, {started}")).into_owned());
    }
    Ok(lines)
}

/// Asks on a terminal whether to delete these sessions.
fn confirmed(reader: &StoreReader, chosen: &[Recording], lines: &HashMap<SessionNumber, String>) -> Result<bool> {
    let sessions = units::count(chosen.len() as u64, "session");
    if !output::can_ask() {
        bail!("{sessions} would be deleted: confirm with --yes");
    }
    for recording in chosen.iter().take(LISTED) {
        let line = lines.get(&recording.session).map_or("", String::as_str);
        output::say(&format!("{:>7}  {line}", recording.session.0));
    }
    if chosen.len() > LISTED {
        output::say(&format!("         and {} more", chosen.len() - LISTED));
    }
    let size: u64 = reader.stored_sizes(chosen.iter())?.values().sum();
    Ok(output::ask(&format!("delete {sessions} (about {})?", units::size(size)))?)
}

fn summary(deleted: u64, space: Space) -> String {
    let deleted = units::count(deleted, "session");
    let given = format!("{deleted} deleted; {} given back", units::size(space.given_back));
    match space.free {
        0 => given,
        free => format!("{given}; {} are free for new recordings", units::size(free)),
    }
}
