//! Replays from the screen, against a real server process.

use std::path::PathBuf;

use crossbeam_channel::{Sender, bounded, unbounded};

use super::*;
use crate::compare::Outcome;
use crate::support::waits::{PATIENCE, joined};
use crate::tui::replay::run::{RequestState, Stage};
use crate::tui::replay::{Consent, runner};

/// A weather station in shell. It answers the requests of the sample with `$1` degrees. `$2` is the
/// `destructiveHint` of its tool.
pub(super) const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  city=$(printf '%s' "$line" | sed -n 's/.*"city":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"initialize"'*) result='"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"station","version":"2"}' ;;
    *'"tools/list"'*) result='"tools":[{"name":"get_weather","inputSchema":{"type":"object"},"annotations":{"destructiveHint":'$2'}}]' ;;
    *'"tools/call"'*) result='"content":[{"type":"text","text":"'$city': '$1' °C"}],"isError":false' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":{%s}}\n' "$id" "$result"
done
"#;

/// Writes the server's program into a directory of its own.
fn station() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("station.sh");
    std::fs::write(&path, SERVER).unwrap();
    (directory, path)
}

impl Story {
    /// Runs the last submission as the replay thread does.
    pub(super) fn replay(&mut self) -> &mut Story {
        let (_go, stop) = bounded(0);
        let submission = self.submitted.pop().expect("nothing was submitted");
        let place = self.place.clone();
        let mut all = Vec::new();
        runner::run(&submission, &place, &mut |update| all.push(update), stop);
        for update in all {
            self.take(Input::Replay(submission.number, update));
        }
        self.take(Input::StoreChanged);
        self.take(Input::Tick(Time::default()));
        self
    }

    /// Replaces the form's target.
    fn to(&mut self, target: &str) -> &mut Story {
        self.press("<ctrl-u>").take(Input::Paste(target.to_owned()));
        self
    }
}

#[test]
fn a_call_is_edited_sent_again_and_compared() {
    let (_directory, station) = station();
    let mut story = Story::sample("weather", (100, 32));
    // The selected message is the answer; its request is sent again.
    story.press("<enter>GR");
    insta::assert_snapshot!("replay_form_100x32", story.screen());
    story.to(&format!("sh {} 19 false", station.display()));
    // The city "Quito" becomes the number 3. The schema does not allow that, and the form shows it
    // but does not forbid it. Then it becomes "Oslo".
    story.press(
        "<tab><tab><down><end><left><backspace><backspace><backspace><backspace><backspace><left><delete><delete>3",
    );
    assert!(story.screen().contains("does not match the tool's schema: /city: "), "{}", story.screen());
    story.press("<backspace>\"Oslo");
    assert!(story.screen().contains("not valid JSON: "), "{}", story.screen());
    story.press("<ctrl-r>");
    assert!(story.submitted.is_empty() && story.app.notice.as_ref().unwrap().failed, "it is not sent");
    story.press("\"");
    assert!(story.screen().contains("matches the tool's schema"), "{}", story.screen());
    story.press("<ctrl-r>");
    assert_eq!(
        story.submitted[0].call.as_ref().unwrap().params.as_deref().map(|params| params.contains(r#"{"city":"Oslo"}"#)),
        Some(true)
    );
    story.replay();
    let screen = story.screen().replace(&station.display().to_string(), "station.sh");
    insta::assert_snapshot!("replay_answers_100x32", timeless(&screen));
    // The replay is recorded as a session like any other, and R on it begins with its values.
    story.press("R");
    assert!(story.screen().contains("\"city\": \"Oslo\""), "{}", story.screen());
    story.press("<esc>0");
    assert_eq!(story.app.cache.sessions().unwrap().len(), 2, "{}", story.screen());
}

/// The screen without text that depends on the machine's speed: latencies, and how many calls were
/// slower than recorded.
fn timeless(screen: &str) -> String {
    let line = |line: &str| {
        let slower = (1..=2).map(|calls| format!(", {calls} slower")).find(|slower| line.contains(slower.as_str()));
        let line = &match (slower, line.strip_suffix('│')) {
            (Some(slower), Some(line)) => format!("{}{}│", line.replace(&slower, ""), " ".repeat(slower.len())),
            _ => line.to_owned(),
        };
        let is_measured = line.contains(" ms") || line.contains(" µs") || line.contains(" s ");
        if is_measured {
            line.split("  ")
                .filter(|part| !part.contains(" ms") && !part.contains(" µs"))
                .collect::<Vec<_>>()
                .join("  ")
        } else {
            line.to_owned()
        }
    };
    screen.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_session_is_sent_again_and_its_first_difference_is_in_view() {
    let (_directory, station) = station();
    let mut story = Story::sample("weather", (160, 40));
    story.press(&format!("<enter>:replay -- sh {} 19 false<enter>", station.display()));
    assert!(
        story.screen().contains("the whole session") || story.screen().contains("station.sh"),
        "{}",
        story.screen()
    );
    story.press("<enter>").replay();
    let run = story.app.replays.run.as_ref().unwrap();
    assert_eq!(run.stage, Stage::Finished);
    assert!(run.rows.iter().all(|row| matches!(row.state, RequestState::Compared(..))), "{:?}", run.rows);
    assert_eq!(
        run.aligned_rows().iter().filter(|row| row.old.as_deref().is_some_and(|text| text.contains("weather"))).count(),
        1
    );
    // The next request with a different answer, and then the last one.
    let first = story.app.cursor(Screen::Replay).selected;
    story.press("nnnnnnnnnn");
    assert!(story.app.cursor(Screen::Replay).selected > first);
    assert!(story.screen().contains("19 °C"), "{}", story.screen());
    story.press("<tab><down><pgdn>G<tab><enter>");
    assert_eq!(story.app.screen, Screen::Detail, "to the recorded request");
    assert_eq!(story.app.selected_message().unwrap().row.number.0, 6);
}

#[test]
fn options_are_those_of_the_command_line() {
    let (_directory, station) = station();
    let mut story = Story::sample("weather", (160, 40));
    story.press(&format!("<enter>:replay -- sh {} 19 false<enter>", station.display()));
    story.press("<tab>--cacert x<enter>").replay();
    let failed = |story: &Story| matches!(&story.app.replays.run.as_ref().unwrap().stage, Stage::Failed(why) if why.contains("--cacert"));
    assert!(failed(&story), "{}", story.screen());
    // The form shows the last options again, as it does for headers.
    story.press("R<tab><ctrl-u>--ignore /content --ignore /structuredContent --calibrate<enter>").replay();
    let run = story.app.replays.run.as_ref().unwrap();
    assert_eq!(run.stage, Stage::Finished, "{}", story.screen());
    let calls: Vec<&RequestState> =
        run.rows.iter().filter(|row| row.label.starts_with("tools/call")).map(|row| &row.state).collect();
    assert!(
        !calls.is_empty() && calls.iter().all(|state| matches!(state, RequestState::Compared(Outcome::Same, _))),
        "{calls:?}"
    );
}

#[test]
fn destructive_tools_need_consent() {
    let (_directory, station) = station();
    let mut story = Story::sample("weather", (100, 32));
    let target = format!("sh {} 17 true", station.display());
    // The sample does not declare the tool destructive, but the new server does. The call is
    // skipped, and the next form asks about it.
    story.press(&format!("<enter>:replay -- {target}<enter><enter>")).replay();
    assert!(story.screen().contains("not sent: get_weather"), "{}", story.screen());
    story.press("R<ctrl-r>");
    assert!(story.submitted.is_empty(), "{}", story.screen());
    story.press("y").replay();
    assert!(
        story.app.replays.run.as_ref().unwrap().rows.iter().all(|row| matches!(row.state, RequestState::Compared(..)))
    );
    // That replay is a recording whose tool is declared destructive.
    story.press("0jj<enter>");
    assert_eq!(story.app.session, Some(SessionNumber(3)));
    story.press(&format!(":replay -- {target}<enter><enter>")).replay();
    // The screen behind the box shows measured times, so only the box is compared.
    let screen: Vec<String> = story.screen().lines().skip(2).take(6).map(str::to_owned).collect();
    insta::assert_snapshot!("replay_asks_100x32", screen.join("\n"));
    story.press("<esc><ctrl-r>").replay();
    story.press("n");
    assert_eq!(story.submitted[0].consent, Consent::SkipDestructive);
    story.replay();
    assert!(story.screen().contains("not sent: get_weather"), "{}", story.screen());
    story.press("R<ctrl-r>").replay().press("y").replay();
    let rows = &story.app.replays.run.as_ref().unwrap().rows;
    assert!(
        rows.iter().all(|row| matches!(row.state, RequestState::Compared(outcome, _) if !outcome.differs())),
        "{rows:?}"
    );
}

#[test]
fn esc_stops_a_replay_whose_server_does_not_answer() {
    let mut story = Story::sample("weather", (100, 32));
    story.press("<enter>:replay -- sh -c 'read line; exec cat >/dev/null'<enter><enter>");
    let submission = story.submitted.pop().unwrap();
    let (go, stop): (Sender<()>, _) = bounded(0);
    let (sender, updates) = unbounded();
    let place = story.place.clone();
    let number = submission.number;
    let runner =
        std::thread::spawn(move || runner::run(&submission, &place, &mut |update| sender.send(update).unwrap(), stop));
    // The first request was sent and is never answered.
    while !story.app.replays.run.as_ref().unwrap().rows.iter().any(|row| row.state == RequestState::Sent) {
        story.take(Input::Replay(number, updates.recv_timeout(PATIENCE).expect("the replay to go on")));
    }
    assert!(story.screen().contains("esc stops the replay"), "{}", story.screen());
    assert_eq!(update(&mut story.app, Input::Key("esc".to_owned())), [Effect::StopReplay]);
    drop(go);
    joined(runner, "the end of the replay");
    updates.iter().for_each(|update| story.take(Input::Replay(number, update)));
    assert!(!story.app.replays.run.as_ref().unwrap().is_going());
    assert!(story.screen().contains("replay"), "{}", story.screen());
}

#[test]
fn impossible_replays_are_explained() {
    let mut story = Story::sample("weather", (100, 32));
    story.press("9");
    assert!(story.screen().contains("nothing was replayed yet"), "{}", story.screen());
    story.press("1jjR");
    assert!(story.screen().contains("not a request of the client"), "a notification: {}", story.screen());
    story.press("<esc>:replay to you<enter>");
    assert!(story.screen().contains("replay takes --to URL or -- COMMAND"), "{}", story.screen());
    story.press("R").to("").press("<enter>");
    assert!(story.screen().contains("no server is given"), "{}", story.screen());
    story.to("/no/such/server").press("<enter>").replay();
    assert!(matches!(story.app.replays.run.as_ref().unwrap().stage, Stage::Failed(_)));
    assert!(story.screen().contains("/no/such/server"), "{}", story.screen());
}
