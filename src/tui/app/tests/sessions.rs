//! The list of sessions: search over all of them, order, and what folds away.

use super::hostile::wrapped_into;
use super::*;
use crate::capture::pipe::Pipe;

/// A database with three recordings: an error, a call without an answer, and a tool error; and
/// one without messages.
fn recordings() -> DatabaseFile {
    let place = DatabaseFile::temporary().unwrap();
    let call = |id: u32, tool: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{{}}}}}}\n"
        )
    };
    let error = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"no such city\"}}\n";
    let tool_error = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[],\"isError\":true}}\n";
    let ok = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[]}}\n";
    let (weather, add, files) = (call(1, "weather"), call(2, "add"), call(1, "files"));
    let (stdin, stdout) = (Pipe::Stdin, Pipe::Stdout);
    wrapped_into(&place, &[(stdin, &weather), (stdout, error), (stdin, &add), (stdout, ok)], false);
    wrapped_into(&place, &[(stdin, &weather)], false);
    wrapped_into(&place, &[(stdin, &files), (stdout, tool_error)], false);
    wrapped_into(&place, &[], false);
    place
}

fn listed(story: &Story) -> Vec<u32> {
    (0..story.app.rows(Screen::Sessions).unwrap())
        .map(|row| story.app.listed_session(row).unwrap().session.number.0)
        .collect()
}

/// As a database is shown.
fn story(size: (u16, u16)) -> Story {
    let mut story = Story::store(recordings(), size);
    story.app.database = Some(PathBuf::from("mcptap.db"));
    story.take(Input::StoreChanged);
    story.take(Input::Tick(Time(1)));
    story
}

#[test]
fn all_sessions_are_searched_and_the_one_opened_shows_what_was_found() {
    let mut story = story((80, 24));
    story.press("/tool = weather<enter>");
    assert_eq!((story.app.screen, listed(&story)), (Screen::Sessions, vec![1, 2]));
    insta::assert_snapshot!("sessions_searched_80x24", story.screen());
    story.press("j<enter>");
    assert_eq!((story.app.screen, story.app.session), (Screen::Messages, Some(SessionNumber(2))));
    assert_eq!((story.app.filter.as_str(), story.app.message_count()), ("tool = weather", Some((1, true))));
    // Esc clears the filter of the messages, then goes back to what was found, then clears that.
    story.press("<esc>");
    assert_eq!((story.app.screen, story.app.filter.as_str()), (Screen::Messages, ""));
    story.press("<esc>");
    assert_eq!((story.app.screen, listed(&story)), (Screen::Sessions, vec![1, 2]));
    // Full text. The line begins with the filter before.
    story.press("/<ctrl-u>\"no such city\"<enter>");
    assert_eq!(listed(&story), [1]);
    story.press("/<ctrl-u>tool = nothing<enter>");
    assert_eq!(listed(&story), [0; 0]);
    assert!(story.screen().contains("no session has a message that matches"), "{}", story.screen());
    story.press("<esc>");
    assert_eq!(listed(&story), [1, 2, 3]);
}

#[test]
fn sessions_are_sorted_and_empty_ones_fold_away() {
    let mut story = story((80, 24));
    insta::assert_snapshot!("sessions_of_a_database_80x24", story.screen());
    story.press("A");
    assert_eq!(listed(&story), [1, 2, 3, 4]);
    story.press("A:sort fail<enter>");
    assert_eq!(listed(&story), [3, 1, 2], "most failures first, then the latest");
    story.press("s");
    assert_eq!(listed(&story)[0], 2, "a request without an answer");
    // The selection stays on its session.
    let chosen = story.app.session;
    story.press(":sort number<enter>");
    assert_eq!(story.app.session, chosen);
    // Tool errors count as failures.
    let failed = |row: usize| story.app.listed_session(row).unwrap().session.outcomes.failed();
    assert_eq!([failed(0), failed(1), failed(2)], [1, 0, 1]);
}
