//! `mcptap replay`: sends a recording again and compares the responses.

mod edits;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[cfg(feature = "http")]
use anyhow::Context;
use anyhow::{Result, bail};

use super::args::{Colour, Replay, ReportFormat};
use super::{diff, filter, output, stop, target};
use crate::cli::output::note;
use crate::compare::json;
use crate::mcp::{MessageNumber, Session};
use crate::replay::job::planned;
use crate::replay::load::{self, Load, Outcomes, percentile};
use crate::replay::recording::masked_headers;
use crate::replay::safety::Policy;
use crate::replay::settings::{Pace, Settings};
use crate::replay::target::{RecordedServer, Target};
use crate::replay::{AnalyzedRecording, Follower, Job};
use crate::store::{DatabaseFile, Scope, StoreReader};
use crate::view::safe;
use crate::view::units::duration;

pub fn run(arguments: Replay, db: Option<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let rules = diff::rules(&arguments.comparing)?;
    // Runs that are not saved have temporary databases too.
    stop::before_cleaning()?;
    let opened = target::open(Some(&arguments.target), arguments.session, &arguments.decoding, db.clone())?;
    let session = opened.one_session()?;
    let wanted = wanted(&opened.reader, &session, arguments.only.as_deref())?;
    let masked = masked_headers(&opened.reader, &session)?;
    let recording = AnalyzedRecording::read(&opened.reader, session)?;
    if recording.plan.steps.is_empty() {
        bail!("nothing to replay: the client sent no message in {}", arguments.target);
    }
    let only = match wanted {
        Some(wanted) => {
            let is_wanted = |number: Option<MessageNumber>| number.is_some_and(|number| wanted.contains(&number));
            recording
                .plan
                .steps
                .iter()
                .map(|step| is_wanted(Some(step.number)) || is_wanted(step.answer.map(|answer| answer.number)))
                .collect()
        }
        None => Vec::new(),
    };
    let mut settings = settings(&arguments, only)?;
    settings.edits = edits::read(&opened.reader, &recording, &arguments.set)?;
    if arguments.dry_run {
        return dry_run(&recording, &settings);
    }
    let (server, supplied) = match arguments.to.is_none() && arguments.command.is_empty() {
        true => (offered(&opened.reader, &recording.session, &arguments)?, Vec::new()),
        false => server(&arguments)?,
    };
    name_masked(&masked, &supplied, matches!(server, Target::Command(_)));
    let place = if arguments.no_save { target::temporary()? } else { DatabaseFile::file(target::database(db)?) };
    let mut job = Job::new(recording, server, place);
    (job.settings, job.rules) = (settings, rules);
    ask(&job.recording, &mut job.settings)?;
    if arguments.calibrate {
        job.calibrate(&mut Follower::nobody())?;
    }
    let load = Load { repeat: arguments.repeat.max(1), parallel: arguments.parallel.max(1) };
    let mut outcomes = load::run(&job, load)?;
    let unsendable = job.recording.plan.unsendable.iter();
    outcomes.report.notes.extend(unsendable.map(|number| format!("#{} is not a message: not sent", number.0)));
    outcomes.report.old = arguments.target.clone();
    let many = load.repeat.saturating_mul(load.parallel) > 1;
    if let [session] = outcomes.saved.as_slice()
        && !many
    {
        note!("saved as session {}", session.0);
    }
    match arguments.comparing.format {
        ReportFormat::Text if many => {
            let code = diff::print(&outcomes.report, &arguments.comparing, colour)?;
            table(&outcomes)?;
            Ok(code)
        }
        ReportFormat::Json if many => {
            let mut out = output::stdout();
            json::write(&outcomes.report, Some(latencies(&outcomes)), &mut out)?;
            writeln!(out)?;
            out.flush()?;
            Ok(if outcomes.differs() { ExitCode::from(1) } else { ExitCode::SUCCESS })
        }
        _ => diff::print(&outcomes.report, &arguments.comparing, colour),
    }
}

/// The messages that `--only` selects; `None` without that option.
fn wanted(reader: &StoreReader, session: &Session, only: Option<&str>) -> Result<Option<HashSet<MessageNumber>>> {
    let Some(filter) = filter::parse(only)? else { return Ok(None) };
    let rows = reader.all_matching(&filter, Scope::Session(session.number));
    rows.map(|row| Ok(row?.number)).collect::<Result<_>>().map(Some)
}

fn settings(arguments: &Replay, only: Vec<bool>) -> Result<Settings> {
    let pace: Pace = arguments.pace.parse().map_err(anyhow::Error::msg)?;
    let policy = Policy {
        safe: arguments.safe,
        allow_destructive: arguments.allow_destructive,
        allowed: arguments.allow.clone(),
    };
    let timeout = timeout(arguments);
    Ok(Settings { revision: arguments.revision.clone(), pace, timeout, policy, only, ..Settings::default() })
}

/// The recorded server, if the user agrees. Without a terminal, or if the recording does not name
/// it completely, the error has the command that names it.
fn offered(reader: &StoreReader, session: &Session, arguments: &Replay) -> Result<Target> {
    let (timeout, target) = (timeout(arguments), safe::visible(&arguments.target).into_owned());
    let how = |server: &str| match server.starts_with("http://") || server.starts_with("https://") {
        true => format!("mcptap replay {target} --to {server}"),
        false => format!("mcptap replay {target} -- {server}"),
    };
    match Target::recorded(reader, session)? {
        RecordedServer::Known(server) if output::can_ask() => {
            match output::ask(&format!("send it to the recorded server, {server} ?"))? {
                true => Target::read(&server, timeout),
                false => bail!("no server: name one with --to URL or -- CMD ARG..."),
            }
        }
        RecordedServer::Known(server) => bail!("name the server to send to. The recorded one: {}", how(&server)),
        RecordedServer::Masked { command, words } => {
            bail!("the recording does not have {}, which was masked. Give it: {}", words.join(" or "), how(&command))
        }
        RecordedServer::Unknown => bail!("the recording does not name its server: give --to URL or -- CMD ARG..."),
    }
}

fn timeout(arguments: &Replay) -> Duration {
    Duration::from_secs_f64(arguments.timeout.clamp(0.001, 86_400.0))
}

/// The server, and the names of the header fields that the options supply for it.
fn server(arguments: &Replay) -> Result<(Target, Vec<String>)> {
    let Some(url) = &arguments.to else {
        return Ok((Target::command(arguments.command.clone()), Vec::new()));
    };
    #[cfg(feature = "http")]
    {
        use crate::http::connect::{ConnectOptions, certificates};
        use crate::replay::transport::http::Mode;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!("--to {url}: a URL begins with http:// or https://");
        }
        let fields = header_fields(&arguments.header, arguments.bearer_env.as_deref())?;
        let certificates = certificates(arguments.cacert.as_deref())?;
        if arguments.insecure {
            note!(
                "--insecure: the certificate of {url} is not checked, so others on the network may read what is sent"
            );
        }
        let supplied = fields.iter().map(|(name, _)| name.clone()).collect();
        let timeout = timeout(arguments);
        let options =
            ConnectOptions { fields, certificates, insecure: arguments.insecure, timeout, ..ConnectOptions::default() };
        let mode = match arguments.transport {
            super::args::TransportChoice::Auto => None,
            super::args::TransportChoice::Streamable => Some(Mode::Streamable),
            super::args::TransportChoice::Sse => Some(Mode::Sse),
        };
        Ok((Target::Url { url: url.clone(), mode, options }, supplied))
    }
    #[cfg(not(feature = "http"))]
    bail!("--to {url}: this mcptap was built without HTTP; name a command instead: -- CMD ARG...")
}

/// Prints the names of secrets that the recording had and the replay does not send.
fn name_masked(masked: &[String], supplied: &[String], is_command: bool) {
    if is_command {
        return;
    }
    for name in masked.iter().filter(|name| !supplied.iter().any(|given| given.eq_ignore_ascii_case(name))) {
        let option = if name.eq_ignore_ascii_case("authorization") {
            "--bearer-env VAR".to_owned()
        } else {
            format!("--header \"{name}: ...\"")
        };
        note!("the recorded client sent {name}, whose value was not stored and is not sent: {option} supplies it");
    }
}

/// Asks about each tool that would be skipped, if there is a terminal.
fn ask(recording: &AnalyzedRecording, settings: &mut Settings) -> Result<()> {
    if !output::can_ask() {
        return Ok(());
    }
    let mut asked = HashSet::new();
    for step in &recording.plan.steps {
        let Some(tool) = step.label.subject.clone() else { continue };
        let Some(why) = recording.effects.reason_to_refuse(&step.label, &settings.policy) else { continue };
        if asked.insert(tool.clone()) && output::ask(&format!("{why}. Send its calls?"))? {
            settings.policy.allowed.push(tool);
        }
    }
    Ok(())
}

/// Prints the plan without sending anything.
fn dry_run(recording: &AnalyzedRecording, settings: &Settings) -> Result<ExitCode> {
    let mut out = output::stdout();
    planned(recording, settings, &mut |row| {
        let mut line = format!("{:>6}  {}", format!("#{}", row.number.0), safe::visible(&row.label.to_string()));
        if !row.after.is_empty() {
            let after: Vec<String> = row.after.iter().map(|number| format!("#{}", number.0)).collect();
            line += &format!("  after {}", after.join(" "));
        }
        for (path, given) in &row.takes {
            line += &format!("  {} from {given}", safe::visible(path));
        }
        if let Some(why) = &row.refused {
            line += &format!("  NOT SENT: {}", safe::visible(why));
        }
        Ok(writeln!(out, "{line}")?)
    })?;
    for request in &recording.plan.server_requests {
        let (answer, method) = (request.answer.0, safe::visible(&request.method));
        writeln!(out, "        {method} of the server is answered with #{answer}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the latencies, compared with those of the recording.
fn table(outcomes: &Outcomes) -> Result<()> {
    let mut out = output::stdout();
    writeln!(out, "\n{} replays", outcomes.replays)?;
    writeln!(out, "{:<40} {:>9} {:>9} {:>9} {:>9} {:>9}", "", "calls", "recorded", "p50", "p95", "p99")?;
    for (label, latencies) in &outcomes.latencies {
        let cell = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), duration);
        let replayed = |percent| cell(percentile(&latencies.replayed, percent));
        let label = safe::pad(label, 40, safe::Align::Left);
        let (calls, recorded) = (latencies.replayed.len(), cell(percentile(&latencies.recorded, 50)));
        writeln!(out, "{label} {calls:>9} {recorded:>9} {:>9} {:>9} {:>9}", replayed(50), replayed(95), replayed(99))?;
    }
    Ok(out.flush()?)
}

fn latencies(outcomes: &Outcomes) -> serde_json::Value {
    let row = |latencies: &load::Latencies| {
        let of = |values: &[i64], percent| percentile(values, percent);
        serde_json::json!({
            "calls": latencies.replayed.len(),
            "recorded_p50_ns": of(&latencies.recorded, 50),
            "p50_ns": of(&latencies.replayed, 50),
            "p95_ns": of(&latencies.replayed, 95),
            "p99_ns": of(&latencies.replayed, 99),
        })
    };
    outcomes.latencies.iter().map(|(label, latencies)| (label.clone(), row(latencies))).collect()
}

/// The header fields of `--header` and `--bearer-env`.
#[cfg(feature = "http")]
pub fn header_fields(headers: &[String], bearer_env: Option<&str>) -> Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    for header in headers {
        let Some((name, value)) = header.split_once(':') else { bail!("--header {header}: write \"Name: value\"") };
        fields.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    if let Some(variable) = bearer_env {
        let token = std::env::var(variable).with_context(|| format!("--bearer-env: cannot read ${variable}"))?;
        fields.push(("Authorization".to_owned(), format!("Bearer {token}")));
    }
    Ok(fields)
}
