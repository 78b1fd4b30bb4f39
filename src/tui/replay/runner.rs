//! The thread that replays: it reads the recording, waits for the server, and tells what happens.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use crossbeam_channel::{Receiver, TryRecvError};

use super::options::Options;
use super::run::{Finished, Row, State, Told};
use super::{Consent, Order};
use crate::mcp::Session;
use crate::replay::job::{Job, Planned};
use crate::replay::recording::masked_headers;
use crate::replay::run::Fate;
use crate::replay::target::Target;
use crate::replay::{Follower, Progress, Script};
use crate::store::{DatabaseFile, StoreReader};

/// How long an answer may take: whoever looks on ends it sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does what was ordered, and tells of it up to its end. The end of `stop` ends the replay.
pub fn run(order: &Order, place: &DatabaseFile, told: &mut dyn FnMut(Told), stop: Receiver<()>) {
    if let Err(error) = replay(order, place, told, stop) {
        told(Told::Failed(format!("{error:#}")));
    }
}

fn replay(order: &Order, place: &DatabaseFile, told: &mut dyn FnMut(Told), stop: Receiver<()>) -> Result<()> {
    let reader = StoreReader::open(place.clone())?;
    let session = reader.session(order.session)?.context("the session is not there any more")?;
    let (target, missing) = target(order, &reader, &session)?;
    let script = Script::read(&reader, session)?;
    let mut job = Job::new(script, target, place.clone());
    job.settings.timeout = PATIENCE;
    let options = Options::read(&order.options)?;
    options.reach(&mut job.target)?;
    options.apply(&mut job);
    if let Some(call) = &order.call {
        let steps = &job.script.plan.steps;
        let step = steps.iter().position(|step| step.number == call.message).context("no such request to send")?;
        job.choose(&[step]);
        if let Some(params) = &call.params {
            job.edit(step, params)?;
        }
    }
    let asks = ask(&mut job, order.consent, &missing)?;
    if !asks.is_empty() {
        told(Told::Asks(asks));
        return Ok(());
    }
    let rows = rows(&job)?;
    if rows.is_empty() {
        bail!("the client asked for nothing in this session: there is nothing to replay");
    }
    told(Told::Planned(rows.clone()));
    let watch = stop.clone();
    if options.calibrate {
        job.calibrate(&mut Follower::new(|progress| told(self::told(progress)), stop.clone()))?;
        // All of it begins anew.
        told(Told::Planned(rows));
    }
    let mut follower = Follower::new(|progress| told(self::told(progress)), stop);
    let replayed = job.run(&mut follower)?;
    drop(follower);
    let stopped = watch.try_recv() != Err(TryRecvError::Empty);
    told(Told::Finished(Box::new(Finished { job, replayed, stopped })));
    Ok(())
}

/// The server, and the header fields that the recording masked and nobody gave.
fn target(order: &Order, reader: &StoreReader, session: &Session) -> Result<(Target, Vec<String>)> {
    let mut target = Target::read(&order.target, PATIENCE)?;
    let given = fields(&order.fields)?;
    let mut missing = Vec::new();
    match &mut target {
        Target::Command(_) => {}
        #[cfg(feature = "http")]
        Target::Url { options, .. } => {
            missing = masked_headers(reader, session)?;
            missing.retain(|name| !given.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
            options.fields = given;
        }
    }
    #[cfg(not(feature = "http"))]
    let _ = (given, masked_headers, reader, session, &mut missing);
    Ok((target, missing))
}

/// Header fields as they were written, one a line; a word that begins with `$` is a variable of the environment, so that no secret need be on
/// the screen.
fn fields(text: &str) -> Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { bail!("headers: \"{line}\" is not \"Name: value\"") };
        let mut words = Vec::new();
        for word in value.split_whitespace() {
            words.push(match word.strip_prefix('$') {
                Some(name) => std::env::var(name).with_context(|| format!("headers: cannot read ${name}"))?,
                None => word.to_owned(),
            });
        }
        fields.push((name.trim().to_owned(), words.join(" ")));
    }
    Ok(fields)
}

/// What has to be asked before anything is sent; what was said already is obeyed.
fn ask(job: &mut Job, consent: Consent, missing: &[String]) -> Result<Vec<String>> {
    match consent {
        Consent::All => job.settings.policy.allow_destructive = true,
        Consent::Harmless => {}
        Consent::Ask => {
            let refused = |job: &Job| {
                let rows = job.planned()?.into_iter().filter(|row| row.refused.is_some());
                anyhow::Ok(rows.collect::<Vec<_>>())
            };
            let before = refused(job)?;
            job.settings.policy.allow_destructive = true;
            let after = refused(job)?;
            job.settings.policy.allow_destructive = false;
            let destroys = before.into_iter().filter(|row| !after.iter().any(|other| other.step == row.step));
            let mut tools: Vec<String> = destroys.filter_map(|row: Planned| row.label.subject.clone()).collect();
            tools.sort();
            tools.dedup();
            let tool = |tool: String| format!("{tool} says of itself that it destroys (destructiveHint)");
            let field = |name: &String| format!("{name} was masked when it was recorded, and nothing is given for it");
            return Ok(tools.into_iter().map(tool).chain(missing.iter().map(field)).collect());
        }
    }
    Ok(Vec::new())
}

/// The requests of a job, without those that were not asked for.
fn rows(job: &Job) -> Result<Vec<Row>> {
    let wanted = |row: &Planned| {
        let is_chosen = job.settings.only.get(row.step).copied().unwrap_or(true);
        let is_handshake = matches!(&*row.label.method, "initialize" | "server/discover");
        job.script.plan.steps[row.step].is_request && (is_chosen || is_handshake)
    };
    let row = |row: Planned| Row {
        step: row.step,
        number: row.number,
        label: row.label.to_string(),
        recorded: job.script.latency(row.step),
        state: row.refused.map_or(State::Waiting, |why| State::Skipped(plainly(&why))),
    };
    Ok(job.planned()?.into_iter().filter(wanted).map(row).collect())
}

/// A reason without the option of the command line that it ends with: here the form asks.
fn plainly(why: &str) -> String {
    why.split(": --").next().unwrap_or(why).to_owned()
}

fn told(progress: Progress<'_>) -> Told {
    match progress {
        Progress::Opened(revision) => Told::Opened(revision.to_owned()),
        Progress::Sent(step) => Told::Sent(step),
        Progress::Done(step, done) => Told::Over(
            step,
            match &done.fate {
                Fate::Sent(_) => State::Answered(done.latency),
                Fate::Skipped(why) => State::Skipped(plainly(why)),
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_take_variables_of_the_environment() {
        let home = std::env::var("HOME").unwrap_or_default();
        let read = fields("Authorization: Bearer $HOME\n\n X-Name:  a: b ").unwrap();
        assert_eq!(read[0], ("Authorization".into(), format!("Bearer {home}")));
        assert_eq!(read[1], ("X-Name".into(), "a: b".into()));
        assert!(fields("nothing").is_err());
        let missing = fields("A: $MCPTAP_NO_SUCH_VARIABLE").unwrap_err();
        assert_eq!(
            format!("{missing:#}"),
            "headers: cannot read $MCPTAP_NO_SUCH_VARIABLE: environment variable not found"
        );
    }
}
