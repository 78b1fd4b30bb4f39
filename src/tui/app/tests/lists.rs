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
