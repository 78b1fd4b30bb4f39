//! Batches: many messages in one text, folded into one row.

use super::hostile::wrapped;
use super::*;
use crate::capture::pipe::Pipe;

/// Two batches with a ping between them. The first one is answered in one batch too.
const BATCHES: &[(Pipe, &str)] = &[
    (
        Pipe::Stdin,
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/list\"},\
          {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/list\"}]\n",
    ),
    (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"}\n"),
    (
        Pipe::Stdout,
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}},{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"prompts\":[]}}]\n",
    ),
    (Pipe::Stdout, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n"),
];

fn methods(story: &Story) -> Vec<(Option<String>, usize)> {
    let rows = story.app.rows(Screen::Messages).unwrap();
    // Notes between the messages are no messages.
    let row = |row| {
        let hidden = story.app.folds.hidden_count(story.app.folds.list_row(row));
        Some((story.app.message(row)?.row.method.clone(), hidden))
    };
    (0..rows).filter_map(row).collect()
}

#[test]
fn a_batch_folds_into_its_first_row_and_unfolds_for_a_partner() {
    let mut story = Story::store(wrapped(BATCHES, false), (110, 16));
    story.press("1jz");
    insta::assert_snapshot!("batch_folded_110x16", story.screen());
    assert_eq!(story.app.cursor(Screen::Messages).selected, 0, "the row that represents the group");
    assert_eq!(methods(&story).len(), 5);
    // A hidden message still has its number and its partner.
    story.press("jjjp");
    assert_eq!(methods(&story).len(), 7, "a partner in the fold unfolds it");
    assert_eq!(story.app.selected_message().unwrap().row.number, MessageNumber(2));
}

#[test]
fn all_batches_fold_at_once_also_in_a_filtered_list() {
    let mut story = Story::store(wrapped(BATCHES, false), (110, 16));
    story.press("1Z");
    let text = |name: &str| Some(name.to_owned());
    assert_eq!(
        methods(&story),
        [(text("tools/list"), 2), (text("ping"), 0), (text("tools/list"), 1), (text("ping"), 0)]
    );
    story.press("Z");
    assert_eq!(methods(&story).len(), 7);
    story.press("/not method = prompts/list<enter>Z");
    // One answer is left, and one message is no group.
    assert_eq!(methods(&story)[0], (text("tools/list"), 1));
    assert_eq!(methods(&story).len(), 4);
    story.press("G<enter>");
    assert_eq!(story.app.detail.tree.path(b"{}", 0), "$");
    assert_eq!(story.app.selected_message().unwrap().row.number, MessageNumber(7));
    story.press("<esc>jz");
    assert!(story.app.notice.as_ref().is_some_and(|notice| notice.text.contains("nothing to fold")));
}

/// A list in two pages, and a ping between them.
const PAGES: &[(Pipe, &str)] = &[
    (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n"),
    (Pipe::Stdout, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[],\"nextCursor\":\"p2\"}}\n"),
    (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n"),
    (Pipe::Stdout, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n"),
    (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":{\"cursor\":\"p2\"}}\n"),
    (Pipe::Stdout, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"tools\":[]}}\n"),
];

#[test]
fn the_pages_of_a_list_fold_into_its_first_request() {
    let mut story = Story::store(wrapped(PAGES, false), (110, 16));
    let text = |name: &str| Some(name.to_owned());
    story.press("1Gz");
    assert_eq!(methods(&story), [(text("tools/list"), 3), (text("ping"), 0), (text("ping"), 0)]);
    story.press("Z");
    assert!(story.screen().contains("↳1 next page  from p2"), "{}", story.screen());
    story.press("Z");
    assert_eq!(methods(&story)[0], (text("tools/list"), 3));
    story.press("Z/operation = 1 and kind = request<enter>Z");
    assert_eq!(methods(&story), [(text("tools/list"), 1)]);
}
