//! Plays one turn of the recording to a client.

use std::collections::HashSet;
use std::time::Duration;

use super::faults::{Answer, InjectedFault};
use super::{Pace, Post, RecordedServer, Session, SessionOutput};
use crate::decode::json::member;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::meta;
use crate::mock::script::{Role, Route, Script, ScriptedMessage, TurnIndex};
use crate::replay::edit::{replaced, with_member};
use crate::replay::translate::Era;

/// A turn, and how far it was played.
#[derive(Debug)]
pub(super) struct Playback {
    pub(super) number: u64,
    era: Era,
    /// `None` plays the server messages before the first turn.
    turn: Option<TurnIndex>,
    /// The id of the client's request as JSON text; `None` for a notification.
    pub(super) id: Option<String>,
    /// The progress token of the client's request as JSON text.
    token: Option<String>,
    pub(super) post: Post,
    pub(super) is_answered: bool,
    next: usize,
    /// The time since which the next message could be sent.
    since: Duration,
    /// The server's requests (indices of messages) that the client has answered.
    answers: HashSet<usize>,
    /// The fault that is injected into the response.
    pub(super) fault: InjectedFault,
}

impl Playback {
    pub(super) fn new(
        era: Era,
        turn: Option<TurnIndex>,
        id: Option<String>,
        token: Option<String>,
        post: Post,
        now: Duration,
    ) -> Playback {
        let answers = HashSet::new();
        let fault = InjectedFault::default();
        Playback { number: 0, era, turn, id, token, post, is_answered: false, next: 0, since: now, answers, fault }
    }

    fn next_message<'a>(&self, server: &'a RecordedServer) -> Option<&'a ScriptedMessage> {
        server.script_for(self.era).script.server_messages(self.turn).get(self.next)
    }

    /// The time at which the next message is due. `None` if there is none, or the client has
    /// to answer first.
    pub(super) fn due(&self, server: &RecordedServer) -> Option<Duration> {
        let scripted = self.next_message(server)?;
        let pause = match server.pace {
            Pace::Fast => Duration::ZERO,
            Pace::Recorded => Duration::from_nanos(scripted.delay.max(0).unsigned_abs()),
        };
        scripted.after.iter().all(|request| self.answers.contains(request)).then(|| self.since.saturating_add(pause))
    }

    /// Whether all messages were sent. A request without a recorded response stays open, so that it
    /// can be cancelled.
    pub(super) fn is_over(&self, server: &RecordedServer) -> bool {
        self.next_message(server).is_none() && (self.id.is_none() || self.is_answered)
    }

    pub(super) fn answered(&mut self, request: usize, now: Duration) {
        self.answers.insert(request);
        self.since = self.since.max(now);
    }
}

impl Session {
    /// Sends the next message of a playback, which is due.
    pub(super) fn send_next(&mut self, server: &RecordedServer, playback: &mut Playback) {
        let (Some(scripted), Some(due)) = (playback.next_message(server), playback.due(server)) else { return };
        (playback.next, playback.since) = (playback.next + 1, due);
        let script = &server.script_for(playback.era).script;
        let message = script.message(scripted.message);
        let Some(text) = message.raw.text() else { return };
        let text = text.trim_start_matches('\u{feff}').trim();
        let (mut post, mut text) =
            (Some(playback.post).filter(|_| playback.id.is_some() && !playback.is_answered), text.to_owned());
        match scripted.role {
            Role::Answer => {
                let id = playback.id.as_deref().unwrap_or("null");
                text = with_member(&text, "id", id);
                if part(message, "result")
                    .and_then(|result| member(member(result, "_meta")?, meta::SUBSCRIPTION))
                    .is_some()
                {
                    text = with_subscription_id(&text, "result", id);
                }
                let error = part(message, "error").filter(|_| message.kind == Kind::Error);
                let code = error.and_then(|error| member(error, "code")?.parse().ok());
                playback.is_answered = true;
                let answer = Answer { is_event: scripted.is_event, ..Answer::of(text, code) };
                return self.answer(&playback.fault, (playback.post, id), answer, due);
            }
            // "Progress notifications MUST only reference tokens that … were provided in an active
            // request" (basic/utilities/progress)
            Role::Progress => match &playback.token {
                Some(token) => text = replaced(&text, "/params/progressToken", token),
                None => return,
            },
            Role::Notification => {
                if message.method.as_deref() == Some("notifications/cancelled") {
                    text = self.with_current_request_id(script, scripted.message, &text);
                }
            }
            Role::Request => {
                text = with_member(&text, "id", &self.send_request(playback.number, scripted.message).to_string())
            }
        }
        match scripted.route {
            Route::Response => {
                if let Some(id) = subscription_id(server, playback) {
                    text = with_subscription_id(&text, "params", id);
                }
            }
            Route::ListeningStream => post = None,
            Route::Subscription(turn) => {
                let Some((listening, id)) = self.listening.get(&turn) else { return };
                (post, text) = (Some(*listening), with_subscription_id(&text, "params", id));
            }
        }
        self.output.push(SessionOutput { post, text: Some(text), is_event: true, code: None, cut: None });
    }

    /// A cancellation by the server with the current id of the cancelled request.
    fn with_current_request_id(&self, script: &Script, index: usize, text: &str) -> String {
        let messages = &script.recording.messages;
        let recorded = part(&messages[index], "params").and_then(|params| member(params, "requestId"));
        let is_meant = |at: &usize| messages[*at].kind == Kind::Request && messages[*at].id.as_deref() == recorded;
        let id = (0..index).rev().find(is_meant).and_then(|at| self.ids.get(&at));
        id.map_or_else(|| text.to_owned(), |id| replaced(text, "/params/requestId", &id.to_string()))
    }
}

/// The id of the request, if it is a `subscriptions/listen`.
fn subscription_id<'a>(server: &RecordedServer, playback: &'a Playback) -> Option<&'a str> {
    let turn = &server.script_for(playback.era).script.turns[playback.turn?];
    playback.id.as_deref().filter(|_| turn.label.method == "subscriptions/listen")
}

/// Sets the subscription id to the id of the client's `subscriptions/listen` request.
fn with_subscription_id(text: &str, part: &str, id: &str) -> String {
    let pointer = format!("/{part}/_meta/{}", crate::compare::difference::escaped(meta::SUBSCRIPTION));
    replaced(text, &pointer, id)
}
