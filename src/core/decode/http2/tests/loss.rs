//! Gaps, and captures that begin midway.

use super::*;

/// A request with content. Its path is a new entry of the table.
fn post(stream: u32, content: &str) -> Vec<u8> {
    [headers(WHOLE, stream, POST), data(LAST, stream, content)].concat()
}

/// The events of requests without the bytes `from..to`, counted from the end of the preface.
fn hole(frames: &[Vec<u8>], from: usize, to: usize) -> Vec<String> {
    let bytes = frames.concat();
    let (before, behind) = (&bytes[..from], &bytes[to..]);
    let gap = Piece::Gap((to - from) as u64);
    let whole = [Piece::Data(PREFACE), Piece::Data(before), gap, Piece::Data(behind), Piece::End(Ending::Finished)];
    let events = decode_pieces(&whole.map(|piece| (CLIENT, piece)));
    let cut = [PREFACE, before].concat();
    let cut = cut.iter().map(std::slice::from_ref).map(Piece::Data).chain([gap]);
    let cut = cut.chain(behind.iter().map(std::slice::from_ref).map(Piece::Data)).chain([Piece::End(Ending::Finished)]);
    assert_eq!(events, decode_pieces(&cut.map(|piece| (CLIENT, piece)).collect::<Vec<_>>()), "byte by byte");
    events
}

#[test]
fn a_hole_in_content_costs_only_that() {
    let frames = [post(1, "one two three"), headers(WHOLE | LAST, 3, b"\x83\xbe")];
    let start = frames[0].len() - 9;
    let events = hole(&frames, start, start + 4);
    assert_eq!(
        events,
        [
            "1> POST /mcp",
            "1> 'one '",
            "1> gap Some(4)",
            "1> 'three'",
            "1> broken off (Finished)",
            "3> POST /mcp",
            "3> end"
        ]
    );
}

#[test]
fn a_hole_in_a_head_costs_the_table() {
    // The gap is in the value of a literal. The end of the block is known, its addition to the
    // table is not.
    let frames =
        [headers(WHOLE | LAST, 1, POST), headers(WHOLE | LAST, 3, b"\x83\xbe"), headers(WHOLE | LAST, 5, POST)];
    let events = hole(&frames, 12, 14);
    assert_eq!(
        events[0],
        format!("secret ClientToServer {}..{} 2a", PREFACE.len() + 9, PREFACE.len() + 9 + POST.len())
    );
    assert_eq!(events[1], "3> POST ", "the path is not known");
    assert!(events[2].starts_with("UnknownFields"), "{events:?}");
    assert_eq!(events[3..], ["3> end", "5> POST /mcp", "5> end"]);
}

#[test]
fn content_whose_head_was_lost_is_emitted() {
    let frames = [post(1, "first"), post(3, "{\"id\":3}"), headers(WHOLE | LAST, 5, POST)];
    let head = frames[0].len() + 9;
    for (from, to) in [(head + 3, head + 5), (head + 3, head + POST.len()), (frames[0].len(), head + POST.len())] {
        let events = hole(&frames, from, to);
        let of_3: Vec<&String> = events.iter().filter(|line| line.starts_with("3>")).collect();
        assert_eq!(of_3, ["3>  ", "3> '{\"id\":3}'", "3> end"], "without {from} to {to}");
        assert!(events.ends_with(&["5> POST /mcp".into(), "5> end".into()]), "{events:?}");
    }
}

#[test]
fn behind_a_hole_over_frames_they_are_found_again() {
    let frames = [post(1, "first"), data(0, 3, "unseen"), post(5, "{\"id\":5}"), post(7, "{\"id\":7}")];
    let bytes = frames.concat();
    // From the content of the first frame to anywhere in the second.
    let (from, to) = (frames[0].len() - 2, frames[0].len() + 11);
    let events = hole(&frames, from, to);
    assert_eq!(events[..3], ["1> POST /mcp", "1> 'fir'", "1> gap None"]);
    let rest = frames[0].len() + frames[1].len() - to;
    assert!(events[3].starts_with("Skipped") && events[3].ends_with(&format!("length: {rest} }}")), "{}", events[3]);
    assert_eq!(events[4..7], ["5> POST /mcp", "5> '{\"id\":5}'", "5> end"]);
    assert_eq!(events[7..10], ["7> POST /mcp", "7> '{\"id\":7}'", "7> end"]);
    assert_eq!(events[10..], ["1> broken off (Finished)"]);
    // The last frame alone is accepted where it ends with the stream.
    let events = hole(&frames[..3], from, bytes.len() - post(7, "{\"id\":7}").len() - data(0, 5, "{\"id\":5}").len());
    assert!(events.iter().any(|line| line.starts_with("Skipped") || line.contains("gap None")), "{events:?}");
}

#[test]
fn a_capture_that_begins_in_the_middle_invents_no_field() {
    let server = [headers(WHOLE, 7, b"\x88\xbe\xc0\x5f\x10application/json"), data(LAST, 7, "{}")].concat();
    let events =
        decode_pieces(&[(SERVER, Piece::Data(&server)), (SERVER, Piece::Data(&headers(WHOLE | LAST, 9, b"\x88\xbe")))]);
    assert_eq!(events[0], "7< 200 content-type=application/json");
    assert!(events[1].starts_with("ResponseWithoutRequest") && events[2].ends_with("count: 2 }"), "{events:?}");
    assert_eq!(events[3..6], ["7< '{}'", "7< end", "9< 200 content-type=application/json"]);
}

#[test]
fn text_is_searched_and_not_believed() {
    let text = "PRI is no preface, and this is no frame".repeat(10);
    let events = decode_pieces(&[(CLIENT, Piece::Data(text.as_bytes())), (CLIENT, Piece::End(Ending::Finished))]);
    assert!(events[0].starts_with("NotHttp"), "{events:?}");
    assert_eq!(events[1..], [format!("Skipped {{ offset: 0, length: {} }}", text.len())]);
}
