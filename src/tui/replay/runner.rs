//! The replay thread: it reads the recording, waits for the server, and reports what happens.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use crossbeam_channel::{Receiver, TryRecvError};

use super::options::ReplayOptions;
use super::run::{Finished, ReplayUpdate, RequestRow, RequestState};
use super::{Consent, Submission};
use crate::mcp::Session;
use crate::replay::job::{Job, Planned};
use crate::replay::outcome::StepOutcome;
use crate::replay::recording::masked_headers;
use crate::replay::target::Target;
use crate::replay::{AnalyzedRecording, Follower, Progress};
use crate::store::{DatabaseFile, StoreReader};

/// Limit for an answer. It is long because the user can stop the replay.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a submission and sends updates until it ends. Dropping the sender of `stop`
/// ends the replay.
pub fn run(submission: &Submission, place: &DatabaseFile, send: &mut dyn FnMut(ReplayUpdate), stop: Receiver<()>) {
    if let Err(error) = replay(submission, place, send, stop) {
        send(ReplayUpdate::Failed(format!("{error:#}")));
    }
}

fn replay(
    submission: &Submission,
    place: &DatabaseFile,
    send: &mut dyn FnMut(ReplayUpdate),
    stop: Receiver<()>,
) -> Result<()> {
    let reader = StoreReader::open(place.clone())?;
    let session = reader.session(submission.session)?.context("the session is no longer in the store")?;
    let (target, missing) = target(submission, &reader, &session)?;
    let recording = AnalyzedRecording::read(&reader, session)?;
    let mut job = Job::new(recording, target, place.clone());
    job.settings.timeout = PATIENCE;
    let options = ReplayOptions::read(&submission.options)?;
    options.reach(&mut job.target)?;
    options.apply(&mut job);
    if let Some(call) = &submission.call {
        let steps = &job.recording.plan.steps;
        let step = steps.iter().position(|step| step.number == call.message).context("no such request to send")?;
        job.choose(&[step]);
        if let Some(params) = &call.params {
            job.edit(step, params)?;
        }
    }
    let questions = questions(&mut job, submission.consent, &missing)?;
    if !questions.is_empty() {
        send(ReplayUpdate::NeedsConsent(questions));
        return Ok(());
    }
    let rows = rows(&job)?;
    if rows.is_empty() {
        bail!("the client sent no request in this session: there is nothing to replay");
    }
    send(ReplayUpdate::Planned(rows.clone()));
    let watch = stop.clone();
    if options.calibrate {
        job.calibrate(&mut Follower::new(|progress| send(replay_update(progress)), stop.clone()))?;
        // All requests begin again.
        send(ReplayUpdate::Planned(rows));
    }
    let mut follower = Follower::new(|progress| send(replay_update(progress)), stop);
    let replayed = job.run(&mut follower)?;
    drop(follower);
    let stopped = watch.try_recv() != Err(TryRecvError::Empty);
    send(ReplayUpdate::Finished(Box::new(Finished { job, replayed, stopped })));
    Ok(())
}

/// The server, and the header fields that were masked in the recording and not given in the form.
fn target(submission: &Submission, reader: &StoreReader, session: &Session) -> Result<(Target, Vec<String>)> {
    let mut target = Target::read(&submission.target, PATIENCE)?;
    let given = fields(&submission.headers)?;
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

/// Parses header fields, one per line. A word that begins with `$` is an environment variable, so
/// that no secret need be on the screen.
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

/// The questions before anything is sent. A decision that was made already is applied.
fn questions(job: &mut Job, consent: Consent, missing: &[String]) -> Result<Vec<String>> {
    match consent {
        Consent::SendAll => job.settings.policy.allow_destructive = true,
        Consent::SkipDestructive => {}
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
            let tool = |tool: String| format!("{tool} is declared destructive (destructiveHint)");
            let field = |name: &String| format!("{name} was masked in the recording, and no value is given for it");
            return Ok(tools.into_iter().map(tool).chain(missing.iter().map(field)).collect());
        }
    }
    Ok(Vec::new())
}

/// The rows of a job: its requests, without those that were not selected.
fn rows(job: &Job) -> Result<Vec<RequestRow>> {
    let wanted = |row: &Planned| {
        let is_chosen = job.settings.only.get(row.step).copied().unwrap_or(true);
        let is_handshake = matches!(&*row.label.method, "initialize" | "server/discover");
        job.recording.plan.steps[row.step].is_request && (is_chosen || is_handshake)
    };
    let row = |row: Planned| RequestRow {
        step: row.step,
        number: row.number,
        label: row.label.to_string(),
        recorded: job.recording.latency(row.step),
        state: row.refused.map_or(RequestState::Waiting, |why| RequestState::Skipped(plainly(&why))),
    };
    Ok(job.planned()?.into_iter().filter(wanted).map(row).collect())
}

/// A reason without the command-line option at its end, because the form asks instead.
fn plainly(why: &str) -> String {
    why.split(": --").next().unwrap_or(why).to_owned()
}

fn replay_update(progress: Progress<'_>) -> ReplayUpdate {
    match progress {
        Progress::Opened(revision) => ReplayUpdate::Opened(revision.to_owned()),
        Progress::Sent(step) => ReplayUpdate::Sent(step),
        Progress::Done(step, done) => ReplayUpdate::Done(
            step,
            match &done.outcome {
                StepOutcome::Sent(_) => RequestState::Answered(done.latency),
                StepOutcome::Skipped(why) => RequestState::Skipped(plainly(why)),
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
