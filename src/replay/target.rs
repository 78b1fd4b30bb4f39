//! The server that a recording is replayed against, and one replay against it from start to end.

use anyhow::{Result, bail};

use super::capture::{Capture, Recorded};
use super::run::{self, Settings, Taken};
use super::script::Script;
#[cfg(feature = "http")]
use super::transport::Transport;
#[cfg(feature = "http")]
use super::transport::http::{self, Http, Mode};
use super::transport::stdio::Stdio;
use crate::source::stdio::Server;
#[cfg(feature = "http")]
use crate::source::tape;
use crate::store::{CaptureKind, Place};

/// A server.
#[derive(Clone, Debug)]
pub enum Target {
    /// To be run.
    Command(Server),
    /// At a URL.
    #[cfg(feature = "http")]
    Url {
        /// The URL.
        url: String,
        /// Which way messages go; `None`: found out.
        mode: Option<Mode>,
        /// How it is reached.
        options: http::Options,
    },
}

impl Target {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Target::Command(server) => server.recorded.join(" "),
            #[cfg(feature = "http")]
            Target::Url { url, .. } => url.clone(),
        }
    }

    /// Replays a script once, recorded in `place`. What fails once the conversation is open is no error here: the replay says what came of it.
    ///
    /// # Errors
    /// The server cannot be started or reached, the conversation not be opened, or what was said not be recorded.
    pub fn replay(&self, script: &Script, settings: &Settings, place: &Place) -> Result<(Taken, Recorded)> {
        match self {
            Target::Command(server) => {
                let (transport, observations) = Stdio::start(server)?;
                let capture = Capture::start(observations, place, CaptureKind::Replay, &self.name())?;
                finish(run::run(script, settings, Box::new(transport)), capture)
            }
            #[cfg(feature = "http")]
            Target::Url { url, mode, options } => {
                // Servers of 2024-11-05 have their stream at /sse, by the custom of the SDKs.
                let sse_first = url.split(['?', '#']).next().is_some_and(|path| path.ends_with("/sse"));
                let first = mode.unwrap_or(if sse_first { Mode::Sse } else { Mode::Streamable });
                let (taken, recorded) = self.over(first, url, options, (script, settings), place)?;
                // "If it fails with an HTTP 4xx status code …: Issue a GET request to the server URL, expecting that this will open an SSE stream
                // and return an endpoint event as the first event" (2025-03-26 basic/transports, "Backwards Compatibility")
                match &taken.wrong_transport {
                    Some(_) if mode.is_none() && first == Mode::Streamable => {
                        self.over(Mode::Sse, url, options, (script, settings), place)
                    }
                    Some(failure) => bail!("cannot replay: {url} speaks another transport: {failure}"),
                    None => Ok((taken, recorded)),
                }
            }
        }
    }

    #[cfg(feature = "http")]
    fn over(
        &self,
        mode: Mode,
        url: &str,
        options: &http::Options,
        (script, settings): (&Script, &Settings),
        place: &Place,
    ) -> Result<(Taken, Recorded)> {
        let (tape, spool) = tape::tape();
        let transport = Http::open(url, mode, options, tape)?;
        let capture = Capture::start(spool, place, CaptureKind::Replay, &self.name())?;
        finish(run::run(script, settings, Box::new(transport) as Box<dyn Transport>), capture)
    }
}

fn finish(taken: Taken, capture: Capture) -> Result<(Taken, Recorded)> {
    let recorded = capture.finish()?;
    match &taken.unopened {
        Some(why) => bail!("cannot replay: {why}"),
        None => Ok((taken, recorded)),
    }
}
