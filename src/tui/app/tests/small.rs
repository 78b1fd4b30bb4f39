//! Small screens, notices, and the help.

use super::*;

#[test]
fn every_screen_is_usable_at_40x12() {
    let mut story = Story::sample("weather", (40, 12));
    insta::assert_snapshot!("small_sessions", story.screen());
    for (keys, name) in [("1", "messages"), ("2", "sequence"), ("3", "layers"), ("5", "statistics"), ("7", "tools")] {
        story.press(keys);
        insta::assert_snapshot!(format!("small_{name}"), story.screen());
    }
    story.press("1G<enter>");
    insta::assert_snapshot!("small_message", story.screen());
    // Tab goes through the panes, one at a time.
    for pane in [Focus::Layers, Focus::Json, Focus::Bytes, Focus::List] {
        story.press("<tab>");
        assert_eq!(story.app.detail.focus, pane);
        if pane == Focus::Bytes {
            insta::assert_snapshot!("small_bytes", story.screen());
        }
    }
}

#[test]
fn the_tab_that_is_on_is_named_and_has_another_background() {
    for size in [(80, 24), (40, 12)] {
        let mut story = Story::sample("weather", size);
        for (key, name) in [
            ("0", "sessions"),
            ("1", "messages"),
            ("2", "sequence"),
            ("3", "layers"),
            ("4", "findings"),
            ("5", "stats"),
            ("6", "packets"),
            ("7", "tools"),
            ("8", "stderr"),
        ] {
            story.press(key);
            let buffer = story.buffer();
            let is_on = |x: &u16| buffer[(*x, 1)].modifier.contains(ratatui::style::Modifier::REVERSED);
            let shown: String = (0..size.0).filter(is_on).map(|x| buffer[(x, 1)].symbol().to_owned()).collect();
            assert_eq!(shown, format!("{key} {name}"), "{size:?}");
        }
    }
}

#[test]
fn notices_leave_by_themselves() {
    const SECOND: i64 = 1_000_000_000;
    let mut story = Story::sample("weather", (80, 24));
    story.press("1F");
    assert!(story.screen().contains("following the newest message"));
    story.take(Input::Tick(Time(3 * SECOND)));
    assert!(story.app.notice.is_some());
    story.take(Input::Tick(Time(5 * SECOND)));
    assert_eq!(story.app.notice, None);
    story.press(":nonsense<enter>");
    story.take(Input::Tick(Time(10 * SECOND)));
    assert!(story.app.notice.is_some(), "an error stays longer");
    story.take(Input::Tick(Time(16 * SECOND)));
    assert_eq!(story.app.notice, None);
    // An error in a line that is being edited stays until it is corrected.
    story.press("/metod = x<enter>");
    story.take(Input::Tick(Time(60 * SECOND)));
    assert!(story.app.notice.is_some());
}

#[test]
fn a_theme_is_remembered_and_forgotten() {
    let mut story = Story::sample("weather", (80, 24));
    story.press("t");
    assert_eq!(story.remembered, Some(Some(Theme::Dark)));
    story.press(":theme light<enter>");
    assert_eq!((story.app.palette.theme, story.remembered), (Theme::Light, Some(Some(Theme::Light))));
    story.press(":theme auto<enter>");
    assert_eq!((story.app.palette.theme, story.remembered), (Theme::Light, Some(None)));
}

#[test]
fn the_bytes_are_calm_until_a_field_is_chosen() {
    let mut story = Story::sample("weather", (160, 48));
    story.press("<enter>G");
    assert!(story.app.detail.linked.is_empty(), "below the list");
    story.press("<enter>");
    assert!(story.app.detail.linked.is_empty(), "opened");
    story.press("<tab><tab>j");
    assert_eq!(story.app.detail.focus, Focus::Json);
    assert!(!story.app.detail.linked.is_empty(), "a field was chosen");
    story.press("<esc>k");
    assert!(story.app.detail.linked.is_empty(), "another message");
}

#[test]
fn the_help_explains_every_sign_of_the_notes_and_outcomes() {
    let mut story = Story::sample("weather", (80, 24));
    story.press("?");
    let mut seen = String::new();
    for _ in 0..20 {
        seen += &story.screen();
        story.press("<pgdn>");
    }
    for sign in ["┊", "■", "×", "↪", "◌", "✗", "⊘", "∅", "↻", "◆", "⇢", "⇠", "┏", "≠", "●"]
    {
        assert!(seen.contains(sign), "{sign}");
    }
    assert!(!seen.contains('…') || seen.matches('…').count() < 60, "no line is cut");
}
