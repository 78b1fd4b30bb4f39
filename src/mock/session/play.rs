//! A turn of the recording, being played.

use std::collections::HashSet;
use std::time::Duration;

use super::{Pace, Post, Said, Session, Stage, with_id};
use crate::decode::json::member;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::part;
use crate::mcp::meta;
use crate::mock::script::{Line, Role, Script, TurnIndex, Way};
use crate::replay::edit::replaced;
use crate::replay::translate::Era;

/// A turn, as far as it has been said.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) number: u64,
    era: Era,
    /// `None`: what the server says before the client says anything.
    turn: Option<TurnIndex>,
    /// The client's id, as JSON text; `None` for a notification.
    pub(super) id: Option<String>,
    /// The client's progress token, as JSON text.
    token: Option<String>,
    pub(super) post: Post,
    pub(super) is_answered: bool,
    next: usize,
    /// Since when it could have gone on.
    since: Duration,
    /// What of the server's requests the client has answered.
    answers: HashSet<usize>,
}

impl Play {
    pub(super) fn new(
        era: Era,
        turn: Option<TurnIndex>,
        id: Option<String>,
        token: Option<String>,
        post: Post,
        now: Duration,
    ) -> Play {
        let answers = HashSet::new();
        Play { number: 0, era, turn, id, token, post, is_answered: false, next: 0, since: now, answers }
    }

    fn line<'a>(&self, stage: &'a Stage) -> Option<&'a Line> {
        stage.part(self.era).script.lines(self.turn).get(self.next)
    }

    /// When the next line is said; `None` where there is none, or the client has to answer first.
    pub(super) fn due(&self, stage: &Stage) -> Option<Duration> {
        let line = self.line(stage)?;
        let pause = match stage.pace {
            Pace::Fast => Duration::ZERO,
            Pace::Recorded => Duration::from_nanos(line.delay.max(0).unsigned_abs()),
        };
        line.after.iter().all(|asked| self.answers.contains(asked)).then(|| self.since.saturating_add(pause))
    }

    /// Whether all is said. A request that was not answered in the recording stays open: it may be taken back.
    pub(super) fn is_over(&self, stage: &Stage) -> bool {
        self.line(stage).is_none() && (self.id.is_none() || self.is_answered)
    }

    pub(super) fn answered(&mut self, asked: usize, now: Duration) {
        self.answers.insert(asked);
        self.since = self.since.max(now);
    }
}

impl Session {
    /// Says the next line of a play, which is due.
    pub(super) fn line(&mut self, stage: &Stage, play: &mut Play) {
        let (Some(line), Some(due)) = (play.line(stage), play.due(stage)) else { return };
        (play.next, play.since) = (play.next + 1, due);
        let script = &stage.part(play.era).script;
        let message = script.message(line.message);
        let Some(text) = message.raw.text() else { return };
        let text = text.trim_start_matches('\u{feff}').trim();
        let (mut post, mut text) =
            (Some(play.post).filter(|_| play.id.is_some() && !play.is_answered), text.to_owned());
        match line.role {
            Role::Answer => {
                let id = play.id.as_deref().unwrap_or("null");
                text = with_id(&text, id);
                if part(message, "result")
                    .and_then(|result| member(member(result, "_meta")?, meta::SUBSCRIPTION))
                    .is_some()
                {
                    text = subscribed(&text, "result", id);
                }
                let error = part(message, "error").filter(|_| message.kind == Kind::Error);
                let code = error.and_then(|error| member(error, "code")?.parse().ok());
                play.is_answered = true;
                return self.answer(play.post, text, line.is_event, code);
            }
            // "Progress notifications MUST only reference tokens that … were provided in an active request" (basic/utilities/progress)
            Role::Progress => match &play.token {
                Some(token) => text = replaced(&text, "/params/progressToken", token),
                None => return,
            },
            Role::Notification => {
                if message.method.as_deref() == Some("notifications/cancelled") {
                    text = self.takes_back(script, line.message, &text);
                }
            }
            Role::Request => text = with_id(&text, &self.ask(play.number, line.message).to_string()),
        }
        match line.way {
            Way::Own => {
                if let Some(id) = listens(stage, play) {
                    text = subscribed(&text, "params", id);
                }
            }
            Way::Open => post = None,
            Way::Of(turn) => {
                let Some((listening, id)) = self.listening.get(&turn) else { return };
                (post, text) = (Some(*listening), subscribed(&text, "params", id));
            }
        }
        self.said.push(Said { post, text: Some(text), is_event: true, code: None });
    }

    /// A cancellation of a request of the server: it has another id now.
    fn takes_back(&self, script: &Script, index: usize, text: &str) -> String {
        let messages = &script.recording.messages;
        let recorded = part(&messages[index], "params").and_then(|params| member(params, "requestId"));
        let is_meant = |at: &usize| messages[*at].kind == Kind::Request && messages[*at].id.as_deref() == recorded;
        let id = (0..index).rev().find(is_meant).and_then(|at| self.ids.get(&at));
        id.map_or_else(|| text.to_owned(), |id| replaced(text, "/params/requestId", &id.to_string()))
    }
}

/// The id of a request that listens.
fn listens<'a>(stage: &Stage, play: &'a Play) -> Option<&'a str> {
    let turn = &stage.part(play.era).script.turns[play.turn?];
    play.id.as_deref().filter(|_| turn.label.method == "subscriptions/listen")
}

/// The subscription id is the id of the request that listens: the client's.
fn subscribed(text: &str, part: &str, id: &str) -> String {
    let pointer = format!("/{part}/_meta/{}", crate::compare::difference::escaped(meta::SUBSCRIPTION));
    replaced(text, &pointer, id)
}
