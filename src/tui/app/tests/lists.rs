//! The lists, at the smallest size and at a comfortable one.

use super::*;
use crate::event::Event;
use crate::findings::{self, Finding};
use crate::store::{CaptureInfo, CaptureKind, Summary, WriteOptions, Writer};

#[test]
fn every_screen_of_a_session() {
    for (size, at) in [((80, 24), "80x24"), ((160, 48), "160x48")] {
        let mut story = Story::sample("weather", size);
        insta::assert_snapshot!(format!("sessions_{at}"), story.screen());
        for (key, name) in [
            ("1", "messages"),
            ("2", "sequence"),
            ("3", "layers"),
            ("4", "findings"),
            ("5", "statistics"),
            ("6", "packets"),
            ("7", "tools"),
            ("8", "stderr"),
        ] {
            story.press(key);
            insta::assert_snapshot!(format!("{name}_{at}"), story.screen());
        }
        story.press("?");
        insta::assert_snapshot!(format!("help_{at}"), story.screen());
    }
}

/// A store without a session, with at most one finding.
fn without_session(found: Option<Finding>) -> DatabaseFile {
    let place = DatabaseFile::temporary().unwrap();
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "nothing".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    found.into_iter().for_each(|finding| writer.event(Event::Finding(Box::new(finding))));
    writer.finish(&Summary::default()).unwrap();
    place
}

#[test]
fn without_a_session_the_screen_shows_how_to_get_one() {
    let mut story = Story::store(without_session(None), (80, 24));
    insta::assert_snapshot!("no_session_80x24", story.screen());
    story.app.database = Some(PathBuf::from("/home/laura/.local/share/mcptap/mcptap.db"));
    insta::assert_snapshot!("welcome_80x24", story.screen());
    story.take(Input::Progress(Progress::Reading(1, Some(2))));
    assert!(story.screen().contains("as soon as they are seen"));
}

#[test]
fn findings_explain_why_there_is_no_session() {
    let rule = findings::rule("tls-no-secrets").unwrap();
    let text = "each of 3 TLS connections is encrypted and no secrets for it are at hand".to_owned();
    let story = Story::store(without_session(Some(Finding { text, ..Finding::of(rule) })), (80, 24));
    insta::assert_snapshot!("encrypted_80x24", story.screen());
}

#[test]
fn a_long_list_has_a_scroll_bar() {
    let mut story = Story::sample("weather", (80, 24));
    let bar = |story: &Story| -> String {
        story.screen().lines().filter_map(|line| line.chars().last()).skip(3).take(20).collect()
    };
    story.press("<enter>");
    assert!(!bar(&story).contains('█'), "all of it is in view");
    story.press("3");
    assert!(bar(&story).starts_with('█') && bar(&story).ends_with('│'));
    story.press("j");
    assert!(bar(&story).starts_with('█'), "the cursor moved, the view did not");
    story.press("G");
    assert!(bar(&story).starts_with('│') && bar(&story).ends_with('█'));
}

#[test]
fn findings_with_the_manual_of_their_rule() {
    for (size, at) in [((80, 24), "80x24"), ((160, 48), "160x48")] {
        let mut story = Story::sample("helpdesk", size);
        story.press("<enter>4j");
        insta::assert_snapshot!(format!("findings_made_{at}"), story.screen());
        story.press("<enter>");
        assert_eq!(story.app.screen, Screen::Detail);
    }
}

#[test]
fn all_servers_of_a_host_side_by_side() {
    for (size, at) in [((80, 24), "80x24"), ((160, 48), "160x48")] {
        let mut story = Story::sample("helpdesk", size);
        story.press("<enter>2a");
        insta::assert_snapshot!(format!("together_{at}"), story.screen());
    }
    let mut story = Story::sample("helpdesk", (100, 30));
    story.press("<enter>2aGp");
    let line = story.app.selected_message().unwrap();
    let (session, number) = (line.row.session, line.row.number);
    story.press("<enter>");
    assert_eq!((story.app.screen, story.app.session), (Screen::Detail, Some(session)));
    assert_eq!(story.app.selected_message().unwrap().row.number, number);
}

#[test]
fn a_filter_is_written_completed_and_cleared() {
    let mut story = Story::sample("weather", (80, 24));
    story.press("<enter>/tool = get_w");
    insta::assert_snapshot!("filter_written_80x24", story.screen());
    story.press("eather<enter>");
    insta::assert_snapshot!("filter_on_80x24", story.screen());
    assert_eq!(story.app.message_count(), Some((2, true)));
    story.press("<esc>");
    assert_eq!(story.app.message_count(), Some((7, true)));
}

#[test]
fn an_error_in_a_filter_shows_its_column() {
    let mut story = Story::sample("weather", (80, 24));
    story.press("1/metod = x<enter>");
    let screen = story.screen();
    insta::assert_snapshot!("filter_wrong_80x24", screen);
    assert!(matches!(story.app.mode, Mode::Prompt(Prompt::Filter, _)), "it can be corrected");
}

#[test]
fn commands() {
    let mut story = Story::sample("weather", (80, 24));
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("messages.jsonl");
    story.press("1:theme light<enter>:goto 5<enter>");
    assert_eq!((story.app.palette.theme, story.app.cursor(Screen::Messages).selected), (Theme::Light, 4));
    story.press(&format!("/kind = request<enter>:export {}<enter>", path.display()));
    assert_eq!(story.app.notice.as_ref().map(|notice| notice.failed), Some(false), "{:?}", story.app.notice);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    story.press(":nonsense<enter>");
    assert!(story.app.notice.as_ref().is_some_and(|notice| notice.failed));
    story.press(":q<enter>");
    assert!(story.ended);
}

#[test]
fn every_key_on_every_screen_at_every_size_is_harmless() {
    for size in [(80, 24), (160, 48), (300, 100), (40, 10), (20, 5), (1, 1)] {
        let mut story = Story::sample("weather", (80, 24));
        story.take(Input::Resize(size.0, size.1));
        for screen in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "1<enter>"] {
            for binding in keys::KEYS {
                for key in binding.keys.iter().filter(|key| !matches!(**key, "q" | "ctrl-c")) {
                    story.press(screen);
                    story.take(Input::Key((*key).to_owned()));
                    story.take(Input::Key("esc".to_owned()));
                }
            }
            story.buffer();
        }
        assert!(!story.ended);
    }
}
