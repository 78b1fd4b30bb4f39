//! The totals of a capture are the same in every view.

use crate::decoded::{captures, name};
use crate::program::{data, mcptap};
use crate::support::waits::Finishes;

/// The last line that a command prints for a capture.
fn last_line(command: &str, arguments: &[&str], path: &std::path::Path) -> String {
    let done = mcptap().arg(command).arg(path).args(arguments).finished();
    let output = String::from_utf8(done.stdout).expect("UTF-8");
    output.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn read_and_show_count_the_same() {
    let mut compared = 0;
    for path in captures() {
        let (read, show) = (last_line("read", &[], &path), last_line("show", &[], &path));
        // Without a session, `show` prints nothing and `read` explains why.
        if !read.starts_with("no MCP in ") {
            assert_eq!(read, show, "{}", name(&path));
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared} captures have sessions");
}

#[test]
fn a_filter_that_matches_nothing_is_no_lack_of_messages() {
    let path = data("cases/refused_get.pcap");
    let line = last_line("read", &["--filter", "tool = nothing_like_it"], &path);
    assert_eq!(line, "the filter matches none of 13 messages");
}
