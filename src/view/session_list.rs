//! The list of sessions: names, states, the rows that fold away, and the order.

use std::cmp::Ordering;

use super::parties;
use crate::capture::Time;
use crate::mcp::Peers;
use crate::store::{CaptureKind, ListedSession};

/// The state of a session's recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingState {
    /// It is being recorded.
    Live,
    /// The server ended with an error or by a signal.
    Died,
    /// The recorder was killed, so the rest of the session is unknown.
    Cut,
    /// It ended, and nothing is unusual.
    Ended,
}

impl RecordingState {
    /// The state in one word; empty where nothing is unusual.
    pub fn word(self) -> &'static str {
        match self {
            RecordingState::Live => "live",
            RecordingState::Died => "died",
            RecordingState::Cut => "cut",
            RecordingState::Ended => "",
        }
    }
}

/// The state of a session's recording at this time.
pub fn state(listed: &ListedSession, now: Time) -> RecordingState {
    match listed.session.exit {
        Some(exit) if exit.code != Some(0) => RecordingState::Died,
        None if listed.is_live(now) => RecordingState::Live,
        None if listed.capture.summary.is_none() => RecordingState::Cut,
        _ => RecordingState::Ended,
    }
}

/// The name of a session: the session that it replays, the name given with `--name`, and the name
/// that the server gave itself.
pub fn name(listed: &ListedSession) -> String {
    let session = &listed.session;
    let server = match (&session.name, &session.server, &session.peers) {
        (Some(name), Some(own), _) if own.name.eq_ignore_ascii_case(name) => name.clone(),
        (Some(name), Some(_), _) => format!("{name} ({})", parties::party(&session.server).unwrap_or_default()),
        (None, None, Peers::Network { server, host: Some(host), .. }) => format!("{host}:{}", server.port()),
        _ => parties::server(session),
    };
    match (listed.capture.info.kind, listed.capture.info.replay_of) {
        (CaptureKind::Replay, Some(number)) => format!("replay of {}: {server}", number.0),
        (CaptureKind::Replay, None) => format!("replay: {server}"),
        _ => server,
    }
}

/// The reason for which a list leaves out a session, unless all are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fold {
    /// A replay to which the server answered nothing.
    FailedReplay,
    /// A session without a message, whose server did not fail.
    Empty,
}

impl Fold {
    /// The noun for such sessions.
    pub fn noun(self) -> &'static str {
        match self {
            Fold::FailedReplay => "failed replay",
            Fold::Empty => "empty session",
        }
    }
}

/// The reason to leave out a session, if there is one. A live or a pinned one stays.
pub fn fold(listed: &ListedSession, now: Time) -> Option<Fold> {
    let session = &listed.session;
    let state = state(listed, now);
    if listed.is_pinned || state == RecordingState::Live {
        return None;
    }
    if listed.capture.info.kind == CaptureKind::Replay && session.outcomes.ok == 0 {
        return Some(Fold::FailedReplay);
    }
    (session.messages == 0 && state != RecordingState::Died).then_some(Fold::Empty)
}

mcptap_core::words! {
    /// A column by which the list can be sorted. Equal sessions stay in the order of their numbers,
    /// the latest first.
    #[derive(Default)]
    pub enum SortKey {
        /// The number of the session, the latest first.
        #[default]
        Number = "number",
        /// The time of the first message, the latest first.
        Started = "started",
        /// The name, from A to Z.
        Server = "server",
        /// The requests of the client, the most first.
        Calls = "calls",
        /// The requests that failed, the most first.
        Fail = "fail",
        /// The requests without an answer, the most first.
        Open = "open",
        /// The findings: the most errors first, then warnings, then infos.
        Findings = "findings",
    }
}

impl SortKey {
    /// The order of two sessions.
    pub fn compare(self, one: &ListedSession, other: &ListedSession) -> Ordering {
        let most = |count: fn(&ListedSession) -> u64| count(other).cmp(&count(one));
        let order = match self {
            SortKey::Number => Ordering::Equal,
            SortKey::Started => other.session.started.cmp(&one.session.started),
            SortKey::Server => name(one).to_lowercase().cmp(&name(other).to_lowercase()),
            SortKey::Calls => most(|listed| listed.session.outcomes.requests()),
            SortKey::Fail => most(|listed| listed.session.outcomes.failed()),
            SortKey::Open => most(|listed| listed.session.outcomes.unanswered),
            SortKey::Findings => other.findings.iter().rev().cmp(one.findings.iter().rev()),
        };
        order.then(other.session.number.cmp(&one.session.number))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::mcp::{Outcomes, Party, Session, SessionNumber, Transport};
    use crate::store::{Capture, CaptureId, CaptureInfo, Counts, Summary};

    fn listed(number: u32, kind: CaptureKind, outcomes: Outcomes) -> ListedSession {
        let peers = Peers::Process { process: 1, command: vec!["server".into()] };
        let info = CaptureInfo { kind, ..CaptureInfo::default() };
        let capture = Capture {
            id: CaptureId(1),
            info,
            last_alive: Time(0),
            counts: Counts::default(),
            summary: Some(Summary::default()),
        };
        let messages = outcomes.requests();
        let session = Session {
            outcomes,
            messages,
            ..Session::opened(SessionNumber(number), Transport::Stdio, peers, Time(number.into()))
        };
        ListedSession { session, capture: Arc::new(capture), findings: [0; 3], is_pinned: false, latency: None }
    }

    #[test]
    fn failed_replays_and_empty_sessions_fold_away() {
        let ok = Outcomes { ok: 1, ..Outcomes::default() };
        let failed = Outcomes { errors: 1, ..Outcomes::default() };
        let folded = |listed: &ListedSession| fold(listed, Time(i64::MAX));
        assert_eq!(folded(&listed(1, CaptureKind::Replay, ok)), None);
        assert_eq!(folded(&listed(1, CaptureKind::Replay, failed)), Some(Fold::FailedReplay));
        assert_eq!(folded(&listed(1, CaptureKind::Wrap, failed)), None);
        assert_eq!(folded(&listed(1, CaptureKind::Wrap, Outcomes::default())), Some(Fold::Empty));
        let pinned = ListedSession { is_pinned: true, ..listed(1, CaptureKind::Wrap, Outcomes::default()) };
        assert_eq!(folded(&pinned), None);
    }

    #[test]
    fn a_name_says_what_is_replayed_and_repeats_no_name() {
        let mut one = listed(9, CaptureKind::Wrap, Outcomes::default());
        assert_eq!(name(&one), "server");
        one.session.name = Some("files".into());
        assert_eq!(name(&one), "files");
        one.session.server = Some(Party { name: "Files".into(), version: "2".into() });
        assert_eq!(name(&one), "files");
        one.session.server = Some(Party { name: "filesystem".into(), version: "2".into() });
        assert_eq!(name(&one), "files (filesystem 2)");
        let capture = Arc::make_mut(&mut one.capture);
        capture.info =
            CaptureInfo { kind: CaptureKind::Replay, replay_of: Some(SessionNumber(7)), ..CaptureInfo::default() };
        assert_eq!(name(&one), "replay of 7: files (filesystem 2)");
    }

    #[test]
    fn the_worst_sessions_come_first() {
        let calls = |ok, errors, unanswered| Outcomes { ok, errors, unanswered, ..Outcomes::default() };
        let mut all = [
            listed(1, CaptureKind::Wrap, calls(9, 0, 0)),
            listed(2, CaptureKind::Wrap, calls(1, 2, 0)),
            listed(3, CaptureKind::Wrap, calls(0, 1, 3)),
        ];
        all[0].findings = [0, 5, 0];
        all[1].findings = [9, 0, 1];
        let mut order = |key: SortKey| {
            all.sort_by(|one, other| key.compare(one, other));
            all.iter().map(|listed| listed.session.number.0).collect::<Vec<_>>()
        };
        assert_eq!(order(SortKey::Number), [3, 2, 1]);
        assert_eq!(order(SortKey::Calls), [1, 3, 2]);
        assert_eq!(order(SortKey::Fail), [2, 3, 1]);
        assert_eq!(order(SortKey::Open), [3, 2, 1]);
        assert_eq!(order(SortKey::Findings), [2, 1, 3]);
    }
}
