//! `mcptap mock`: plays the recorded server to a live client.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};

use super::args::{Fit, Mock, MockPace};
use super::{output, stop, target};
use crate::cli::output::note;
use crate::filter::{Fault, FilterError};
use crate::mock::session::{Pace, RecordedServer};
use crate::mock::{Match, Script, http, stdio};
use crate::replay::Recording;

pub fn run(arguments: Mock, db: Option<PathBuf>) -> Result<ExitCode> {
    let faults = arguments.fault.iter().map(|text| {
        let wrong = |error: FilterError| anyhow!("cannot read the fault\n{}", error.render(output::width()));
        Fault::parse(text).map_err(wrong)
    });
    let faults = faults.collect::<Result<Vec<_>>>()?;
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
    let stage = RecordedServer::new(script, fit, pace).with_faults(faults);
    let stop = stop::channel()?;
    let ledger = match &arguments.listen {
        None => stdio::serve(&stage, &stop)?,
        Some(address) => http::serve(&stage, address, &arguments.allow_host, &stop)?,
    };
    note!("{}", ledger.text(stage.script()));
    Ok(if ledger.unknown_requests == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
