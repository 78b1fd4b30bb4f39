//! Starts and stops replay threads, one at a time.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use crossbeam_channel::{Sender, bounded};

use super::app::Input;
use super::replay::run::{Finished, ReplayUpdate};
use super::replay::{Submission, runner};
use crate::replay::plan::StepIndex;
use crate::store::DatabaseFile;

/// Starts replay threads, which read and record in one store and report to the event loop.
#[derive(Debug)]
pub struct Replayer {
    place: DatabaseFile,
    inputs: Sender<Input>,
    /// Dropping this sender ends the running replay.
    going: Option<Sender<()>>,
}

impl Replayer {
    /// Replays of recordings in this store. The new sessions are recorded in it too.
    pub fn new(place: DatabaseFile, inputs: Sender<Input>) -> Replayer {
        Replayer { place, inputs, going: None }
    }

    /// Starts a replay. A running one is stopped.
    pub fn start(&mut self, submission: Submission) -> Result<()> {
        let (go, stop) = bounded(0);
        let (place, inputs) = (self.place.clone(), self.inputs.clone());
        let run = move || {
            let number = submission.number;
            // The screen may be gone before the replay ends.
            runner::run(&submission, &place, &mut |update| drop(inputs.send(Input::Replay(number, update))), stop);
        };
        thread::Builder::new().name("replay".to_owned()).spawn(run).context("cannot start a replay")?;
        self.going = Some(go);
        Ok(())
    }

    /// Reads the two answers to a request of a finished replay.
    pub fn read(&self, number: u64, finished: Arc<Finished>, step: StepIndex) -> Result<()> {
        let inputs = self.inputs.clone();
        let read =
            move || drop(inputs.send(Input::Replay(number, ReplayUpdate::Answers(step, finished.answers(step)))));
        thread::Builder::new().name("answers".to_owned()).spawn(read).context("cannot read the answers")?;
        Ok(())
    }

    /// Stops the running replay.
    pub fn stop(&mut self) {
        self.going = None;
    }
}
