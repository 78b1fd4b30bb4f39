//! `mcptap export`: writes sessions in other formats.

mod file;

use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::{Export, Format};
use super::filter;
use super::output::json_line;
use super::target::{self, Opened};
use crate::cli::output::note;
use crate::decode::tls::RecordGroupKind;
use crate::engine::saver;
use crate::export::har::Har;
use crate::export::html;
#[cfg(feature = "parquet")]
use crate::export::parquet::Parquet;
use crate::export::{jsonl, mermaid, otlp, pcapng};
use crate::filter::Filter;
use crate::mcp::{Message, Session, Transport};
use crate::source::{Item, Source};
use crate::store::{Page, Scope, Selection, StoredPackets};
use crate::view::timeline::{self, TimelinePosition, TimelineRow};
use crate::view::units;

pub fn run(arguments: Export, db: Option<PathBuf>) -> Result<ExitCode> {
    #[cfg(feature = "parquet")]
    if let Some(place) = &arguments.dataset.dataset {
        return super::dataset::export(&arguments, place, db);
    }
    let filter = filter::parse(arguments.filter.as_deref())?;
    let named = arguments.output.as_deref().and_then(Format::of_file);
    let Some(format) = arguments.format.or(named) else {
        bail!(
            "which format? Give --format jsonl, har, html, otlp, parquet, pcapng or mermaid, or a file that ends like one: -o session.html"
        );
    };
    if format == Format::Pcapng && filter.is_some() {
        bail!("a filter selects messages, not packets: pcapng cannot be combined with --filter");
    }
    if format == Format::Parquet && cfg!(not(feature = "parquet")) {
        bail!(super::lacking("Parquet"));
    }
    let opened = target::open_or_latest(&arguments.sessions, db)?;
    let filter = filter.as_ref();
    file::write(arguments.output.as_deref(), |out| match format {
        Format::Jsonl => opened.sessions()?.iter().try_for_each(|session| lines(&opened, session, filter, out)),
        Format::Har => exchanges(&opened, filter, out),
        Format::Html => html::write(&opened.reader, &opened.sessions()?, filter.zip(arguments.filter.as_deref()), out),
        Format::Otlp => traces(&opened, filter, out),
        #[cfg(feature = "parquet")]
        Format::Parquet => rows(&opened, filter, out),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Ok(()),
        Format::Pcapng => packets(&opened, out),
        Format::Mermaid => diagram(&opened, filter, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a session as JSON lines: its timeline, exchanges, findings, and last the session.
fn lines(opened: &Opened, session: &Session, filter: Option<&Filter>, out: &mut dyn Write) -> Result<()> {
    let mut line = Vec::new();
    timeline::visit(&opened.reader, session, filter, TimelinePosition::default(), &mut |row| {
        Ok(json_line(out, &mut line, |line| match &row {
            TimelineRow::Message(message) => jsonl::write_message(line, message),
            TimelineRow::Note(note) => jsonl::write_note(line, note),
        })?)
    })?;
    for exchange in opened.reader.all_exchanges(session.number) {
        let exchange = exchange?;
        json_line(out, &mut line, |line| jsonl::write_exchange(line, &exchange, Some(session.number)))?;
    }
    for row in opened.reader.all_findings(Scope::Session(session.number)) {
        let Some(finding) = row?.finding() else { continue };
        json_line(out, &mut line, |line| jsonl::write_finding(line, &finding))?;
    }
    let Some(listed) = opened.reader.listed_session(session.number)? else { return Ok(()) };
    Ok(json_line(out, &mut line, |line| jsonl::write_stored_session(line, &listed, saver::now()))?)
}

/// Writes the HTTP exchanges of the sessions. With a filter, only those that carried
/// a matching message.
fn exchanges(opened: &Opened, filter: Option<&Filter>, out: &mut dyn Write) -> Result<()> {
    let sessions = opened.sessions()?;
    let (http, stdio): (Vec<_>, Vec<_>) = sessions.iter().partition(|session| session.transport != Transport::Stdio);
    match (http.len(), stdio.len()) {
        (0, 1..) => bail!("a session over STDIO has no HTTP to put into a HAR file: use --format jsonl, or pcapng"),
        (_, 0) => {}
        (_, left_out) => {
            note!("skipped {} over STDIO: there is no HTTP to export", units::count(left_out as u64, "session"));
        }
    }
    let mut har = Har::new(&opened.reader, out)?;
    for session in http {
        let chosen = chosen(opened, session, filter, |message| message.exchange)?;
        har.session(session, &|exchange| chosen.as_ref().is_none_or(|chosen| chosen.contains(&exchange)))?;
    }
    Ok(har.finish()?)
}

/// Writes the requests of the sessions as spans. With a filter, only requests that match or
/// whose response does.
fn traces(opened: &Opened, filter: Option<&Filter>, out: &mut dyn Write) -> Result<()> {
    for session in opened.sessions()? {
        let request = |message: &Message| message.answers.or(Some(message.number));
        let chosen = chosen(opened, &session, filter, request)?;
        otlp::write_session(&opened.reader, &session, chosen.as_ref(), out)?;
    }
    Ok(())
}

/// The results of `name` for the messages of a session that match the filter. `None`
/// without a filter.
fn chosen<T: Ord>(
    opened: &Opened,
    session: &Session,
    filter: Option<&Filter>,
    name: impl Fn(&Message) -> Option<T>,
) -> Result<Option<BTreeSet<T>>> {
    let Some(filter) = filter else { return Ok(None) };
    let mut chosen = BTreeSet::new();
    for message in opened.reader.session_messages(session.number, Some(filter)) {
        chosen.extend(name(&message?));
    }
    Ok(Some(chosen))
}

/// Writes the messages of the sessions as rows.
#[cfg(feature = "parquet")]
fn rows(opened: &Opened, filter: Option<&Filter>, out: &mut (dyn Write + Send)) -> Result<()> {
    let mut parquet = Parquet::new(out)?;
    for session in opened.sessions()? {
        for message in opened.reader.session_messages(session.number, filter) {
            parquet.message(&session, message?)?;
        }
    }
    Ok(parquet.finish()?)
}

/// Writes the sessions as one diagram. Sessions of one capture ran at the same time, so their
/// messages are in one order of time.
fn diagram(opened: &Opened, filter: Option<&Filter>, out: &mut dyn Write) -> Result<()> {
    let sessions = opened.sessions()?;
    let head = mermaid::head(&sessions);
    let mut characters = head.chars().count();
    out.write_all(head.as_bytes())?;
    let mut draw = |message: &Message| -> Result<()> {
        let text = mermaid::message(message);
        characters += text.chars().count();
        Ok(out.write_all(text.as_bytes())?)
    };
    match opened.session {
        Some(session) => opened.reader.session_messages(session, filter).try_for_each(|message| draw(&message?))?,
        None => {
            let captures: Vec<_> =
                sessions.iter().map(|session| opened.reader.capture_of(session.number)).collect::<Result<_>>()?;
            let mut done = HashSet::new();
            for capture in captures.into_iter().flatten().filter(|capture| done.insert(*capture)) {
                opened.reader.capture_messages(capture, filter)?.try_for_each(|message| draw(&message?))?;
            }
        }
    }
    if characters > mermaid::DRAWN {
        note!(
            "the diagram has {characters} characters, but Mermaid draws {} unless maxTextSize is raised: select messages with --filter or --session",
            mermaid::DRAWN
        );
    }
    Ok(())
}

/// Writes the stored packets as a capture file. Secrets are masked as they were when the
/// packets were stored.
fn packets(opened: &Opened, out: &mut dyn Write) -> Result<()> {
    let mut writer = pcapng::Writer::new(out)?;
    let place = opened.reader.place().clone();
    let selections = match opened.session {
        Some(session) => vec![Selection::Session(session)],
        None => opened.reader.captures(Page::first(10_000))?.iter().map(|c| Selection::Capture(c.id)).collect(),
    };
    let mut has_secrets = false;
    for selection in selections {
        let mut stored = StoredPackets::open(place.clone(), selection)?;
        while let Some(item) = stored.next()? {
            match item {
                Item::Packet(packet) => writer.packet(&packet)?,
                // The store contains secrets only if the recording used --keep-secrets.
                Item::Secrets(lines) => {
                    has_secrets = true;
                    writer.secrets(lines)?;
                }
                Item::Damage(_) | Item::Dropped(_) | Item::Idle => {}
            }
        }
    }
    writer.finish()?;
    if !has_secrets && is_decrypted(opened)? {
        note!("the file has TLS traffic, but not its secrets: to read it, give its key log with --keylog FILE");
    }
    Ok(())
}

/// Whether a connection of the sessions was decrypted with TLS secrets.
fn is_decrypted(opened: &Opened) -> Result<bool> {
    for session in opened.sessions()? {
        for connection in opened.reader.all_connections(session.number) {
            if connection?.tls.iter().any(|group| group.kind == RecordGroupKind::Decrypted) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
