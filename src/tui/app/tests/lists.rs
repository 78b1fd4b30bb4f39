//! The lists, at the smallest and at a comfortable size.

use super::*;

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
fn a_filter_is_written_completed_and_dropped() {
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
fn a_wrong_filter_says_where() {
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
    assert_eq!((story.app.theme, story.app.cursor(Screen::Messages).selected), (Theme::Light, 4));
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
