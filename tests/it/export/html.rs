//! `export --format html`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{exported, lines};
use crate::program::root;

/// The values of an attribute.
fn values<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
    let begin = format!(" {attribute}=\"");
    page.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect()
}

fn sample(name: &str) -> PathBuf {
    root().join("samples").join(name)
}

/// Checks the page of a capture: every message appears once, and no link is broken or leads
/// out of the page.
fn check_page(capture: &Path) {
    let page = exported(capture, "html", &[]);
    let places = values(&page, "id");
    let known: HashSet<&str> = places.iter().copied().collect();
    assert_eq!(known.len(), places.len(), "{}: a place twice", capture.display());
    for link in values(&page, "href") {
        let place = link.strip_prefix('#').expect("links stay on the page");
        assert!(known.contains(place), "{}: {link} leads nowhere", capture.display());
    }
    for message in lines(capture, "message", &[]) {
        let place = format!("m{}-{}", message["session"], message["number"]);
        assert!(known.contains(place.as_str()), "{}: {place} is missing", capture.display());
    }
    for outside in [" src=", "url(", "@import", "<script", "<link", "\"refresh", " style="] {
        assert!(!page.contains(outside), "{}: {outside}", capture.display());
    }
}

#[test]
fn a_page_holds_everything_and_fetches_nothing() {
    for name in
        ["weather/capture.pcapng", "helpdesk/capture.pcapng", "polluted-stdout/stdio.pcapng", "tls/capture.pcapng"]
    {
        check_page(&sample(name));
    }
}

#[test]
fn a_filter_is_shown_and_no_link_is_broken() {
    let page = exported(&sample("weather/capture.pcapng"), "html", &["--filter", "method = tools/call"]);
    assert!(page.contains("only messages that match <code>method = tools/call</code>"));
    assert_eq!(values(&page, "id").iter().filter(|place| place.starts_with('m')).count(), 2);
    assert!(!values(&page, "href").iter().any(|link| link.starts_with("#m")));
}
