//! One message: three panes that move each other.

use super::*;
use crate::tui::data::TEXT;

/// Opens the answer of `tools/call`: an event in a chunked response.
fn answer(size: (u16, u16)) -> Story {
    let mut story = Story::sample("weather", size);
    story.press("<enter>G<enter>");
    story
}

#[test]
fn a_message_at_both_sizes() {
    for (size, at) in [((80, 24), "80x24"), ((160, 48), "160x48")] {
        let mut story = answer(size);
        insta::assert_snapshot!(format!("message_{at}"), story.screen());
        story.press("<tab>g<enter>");
        insta::assert_snapshot!(format!("message_link_{at}"), story.screen());
    }
}

#[test]
fn a_json_field_points_at_its_bytes_in_the_packet() {
    let mut story = answer((160, 48));
    // The Ethernet header is selected first, so the packet's bytes are shown. Then the search goes
    // to the text.
    story.press("<tab>g<tab>/Quito<enter>");
    let detail = selected_detail(&story.app).unwrap();
    let view = &story.app.detail;
    assert!(detail.sources[view.source].packet.is_some(), "the packet stays in view");
    let [range] = view.linked.as_slice() else { panic!("one place: {:?}", view.linked) };
    assert_eq!(&detail.sources[view.source].bytes[range.clone()], b"Quito");
    assert_eq!(view.tree.path(detail.text(), view.json.selected), "$.result.content[0].text");
    insta::assert_snapshot!("message_found_160x48", story.screen());
}

#[test]
fn a_byte_of_the_packet_finds_its_field() {
    let mut story = answer((160, 48));
    story.press("<tab>g<tab><tab>");
    assert_eq!(story.app.detail.focus, Focus::Bytes);
    // The last byte of the text is its closing brace, so it selects the whole object.
    let detail = selected_detail(&story.app).unwrap();
    let source = story.app.detail.source;
    let place = detail.ranges_in(&(0..detail.text().len()), source);
    let end = place.last().unwrap().end;
    story.press("g");
    for _ in 0..(end - 2) / 16 {
        story.press("j");
    }
    for _ in 0..(end - 2) % 16 {
        story.press("l");
    }
    let view = &story.app.detail;
    assert_eq!(view.byte.offset, end - 2);
    assert_eq!(detail.text_at(source, view.byte.offset), Some(detail.text().len() - 2));
    assert_eq!(view.tree.path(detail.text(), view.json.selected), "$.result");
    // A byte of a header selects its layer.
    story.press("gl");
    let layer = story.app.detail.layers.selected().unwrap();
    assert_eq!(detail.nodes[layer].name, "Ethernet II");
}

#[test]
fn every_byte_of_every_message_is_in_the_packet_that_is_shown_for_it() {
    let mut story = Story::sample("weather", (100, 40));
    story.press("<enter><enter>");
    for _ in 0..7 {
        let detail = selected_detail(&story.app).unwrap();
        let text = detail.text();
        assert!(!detail.carried.is_empty());
        for run in &detail.carried {
            let bytes = &detail.sources[run.source].bytes[run.at..run.at + run.text.len()];
            assert_eq!(bytes, &text[run.text.clone()], "{}", detail.sources[run.source].title);
        }
        let carried: usize = (0..text.len()).filter(|at| !detail.packets(&(*at..at + 1)).is_empty()).count();
        assert_eq!(carried, text.len());
        for node in &detail.nodes {
            if let Some((source, range)) = &node.location {
                assert!(range.end <= detail.sources[*source].bytes.len(), "{node:?}");
            }
        }
        assert_eq!(detail.sources[TEXT].bytes, text);
        story.press(".");
    }
}

#[test]
fn partner_marks_and_copies() {
    let mut story = answer((120, 40));
    story.press("p");
    assert_eq!(story.app.cursor(Screen::Messages).selected, 5);
    story.press("mgp'");
    assert_eq!(story.app.cursor(Screen::Messages).selected, 5, "the mark is found again");
    story.press("yu<tab><tab>/city<enter>Yv");
    let [message, curl, path, value] = story.copied.as_slice() else { panic!("{:?}", story.copied) };
    assert!(message.starts_with("{\"method\":\"tools/call\""), "{message}");
    assert!(
        curl.starts_with("curl -sS -N -X 'POST' 'http://127.0.0.1:") && curl.contains("--data-raw '{\"method\""),
        "{curl}"
    );
    assert_eq!((path.as_str(), value.as_str()), ("$.params.arguments.city", "Quito"));
}

#[test]
fn the_selected_layer_stays_selected_when_more_room_unfolds_others() {
    let mut story = Story::sample("weather", (160, 48));
    let selected = |story: &Story| {
        let detail = selected_detail(&story.app).unwrap();
        detail.nodes[story.app.detail.layers.selected().unwrap()].name.clone()
    };
    story.press("<enter>G");
    let (below, rows) = (selected(&story), story.app.detail.layers.len());
    story.press("<enter>");
    assert!(story.app.detail.layers.len() > rows, "there is more room");
    assert_eq!(selected(&story), below);
    story.take(Input::Resize(80, 24));
    assert_eq!(selected(&story), below);
}

#[test]
fn tls_records_are_shown_as_bytes() {
    let mut story = Story::sample("tls", (160, 48));
    story.press("<enter>jj<enter><tab>g");
    let layer = |story: &Story| {
        let detail = selected_detail(&story.app).unwrap();
        detail.nodes[story.app.detail.layers.selected().unwrap()].name.clone()
    };
    while !layer(&story).starts_with("TLS") {
        story.press("j");
    }
    let detail = selected_detail(&story.app).unwrap();
    let source = &detail.sources[story.app.detail.source];
    assert_eq!(source.title, format!("{}, records", layer(&story)));
    // RFC 8446, section 5.1: application data and its length.
    let [0x17, 3, 3, high, low, ..] = source.bytes[..] else { panic!("no record: {:02x?}", source.bytes) };
    assert_eq!(source.bytes.len(), 5 + usize::from(u16::from_be_bytes([high, low])));
    // The text was derived from the record as a whole.
    let [place] = &detail.ranges_in(&(0..4), story.app.detail.source)[..] else { panic!("one place") };
    assert_eq!(*place, 0..source.bytes.len());
}
