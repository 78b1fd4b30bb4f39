//! The server that a recording is replayed against, and one replay from start to end.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::analyzed_recording::AnalyzedRecording;
use super::capture::Capture;
use super::follow::Follower;
use super::outcome::ReplayResult;
use super::run;
use super::settings::Settings;
#[cfg(feature = "http")]
use super::transport::http::{Http, Mode};
use super::transport::stdio::Stdio;
use crate::decode::exchange::Exchange;
#[cfg(feature = "http")]
use crate::http::connect;
use crate::mcp::{Peers, Session, Transport};
use crate::source::stdio::Server;
#[cfg(feature = "http")]
use crate::source::tape;
use crate::store::{DatabaseFile, Page, StoreReader};
use crate::view::command_line;

/// A server to replay against.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command that starts the server.
    Command(Server),
    /// A server at a URL.
    #[cfg(feature = "http")]
    Url {
        /// The URL of the server.
        url: String,
        /// The transport to use. `None` to detect it.
        mode: Option<Mode>,
        /// Options for connecting.
        options: connect::ConnectOptions,
    },
}

/// The server of a recording, as far as the recording names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedServer {
    /// The URL or the command line, in the form that [`Target::read`] parses.
    Known(String),
    /// A command line in which secrets were masked: with `VALUE` in their place, and what each
    /// of them is.
    Masked {
        /// The command line.
        command: String,
        /// The masked words, such as `the value of --token`.
        words: Vec<String>,
    },
    /// The recording does not name it.
    Unknown,
}

impl RecordedServer {
    /// The URL or the command line, if it is known.
    pub fn known(self) -> Option<String> {
        if let RecordedServer::Known(server) = self { Some(server) } else { None }
    }

    fn of_command(command: &[String]) -> RecordedServer {
        if command.is_empty() {
            return RecordedServer::Unknown;
        }
        let (mut words, mut filled) = (Vec::new(), Vec::new());
        for (at, word) in command.iter().enumerate() {
            let Some((before, _)) = word.split_once("***") else {
                filled.push(word.clone());
                continue;
            };
            let before = before.trim_end_matches('*');
            let option = before.split(['=', ':', '"']).next().filter(|name| !name.is_empty());
            let option = option.or_else(|| at.checked_sub(1).map(|at| command[at].as_str()));
            words.push(format!("the value of {}", option.unwrap_or_default()));
            filled.push(format!("{before}VALUE"));
        }
        let command = command_line::quoted(&filled);
        if words.is_empty() { RecordedServer::Known(command) } else { RecordedServer::Masked { command, words } }
    }
}

impl Target {
    /// The command or the URL, for people.
    pub fn name(&self) -> String {
        match self {
            Target::Command(server) => server.recorded.join(" "),
            #[cfg(feature = "http")]
            Target::Url { url, .. } => url.clone(),
        }
    }

    /// Parses what a user enters: a URL, or a command line with the quoting of a shell.
    ///
    /// # Errors
    /// A quote is not closed, the text is empty, or this program was built without HTTP.
    pub fn read(text: &str, timeout: Duration) -> Result<Target> {
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            #[cfg(feature = "http")]
            return Ok(Target::Url {
                url: text.to_owned(),
                mode: None,
                options: connect::ConnectOptions { timeout, ..connect::ConnectOptions::default() },
            });
            #[cfg(not(feature = "http"))]
            bail!("cannot reach {text}: this mcptap was built without HTTP");
        }
        let _ = timeout;
        let words = command_line::words(text).context("a quote is not closed")?;
        if words.is_empty() {
            bail!("the server must be a URL, or a command line that starts it");
        }
        Ok(Target::command(words.into_iter().map(OsString::from).collect()))
    }

    /// A server that this command line starts. Secrets in it are masked in recordings.
    pub fn command(words: Vec<OsString>) -> Target {
        let recorded = command_line::masked(&words);
        Target::Command(Server { command: words, recorded, ..Server::default() })
    }

    /// The server of a recording.
    pub fn recorded(reader: &StoreReader, session: &Session) -> Result<RecordedServer> {
        match &session.peers {
            Peers::Process { command, .. } => Ok(RecordedServer::of_command(command)),
            Peers::Network { server, .. } => {
                let Some((exchange, path)) = endpoint(reader, session)? else {
                    return Ok(RecordedServer::Unknown);
                };
                let fields = &exchange.request.fields;
                let host = fields.get("host").or_else(|| fields.get(":authority"));
                let host = host.map_or_else(|| server.to_string(), str::to_owned);
                // The recording does not always contain the scheme. Port 443 nearly always means
                // TLS.
                let scheme =
                    if server.port() == 443 || fields.get(":scheme") == Some("https") { "https" } else { "http" };
                Ok(RecordedServer::Known(match path.contains("://") {
                    true => path,
                    false => format!("{scheme}://{host}{path}"),
                }))
            }
        }
    }

    /// Replays a recording once. The traffic is recorded in `place` by a thread that may still be
    /// running at the end. Failures after the handshake are part of the result and no error.
    pub fn replay(
        &self,
        recording: &AnalyzedRecording,
        settings: &Settings,
        place: &DatabaseFile,
        follower: &mut Follower<'_>,
    ) -> Result<(ReplayResult, Capture)> {
        let texts = &mut recording.texts();
        match self {
            Target::Command(server) => {
                let (transport, observations) = Stdio::start(server)?;
                let capture = Capture::start(observations, place, recording.number_in(place), &self.name())?;
                opened(run::run(recording, texts, settings, Box::new(transport), follower), capture)
            }
            #[cfg(feature = "http")]
            Target::Url { url, mode, options } => {
                // The SDKs serve HTTP+SSE of 2024-11-05 at /sse.
                let sse_first = url.split(['?', '#']).next().is_some_and(|path| path.ends_with("/sse"));
                let first = mode.unwrap_or(if sse_first { Mode::Sse } else { Mode::Streamable });
                let (tape, spool) = tape::tape();
                // A first attempt with the wrong transport is not recorded.
                let is_attempt = mode.is_none() && first == Mode::Streamable;
                let attempt = if is_attempt { tape.attempt() } else { tape.clone() };
                let transport = Http::open(url, first, options, attempt.clone())?;
                let capture = Capture::start(spool, place, recording.number_in(place), &self.name())?;
                let mut result = run::run(recording, texts, settings, Box::new(transport), follower);
                // "If it fails with an HTTP 4xx status code …: Issue a GET request to the server
                // URL, expecting that this will open an SSE stream and return an endpoint event as
                // the first event" (2025-03-26 basic/transports, "Backwards Compatibility")
                let mut other = Ok(());
                match &result.wrong_transport {
                    Some(failure) if is_attempt => match Http::open(url, Mode::Sse, options, tape.clone()) {
                        Ok(transport) => result = run::run(recording, texts, settings, Box::new(transport), follower),
                        Err(error) => {
                            let both =
                                format!("{url} answered a POST with {failure}, and does not support HTTP+SSE either");
                            other = Err(error.context(both));
                        }
                    },
                    _ => attempt.keep(),
                }
                drop((tape, attempt));
                let why = match (other, &result.wrong_transport) {
                    (Err(error), _) => Some(format!("{error:#}")),
                    (Ok(()), Some(failure)) => Some(format!("{url} uses another transport: {failure}")),
                    (Ok(()), None) => None,
                };
                opened(ReplayResult { unopened: why.or(result.unopened), ..result }, capture)
            }
        }
    }
}

/// Number of exchanges, the first ones, among which the endpoint of a server is searched for.
const FIRST: usize = 32;

/// An exchange with the endpoint of a session's server, and its target. Clients also ask for other
/// paths, such as those of OAuth metadata, and may be refused first.
fn endpoint(reader: &StoreReader, session: &Session) -> Result<Option<(Exchange, String)>> {
    let exchanges = reader.exchanges(session.number, Page::first(FIRST))?;
    // "The server MUST provide … an SSE endpoint, for clients to establish a connection"
    // (2024-11-05 basic/transports, "HTTP with SSE"). Other transports send messages by POST.
    let method = if session.transport == Transport::HttpSse { "GET" } else { "POST" };
    let rank = |exchange: &&Exchange| {
        let is_refused = exchange.status.is_some_and(|status| status >= 400);
        (exchange.method.as_deref() != Some(method), is_refused)
    };
    let best = exchanges.iter().filter(|exchange| exchange.target.is_some()).min_by_key(rank).cloned();
    Ok(best.and_then(|exchange| Some((exchange.clone(), exchange.target?))))
}

/// The result of a replay whose handshake succeeded.
fn opened(result: ReplayResult, capture: Capture) -> Result<(ReplayResult, Capture)> {
    match &result.unopened {
        Some(why) => {
            capture.finish()?;
            bail!("cannot replay: {why}")
        }
        None => Ok((result, capture)),
    }
}
