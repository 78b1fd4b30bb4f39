//! `mcptap mock`: plays the recorded server to a live client.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::{Fit, Mock, MockPace};
use super::{stop, target};
use crate::cli::output::note;
use crate::mock::session::{Pace, RecordedServer};
use crate::mock::{Match, Script, http, stdio};
use crate::replay::Recording;

pub fn run(arguments: Mock, db: Option<PathBuf>) -> Result<ExitCode> {
    let opened = target::open(Some(&arguments.target), arguments.session, &arguments.decoding, db)?;
    let script = Script::new(Recording::load(&opened.reader, opened.one_session()?)?);
    drop(opened);
    if !script.turns.iter().any(|turn| turn.is_request) {
        bail!("nothing to play: the client sent no request in {}", arguments.target);
    }
    let fit = match arguments.fit {
        Fit::Exact => Match::Exact,
        Fit::Loose => Match::Loose,
        Fit::Order => Match::Order,
    };
    let pace = match arguments.pace {
        MockPace::Fast => Pace::Fast,
        MockPace::Recorded => Pace::Recorded,
    };
    let stage = RecordedServer::new(script, fit, pace);
    let stop = stop::channel()?;
    let ledger = match &arguments.listen {
        None => stdio::serve(&stage, &stop)?,
        Some(address) => http::serve(&stage, address, &arguments.allow_host, &stop)?,
    };
    note!("{}", ledger.text(stage.script()));
    Ok(if ledger.unknown_requests() == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
