//! Starts and ends the threads that replay: one at a time.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use crossbeam_channel::{Sender, bounded};

use super::app::Input;
use super::replay::run::{Finished, Told};
use super::replay::{Order, runner};
use crate::replay::plan::StepIndex;
use crate::store::DatabaseFile;

/// What a replay needs from the program: where recordings are, and who is told.
#[derive(Debug)]
pub struct Replayer {
    place: DatabaseFile,
    inputs: Sender<Input>,
    /// Held while a replay runs: its end ends the replay.
    going: Option<Sender<()>>,
}

impl Replayer {
    /// Over a store, into which what is replayed is recorded too.
    pub fn new(place: DatabaseFile, inputs: Sender<Input>) -> Replayer {
        Replayer { place, inputs, going: None }
    }

    /// Starts a replay; one that still runs is ended.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn start(&mut self, order: Order) -> Result<()> {
        let (go, stop) = bounded(0);
        let (place, inputs) = (self.place.clone(), self.inputs.clone());
        let run = move || {
            let number = order.number;
            // The screen may be gone before the replay is over.
            runner::run(&order, &place, &mut |told| drop(inputs.send(Input::Replay(number, told))), stop);
        };
        thread::Builder::new().name("replay".to_owned()).spawn(run).context("cannot start a replay")?;
        self.going = Some(go);
        Ok(())
    }

    /// Reads the two answers to a request of a replay that is over.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn read(&self, number: u64, finished: Arc<Finished>, step: StepIndex) -> Result<()> {
        let inputs = self.inputs.clone();
        let read = move || drop(inputs.send(Input::Replay(number, Told::Answers(step, finished.answers(step)))));
        thread::Builder::new().name("answers".to_owned()).spawn(read).context("cannot read the answers")?;
        Ok(())
    }

    /// Ends the replay that is under way.
    pub fn stop(&mut self) {
        self.going = None;
    }
}
