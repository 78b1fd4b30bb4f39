//! The server that a recording is replayed against, and one replay against it from start to end.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::capture::Capture;
use super::follow::Follower;
use super::run::{self, Settings, Taken};
use super::script::Script;
#[cfg(feature = "http")]
use super::transport::http::{Http, Mode};
use super::transport::stdio::Stdio;
#[cfg(feature = "http")]
use crate::http::connect;
use crate::mcp::{Peers, Session};
use crate::source::stdio::Server;
#[cfg(feature = "http")]
use crate::source::tape;
use crate::store::{CaptureKind, DatabaseFile, Page, StoreReader};
use crate::view::command_line;

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
        options: connect::Options,
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

    /// Reads what a person writes: a URL, or a command line of words as a shell separates them.
    ///
    /// # Errors
    /// A quote is not closed, there is no word, or this program was built without HTTP.
    pub fn read(text: &str, timeout: Duration) -> Result<Target> {
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            #[cfg(feature = "http")]
            return Ok(Target::Url {
                url: text.to_owned(),
                mode: None,
                options: connect::Options { timeout, ..connect::Options::default() },
            });
            #[cfg(not(feature = "http"))]
            bail!("cannot reach {text}: this mcptap was built without HTTP");
        }
        let _ = timeout;
        let words = command_line::words(text).context("a quote is not closed")?;
        if words.is_empty() {
            bail!("a server is a URL, or a command line that starts it");
        }
        Ok(Target::command(words.into_iter().map(OsString::from).collect()))
    }

    /// A server that this command line starts; secrets in it are not recorded.
    pub fn command(words: Vec<OsString>) -> Target {
        let recorded = command_line::masked(&words);
        Target::Command(Server { command: words, recorded, name: None })
    }

    /// The server of a recording, as [`Target::read`] reads it; `None` where the recording does not say it, or secrets in it were masked.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn recorded(reader: &StoreReader, session: &Session) -> Result<Option<String>> {
        match &session.peers {
            Peers::Process { command, .. } => {
                let is_known = !command.is_empty() && !command.iter().any(|word| word.contains('*'));
                Ok(is_known.then(|| command_line::quoted(command)))
            }
            Peers::Network { server, .. } => {
                let exchange = reader.exchanges(session.number, Page::first(1))?.into_iter().next();
                let Some((exchange, path)) = exchange.and_then(|exchange| Some((exchange.clone(), exchange.target?)))
                else {
                    return Ok(None);
                };
                let fields = &exchange.request.fields;
                let host = fields.get("host").or_else(|| fields.get(":authority"));
                let host = host.map_or_else(|| server.to_string(), str::to_owned);
                // What was seen in the clear was HTTP; over TLS the port nearly always says so.
                let scheme =
                    if server.port() == 443 || fields.get(":scheme") == Some("https") { "https" } else { "http" };
                Ok(Some(if path.contains("://") { path } else { format!("{scheme}://{host}{path}") }))
            }
        }
    }

    /// Replays a script once. What is said is recorded in `place`, by a recorder that may still be at it. What fails once the conversation is open is no error here: the replay says what came of it.
    ///
    /// # Errors
    /// The server cannot be started or reached, the conversation not be opened, or what was said not be recorded.
    pub fn replay(
        &self,
        script: &Script,
        settings: &Settings,
        place: &DatabaseFile,
        follower: &mut Follower<'_>,
    ) -> Result<(Taken, Capture)> {
        let texts = &mut script.texts()?;
        match self {
            Target::Command(server) => {
                let (transport, observations) = Stdio::start(server)?;
                let capture = Capture::start(observations, place, CaptureKind::Replay, &self.name())?;
                opened(run::run(script, texts, settings, Box::new(transport), follower), capture)
            }
            #[cfg(feature = "http")]
            Target::Url { url, mode, options } => {
                // Servers of 2024-11-05 have their stream at /sse, by the custom of the SDKs.
                let sse_first = url.split(['?', '#']).next().is_some_and(|path| path.ends_with("/sse"));
                let first = mode.unwrap_or(if sse_first { Mode::Sse } else { Mode::Streamable });
                let (tape, tape_source) = tape::tape();
                // What comes to nothing because the server speaks the other transport is not recorded.
                let is_attempt = mode.is_none() && first == Mode::Streamable;
                let attempt = if is_attempt { tape.attempt() } else { tape.clone() };
                let transport = Http::open(url, first, options, attempt.clone())?;
                let capture = Capture::start(tape_source, place, CaptureKind::Replay, &self.name())?;
                let mut taken = run::run(script, texts, settings, Box::new(transport), follower);
                // "If it fails with an HTTP 4xx status code …: Issue a GET request to the server URL, expecting that this will open an SSE stream
                // and return an endpoint event as the first event" (2025-03-26 basic/transports, "Backwards Compatibility")
                let mut other = Ok(());
                match &taken.wrong_transport {
                    Some(failure) if is_attempt => match Http::open(url, Mode::Sse, options, tape.clone()) {
                        Ok(transport) => taken = run::run(script, texts, settings, Box::new(transport), follower),
                        Err(error) => {
                            let both = format!("{url} answered a POST with {failure}, and is no HTTP+SSE either");
                            other = Err(error.context(both));
                        }
                    },
                    _ => attempt.keep(),
                }
                drop((tape, attempt));
                let why = match (other, &taken.wrong_transport) {
                    (Err(error), _) => Some(format!("{error:#}")),
                    (Ok(()), Some(failure)) => Some(format!("{url} speaks another transport: {failure}")),
                    (Ok(()), None) => None,
                };
                opened(Taken { unopened: why.or(taken.unopened), ..taken }, capture)
            }
        }
    }
}

/// What was said in a conversation that could be opened.
fn opened(taken: Taken, capture: Capture) -> Result<(Taken, Capture)> {
    match &taken.unopened {
        Some(why) => {
            capture.finish()?;
            bail!("cannot replay: {why}")
        }
        None => Ok((taken, capture)),
    }
}
