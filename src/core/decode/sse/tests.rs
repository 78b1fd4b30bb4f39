use proptest::prelude::*;

use super::super::Ending;
use super::*;

const END: Piece<'_> = Piece::End(Ending::Finished);

/// The output for `pieces`, one text for each event or anomaly: `start..end kind #id
/// retry data [parts]`.
fn events(limits: Limits, pieces: &[Piece<'_>]) -> Vec<String> {
    let mut decoder = Sse::new(limits);
    let mut seen = Vec::new();
    for piece in pieces {
        decoder.push(*piece, &mut |event| {
            seen.push(match event {
                SseEvent::Event(Event { start, end, kind, id, sets_id, retry, data, parts, comments, is_certain }) => {
                    let data = data.map(String::from_utf8_lossy);
                    let parts: Vec<_> = parts.iter().map(|part| format!("{}-{}", part.start, part.end)).collect();
                    let words = [
                        Some(format!("{start}..{end}")),
                        kind.map(str::to_owned),
                        id.map(|id| format!("#{id}{}", if sets_id { "!" } else { "" })),
                        retry.map(|retry| format!("retry={retry}")),
                        data.map(|data| format!("{data:?}")),
                        Some(parts.join(",")).filter(|parts| !parts.is_empty()),
                        (comments > 0).then(|| format!("comments={comments}")),
                        (!is_certain).then(|| "torn".to_owned()),
                    ];
                    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
                }
                SseEvent::Anomaly(Anomaly::Skipped { offset, length }) => format!("skipped {offset}+{length}"),
                SseEvent::Anomaly(anomaly) => format!("{anomaly:?}"),
            });
        });
    }
    seen
}

/// Compares the output for a body, whole and byte by byte.
#[track_caller]
fn check(body: &str, expected: &[&str]) {
    assert_eq!(events(Limits::default(), &[Piece::Data(body.as_bytes()), END]), expected, "whole");
    let bytes: Vec<_> = body.as_bytes().chunks(1).map(Piece::Data).chain([END]).collect();
    assert_eq!(events(Limits::default(), &bytes), expected, "byte by byte");
}

#[test]
fn an_mcp_stream() {
    check(
        "id: 1\nretry: 500\ndata:\n\n: keepalive\n\nevent: message\nid: 2\ndata: {\"id\":1}\n\nevent: endpoint\ndata: /m?s=1\n\n",
        &[
            "0..24 #1! retry=500 \"\"",
            "37..74 #2! \"{\\\"id\\\":1}\" 64-72 comments=1",
            "74..104 endpoint #2 \"/m?s=1\" 96-102",
        ],
    );
}

#[test]
fn line_ends_of_three_kinds() {
    check("data: a\n\ndata: b\n\n", &["0..9 \"a\" 6-7", "9..18 \"b\" 15-16"]);
    check("data: a\r\rdata: b\r\r", &["0..9 \"a\" 6-7", "9..18 \"b\" 15-16"]);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &["0..10 \"a\" 6-7", "11..21 \"b\" 17-18"]);
    check("data: a\r\n\ndata: b\r\r\n", &["0..10 \"a\" 6-7", "10..19 \"b\" 16-17"]);
}

#[test]
fn lines_of_data_are_joined() {
    check("data: a\ndata\ndata:  b\n\n", &["0..23 \"a\\n\\n b\" 6-7,7-8,12-13,19-21"]);
    check("data: a\r\n: c\r\ndata: b\r\n\r\n", &["0..24 \"a\\nb\" 6-7,8-9,20-21 comments=1"]);
    check("data: a\rdata: b\r\r", &["0..17 \"a\\nb\" 6-7,7-8,14-15"]);
}

#[test]
fn fields_follow_the_standard() {
    check("\u{feff}data: bom\n\n", &["0..14 \"bom\" 9-12"]);
    check("\u{feff}\ndata: x\n\n", &["4..13 \"x\" 10-11"]);
    check("id: \u{feff}\n\u{feff}data: x\n\n", &["0..20 #\u{feff}!"]);
    check("data:x\ndatum: y\nDATA: z\n\n", &["0..25 \"x\" 5-6"]);
    check(
        "id: 7\ndata\n\nid: 8\0\ndata\n\nid\ndata\n\ndata\n\n",
        &["0..12 #7! \"\"", "12..25 #7 \"\"", "25..34 \"\"", "34..40 \"\""],
    );
    check("retry: 12\n\nretry: 1x\n\nretry:\n\nretry: 99999999999999999999\n\n", &["0..11 retry=12"]);
    check("event: ping\n\nevent: message\n\nevent\ndata\n\n", &["0..13 ping", "13..29", "29..41 \"\""]);
    check(": only\n: comments\n\n\n\nfoo: bar\n\n", &[]);
    check(":\ndata: x\n\n", &["0..11 \"x\" 8-9 comments=1"]);
}

#[test]
fn an_event_ends_with_the_byte_that_ends_its_blank_line() {
    let mut decoder = Sse::new(Limits::default());
    let mut count = 0;
    for (piece, expected) in [("data: a\r\n", 0), ("\r", 1), ("\n", 1), ("data: b\n", 1), ("\n", 2)] {
        decoder.push(Piece::Data(piece.as_bytes()), &mut |event| {
            count += usize::from(matches!(event, SseEvent::Event(_)))
        });
        assert_eq!(count, expected, "{piece:?}");
    }
    assert_eq!(decoder.low_water(), 20);
    decoder.push(Piece::Data(b"data: c\nda"), &mut |_| {});
    assert_eq!(decoder.low_water(), 20, "the open event is not done with");
}

#[test]
fn data_in_one_piece_is_not_copied() {
    let body = b"event: x\ndata: borrowed\n\n";
    let mut decoder = Sse::new(Limits::default());
    decoder.push(Piece::Data(body), &mut |event| {
        let SseEvent::Event(Event { data: Some(data), .. }) = event else { panic!("{event:?}") };
        assert!(body.as_ptr_range().contains(&data.as_ptr()));
    });
}

#[test]
fn an_unfinished_event_is_reported_as_skipped() {
    check("data: a\n\ndata: b\n", &["0..9 \"a\" 6-7", "skipped 9+8"]);
    check("data: a\n\ndat", &["0..9 \"a\" 6-7", "skipped 9+3"]);
    check("data: a\n\n: ping\n", &["0..9 \"a\" 6-7"]);
}

#[test]
fn an_event_behind_a_gap_is_not_certain() {
    let pieces = [Piece::Data(b"data: a\nda"), Piece::Gap(5), Piece::Data(b"\ndata: b\n\ndata: c\n\n"), END];
    assert_eq!(events(Limits::default(), &pieces), ["skipped 0+10", "15..25 \"b\" 22-23 torn", "25..34 \"c\" 31-32"]);
    let pieces = [Piece::Gap(5), Piece::Data(b"ta: b\n: c\n\ndata: c\n\n"), END];
    assert_eq!(events(Limits::default(), &pieces), ["skipped 5+11", "16..25 \"c\" 22-23 comments=1"]);
    let pieces = [Piece::Gap(5), Piece::Data(b"\r\n\r\ndata: c\r\n\r\n"), END];
    assert_eq!(events(Limits::default(), &pieces), ["skipped 5+3", "9..19 \"c\" 15-16"]);
    let pieces = [
        Piece::Data(b"data: a\n\n"),
        Piece::Gap(5),
        Piece::Data(b"data"),
        Piece::Gap(u64::MAX),
        Piece::Data(b"a\n\n"),
        END,
    ];
    assert_eq!(events(Limits::default(), &pieces)[..2], ["0..9 \"a\" 6-7", "skipped 14+4"]);
}

#[test]
fn an_event_over_the_limit_is_skipped() {
    let limits = Limits { message: 40, ..Limits::default() };
    let body = b"data: 0123456789abcdef0123456789abcdef0123456789abcdef\n\ndata: 1\n\n";
    let reached = format!("{:?}", Anomaly::LimitReached { limit: "message", offset: 0 });
    let expected = [&reached, "skipped 0+56", "56..65 \"1\" 62-63"];
    assert_eq!(events(limits, &[Piece::Data(body), END]), expected);
    let bytes: Vec<_> = body.chunks(1).map(Piece::Data).chain([END]).collect();
    assert_eq!(events(limits, &bytes), expected);
}

/// The standard's algorithm in its plainest form. Returns kind and data of the dispatched events.
fn reference(body: &str) -> Vec<(String, String)> {
    let body = body.strip_prefix('\u{feff}').unwrap_or(body).replace("\r\n", "\n").replace('\r', "\n");
    let (mut kind, mut data, mut events) = (String::new(), String::new(), Vec::new());
    let whole = body.rfind('\n').map_or("", |end| &body[..end + 1]);
    for line in whole.split_terminator('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" if line.is_empty() => {
                let (kind, data) = (std::mem::take(&mut kind), std::mem::take(&mut data));
                if let Some(data) = data.strip_suffix('\n') {
                    events.push((if kind == "message" { String::new() } else { kind }, data.to_owned()));
                }
            }
            "data" => data = data + value + "\n",
            "event" => kind = value.to_owned(),
            _ => {}
        }
    }
    events
}

fn body() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        6 => Just("\n"), 2 => Just("\r"), 2 => Just("\r\n"), 4 => Just("data: x"), 2 => Just("data:"), 1 => Just("data"),
        1 => Just("event: message"), 1 => Just("event:e"), 1 => Just("id: 1"), 1 => Just(": c"), 1 => Just("\u{feff}"), 1 => Just("y z"),
    ];
    proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn events_are_those_of_the_standards_algorithm(body in body(), size in 1usize..20) {
        let mut decoder = Sse::new(Limits::default());
        let mut found = Vec::new();
        for piece in body.as_bytes().chunks(size) {
            decoder.push(Piece::Data(piece), &mut |event| if let SseEvent::Event(Event { kind, data: Some(data), .. }) = event {
                found.push((kind.unwrap_or_default().to_owned(), String::from_utf8_lossy(data).into_owned()));
            });
        }
        prop_assert_eq!(found, reference(&body));
    }

    #[test]
    fn any_stream(body in body(), at in any::<u8>(), gap in any::<u8>()) {
        fuzz_sse(&[&[at, gap], body.as_bytes()].concat());
    }

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_sse(&data);
    }
}
