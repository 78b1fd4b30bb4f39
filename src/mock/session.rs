//! The session of one client with the recorded server, without a clock and without input or output.
//!
//! Each message of the client that matches a turn starts a *playback* of that turn. It sends the
//! messages of the turn in order, at once or with the recorded pauses. A message waits until the
//! client has answered the same server requests as the recorded client had.

mod faults;
mod playback;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::era::{is_modern, translated};
use super::handshake;
use super::ledger::{self, Ledger};
use super::matching::{self, Match, Matcher, UsedTurns, closest};
use super::script::{Script, TurnIndex};
use crate::decode::json::member;
use crate::decode::jsonrpc::{Envelope, InvalidText, JsonRpcText, Kind};
use crate::filter::Fault;
use crate::replay::messages::{self, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::replay::translate::Era;
use faults::{Answer, HeldAnswer, InjectedFault};
use playback::Playback;

/// The speed of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the client responds.
    #[default]
    Fast,
    /// With the recorded pauses.
    Recorded,
}

/// The script for clients of one era.
#[derive(Debug)]
pub struct EraScript {
    /// The turns and their messages.
    pub script: Script,
    /// Finds the turn for a message of the client.
    matcher: Matcher,
}

/// The recorded server, which all clients share.
#[derive(Debug)]
pub struct RecordedServer {
    recorded: EraScript,
    /// The translated script, made when the first client of the other era appears.
    other: OnceLock<EraScript>,
    fit: Match,
    pace: Pace,
    faults: Vec<Fault>,
}

impl RecordedServer {
    /// A server that plays this script. Weaker matches than `fit` are not accepted.
    pub fn new(script: Script, fit: Match, pace: Pace) -> RecordedServer {
        let matcher = Matcher::new(&script, fit);
        RecordedServer {
            recorded: EraScript { script, matcher },
            other: OnceLock::new(),
            fit,
            pace,
            faults: Vec::new(),
        }
    }

    /// The same server, which injects these faults.
    pub fn with_faults(self, faults: Vec<Fault>) -> RecordedServer {
        RecordedServer { faults, ..self }
    }

    /// The script of the recording.
    pub fn script(&self) -> &Script {
        &self.recorded.script
    }

    /// The script for clients of this era.
    fn script_for(&self, era: Era) -> &EraScript {
        if era == self.recorded.script.era() {
            return &self.recorded;
        }
        self.other.get_or_init(|| {
            let script = translated(&self.recorded.script);
            // Clients of the other era send `_meta` that the recording cannot contain, so it must
            // not be compared.
            let matcher = Matcher::new(&script, self.fit.max(Match::Loose));
            EraScript { script, matcher }
        })
    }
}

/// The number that the caller gives to a text of the client. The responses to the text
/// carry it too.
pub type Post = u64;

/// One output of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOutput {
    /// The text of the client that this output belongs to, if any.
    pub post: Option<Post>,
    /// The message. `None` means that no more output for the text follows.
    pub text: Option<String>,
    /// Whether the recorded message was a server-sent event.
    pub is_event: bool,
    /// The error code, if it is an error.
    pub code: Option<i64>,
    /// Only so many bytes of the text are sent, and then the connection or pipe is closed.
    pub cut: Option<usize>,
}

/// A summary of one text of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSummary {
    /// The number of requests and of invalid messages in it. For each there is a response, or the
    /// end without one.
    pub requests: usize,
    /// One of the requests is `initialize`.
    pub opens: bool,
    /// The text is not a JSON-RPC message.
    pub is_invalid: bool,
}

/// The most playbacks of one client that are not finished. Beyond it, the oldest is discarded: a
/// client with so many open requests does not wait for all of them.
const MAX_PLAYBACKS: usize = 4_096;

/// The most requests of the server that wait for the client's response.
const MAX_SERVER_REQUESTS: usize = 4_096;

/// A text whose requests are not all answered.
#[derive(Debug)]
struct Batch {
    /// The number of unanswered requests, and one more while the text is parsed.
    unanswered: usize,
    /// The responses collected so far, if the text is a batch. They are sent together.
    answers: Option<Vec<String>>,
    /// The number of bytes after which an injected fault cuts the batch.
    cut: Option<usize>,
}

/// The state of one client.
#[derive(Debug, Default)]
pub struct Session {
    /// The era of the client, once its messages have shown it.
    era: Option<Era>,
    /// The used turns of each era.
    used: [UsedTurns; 2],
    playbacks: VecDeque<Playback>,
    next_playback: u64,
    /// Requests sent to the client by id: the playback, and the index of the recorded request.
    server_requests: HashMap<u64, (u64, usize)>,
    next_id: u64,
    /// The current ids of recorded server requests.
    ids: HashMap<usize, u64>,
    /// The `subscriptions/listen` request of each turn: its text and its id.
    listening: HashMap<TurnIndex, (Post, String)>,
    batches: HashMap<Post, Batch>,
    /// Answers that an injected fault delays or drops, oldest first.
    held: VecDeque<HeldAnswer>,
    output: Vec<SessionOutput>,
    /// Remarks for the user who runs the mock.
    pub notes: Vec<String>,
}

/// A text of the client that is being taken.
struct ReceivedText<'a> {
    server: &'a RecordedServer,
    ledger: &'a mut Ledger,
    post: Post,
    now: Duration,
    summary: InputSummary,
}

impl Session {
    /// A session before the client's first message.
    pub fn new(server: &RecordedServer, now: Duration) -> Session {
        let mut session = Session::default();
        let era = session.era(server);
        if !server.script().opening.is_empty() {
            session.start(Playback::new(era, None, None, None, 0, now));
        }
        session
    }

    /// The era of the client. Until its messages show it, the era of the recording.
    pub fn era(&self, server: &RecordedServer) -> Era {
        self.era.unwrap_or_else(|| server.script().era())
    }

    /// Takes a text of the client: a message or a batch.
    pub fn receive(
        &mut self,
        server: &RecordedServer,
        ledger: &mut Ledger,
        text: &[u8],
        post: Post,
        now: Duration,
    ) -> InputSummary {
        let mut input = ReceivedText { server, ledger, post, now, summary: InputSummary::default() };
        let parsed = messages::parse(text);
        let is_batch = matches!(&parsed, JsonRpcText::Batch(members) if !members.is_empty());
        self.batches.insert(post, Batch { unanswered: 1, answers: is_batch.then(Vec::new), cut: None });
        let fault = match parsed {
            JsonRpcText::Single(envelope) => {
                self.message(&mut input, text, &envelope);
                None
            }
            JsonRpcText::Batch(members) if is_batch => {
                for (range, member) in members {
                    match (text.get(range), member) {
                        (Some(text), Ok(envelope)) => self.message(&mut input, text, &envelope),
                        // JSON-RPC 2.0 section 6: each invalid member of a batch gets a response of
                        // its own.
                        _ => {
                            self.refuse(&mut input, INVALID_REQUEST, "a member of the batch is not a JSON-RPC message")
                        }
                    }
                }
                None
            }
            JsonRpcText::Batch(_) => Some((INVALID_REQUEST, "the batch is empty")),
            JsonRpcText::Invalid(InvalidText::NotUtf8(_) | InvalidText::NotJson(..)) => Some((PARSE_ERROR, "not JSON")),
            JsonRpcText::Invalid(InvalidText::TooDeep) => Some((INVALID_REQUEST, "nested too deeply")),
            JsonRpcText::Invalid(InvalidText::NotAMessage) => Some((INVALID_REQUEST, "not a JSON-RPC message")),
        };
        if let Some((code, why)) = fault {
            self.refuse(&mut input, code, why);
            input.summary.is_invalid = true;
        }
        // Parsing is complete.
        match input.summary.requests {
            0 => drop(self.batches.remove(&post)),
            _ => self.finish_request(post, None),
        }
        let summary = input.summary;
        self.advance(server, now);
        summary
    }

    /// The output that is due now, in order.
    pub fn due_output(&mut self, server: &RecordedServer, now: Duration) -> Vec<SessionOutput> {
        self.advance(server, now);
        std::mem::take(&mut self.output)
    }

    /// The time of the next output, if the client sends nothing before.
    pub fn next_due(&self, server: &RecordedServer) -> Option<Duration> {
        let held = self.held.iter().filter_map(|held| held.due);
        self.playbacks.iter().filter_map(|playback| playback.due(server)).chain(held).min()
    }

    /// Drops what belongs to this text, because its connection is gone.
    pub fn abandon(&mut self, post: Post) {
        self.playbacks.retain(|playback| playback.post != post || playback.id.is_none());
        self.held.retain(|held| held.post != post);
        self.batches.remove(&post);
    }

    fn message(&mut self, input: &mut ReceivedText<'_>, text: &[u8], envelope: &Envelope) {
        let of = |range: &Option<Range<usize>>| messages::slice(text, range);
        let (method, params) = (envelope.method_name.as_deref().unwrap_or_default(), of(&envelope.params));
        match envelope.kind {
            Some(Kind::Request) => {
                input.summary.opens |= method == "initialize";
                self.count_request(input);
                let fault = input.server.fault(text);
                self.request(input, (method, params, of(&envelope.id).unwrap_or("null")), fault);
            }
            Some(Kind::Notification) => self.notification(input, method, params),
            Some(Kind::Response | Kind::Error) => {
                let id = of(&envelope.id).and_then(|id| id.parse::<u64>().ok());
                let Some((playback, request)) = id.and_then(|id| self.server_requests.remove(&id)) else {
                    return input.ledger.unexpected("a response without a request".to_owned());
                };
                if let Some(playback) = self.playbacks.iter_mut().find(|known| known.number == playback) {
                    playback.answered(request, input.now);
                }
            }
            Some(Kind::Invalid) | None => self.refuse(input, INVALID_REQUEST, "not a JSON-RPC message"),
        }
    }

    fn count_request(&mut self, input: &mut ReceivedText<'_>) {
        input.summary.requests += 1;
        if let Some(batch) = self.batches.get_mut(&input.post) {
            batch.unanswered += 1;
        }
    }

    fn request(
        &mut self,
        input: &mut ReceivedText<'_>,
        (method, params, id): (&str, Option<&str>, &str),
        fault: InjectedFault,
    ) {
        let ReceivedText { server, ledger, post, now, .. } = input;
        let (post, now) = (*post, *now);
        self.era = match method {
            // A handshake that the recording contains is played as recorded.
            "initialize" | "server/discover" if server.script().has(method) => Some(server.script().era()),
            "initialize" => Some(Era::Legacy),
            "server/discover" => Some(Era::Modern),
            _ if is_modern(params) => Some(Era::Modern),
            _ => self.era,
        };
        let era = self.era(server);
        ledger.faults += u64::from(fault != InjectedFault::default());
        let fault = match fault.replacement(id) {
            Some(replacement) => return self.hold_or_answer((post, id), replacement, fault.delay, now),
            None => fault,
        };
        let (EraScript { script, matcher }, label) = (server.script_for(era), matching::label(method, params));
        if let Some((turn, fit)) = matcher.find(&mut self.used[era as usize], true, &label, params) {
            ledger.used(script, turn, fit);
            let token = params.and_then(|params| member(member(params, "_meta")?, "progressToken"));
            if method == "subscriptions/listen" {
                self.listening.insert(turn, (post, id.to_owned()));
            }
            if !script.turns[turn].is_answered() {
                self.notes.push(format!(
                    "{}: the recording contains no response to it, so the client gets none",
                    ledger::named(script, turn)
                ));
            }
            let mut playback = Playback::new(era, Some(turn), Some(id.to_owned()), token.map(str::to_owned), post, now);
            playback.fault = fault;
            self.start(playback);
            return;
        }
        // Some requests can be answered without the recording.
        if let Some(result) = handshake::result(script, method, params).filter(|_| !script.has(method)) {
            ledger.unrecorded += 1;
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            self.answer(&fault, (post, id), Answer::of(text, None), now);
            return;
        }
        let closest = closest(script, &label, params);
        // Clients of both eras send `server/discover` to detect the server's revision. They expect
        // an error, so it is no surprise.
        if method == "server/discover" {
            ledger.unrecorded += 1;
        } else {
            let named = closest.map(|turn| ledger::named(script, turn));
            let hint = named.as_ref().map(|named| format!(", the closest is {named}")).unwrap_or_default();
            self.notes.push(format!("{label} is not in the recording{hint}"));
            ledger.unknown(label.to_string(), named);
        }
        let code = if script.has(method) { INVALID_PARAMS } else { METHOD_NOT_FOUND };
        let mut error = json!({"code": code, "message": format!("{label} is not in the recording")});
        if let Some(turn) = closest {
            let known = &script.turns[turn];
            error["message"] =
                format!("{label} is not in the recording; the closest is {}", ledger::named(script, turn)).into();
            error["data"] = json!({"closest": {"number": known.number.0, "method": known.label.method}});
            if let Some(params) = script.params(turn).and_then(|params| serde_json::from_str::<Value>(params).ok()) {
                error["data"]["closest"]["params"] = params;
            }
        }
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        self.answer(&fault, (post, id), Answer::of(text, Some(code)), now);
    }

    fn notification(&mut self, input: &mut ReceivedText<'_>, method: &str, params: Option<&str>) {
        // 2025-11-25 basic/utilities/cancellation: receivers "SHOULD … not send a response for the
        // cancelled request".
        if let Some(id) =
            params.filter(|_| method == "notifications/cancelled").and_then(|params| member(params, "requestId"))
        {
            self.cancel(id);
        }
        let label = matching::label(method, params);
        let era = self.era(input.server);
        let EraScript { script, matcher } = input.server.script_for(era);
        match matcher.find(&mut self.used[era as usize], false, &label, params) {
            Some((turn, fit)) => {
                input.ledger.used(script, turn, fit);
                self.start(Playback::new(era, Some(turn), None, None, input.post, input.now));
            }
            // A client of the older era sends this to every server.
            None if method == "notifications/initialized" => {}
            None => input.ledger.unexpected(method.to_owned()),
        }
    }

    fn cancel(&mut self, id: &str) {
        let found =
            self.playbacks.iter().position(|playback| playback.id.as_deref() == Some(id) && !playback.is_answered);
        if let Some(playback) = found.and_then(|at| self.playbacks.remove(at)) {
            self.finish_request(playback.post, None);
        }
        self.cancel_held(id);
    }

    fn refuse(&mut self, input: &mut ReceivedText<'_>, code: i64, why: &str) {
        input.ledger.invalid += 1;
        self.count_request(input);
        // JSON-RPC 2.0 section 5: if the id could not be detected, "it MUST be Null".
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": why}});
        self.finish_request(input.post, Some(Answer::of(error.to_string(), Some(code))));
    }

    fn start(&mut self, mut playback: Playback) {
        playback.number = self.next_playback;
        self.next_playback += 1;
        if self.playbacks.len() >= MAX_PLAYBACKS
            && let Some(oldest) = self.playbacks.pop_front()
        {
            self.finish_request(oldest.post, None);
        }
        self.playbacks.push_back(playback);
    }

    /// Finishes one request of a text. The responses to a batch are collected and sent together.
    /// The last response ends the output for the text.
    fn finish_request(&mut self, post: Post, answer: Option<Answer>) {
        let Some(batch) = self.batches.get_mut(&post) else { return };
        batch.unanswered = batch.unanswered.saturating_sub(1);
        let is_last = batch.unanswered == 0;
        let answer = match (&mut batch.answers, answer) {
            (None, answer) => answer,
            (Some(answers), answer) => {
                let cut = answer.as_ref().and_then(|answer| answer.cut);
                batch.cut = [batch.cut, cut].into_iter().flatten().min();
                let is_event = answer.as_ref().is_some_and(|answer| answer.is_event);
                answers.extend(answer.map(|answer| answer.text));
                let text = (is_last && !answers.is_empty()).then(|| format!("[{}]", answers.join(",")));
                text.map(|text| Answer { cut: batch.cut, is_event, ..Answer::of(text, None) })
            }
        };
        if let Some(Answer { text, is_event, code, cut }) = answer {
            self.output.push(SessionOutput { post: Some(post), text: Some(text), is_event, code, cut });
        }
        if is_last {
            self.batches.remove(&post);
            self.output.push(SessionOutput { post: Some(post), text: None, is_event: false, code: None, cut: None });
        }
    }

    /// Produces the output that is due.
    fn advance(&mut self, server: &RecordedServer, now: Duration) {
        let mut playbacks = std::mem::take(&mut self.playbacks);
        playbacks.retain_mut(|playback| {
            while playback.due(server).is_some_and(|due| due <= now) {
                self.send_next(server, playback);
            }
            !playback.is_over(server)
        });
        playbacks.append(&mut self.playbacks);
        self.playbacks = playbacks;
        self.release_held(now);
    }

    /// A new id for a recorded request of the server, which is sent now.
    fn send_request(&mut self, playback: u64, recorded: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if self.server_requests.len() < MAX_SERVER_REQUESTS {
            self.server_requests.insert(id, (playback, recorded));
        }
        self.ids.insert(recorded, id);
        id
    }
}
