use proptest::prelude::*;

use super::super::Ending;
use super::*;

/// The lines of `pieces`, as number, offset and text. `…` follows a line without line end, `?` a
/// line that is not whole.
fn lines(limits: Limits, pieces: &[Piece<'_>]) -> Vec<String> {
    let mut decoder = Lines::new(limits);
    let mut seen = Vec::new();
    for piece in pieces {
        decoder.push(*piece, &mut |event| {
            seen.push(match event {
                LineEvent::Line { number, start, bytes, end, whole } => {
                    let text = String::from_utf8_lossy(bytes);
                    format!(
                        "{number} @{start} {text}{}{}",
                        if end == LineEnd::Missing { "…" } else { "" },
                        if whole { "" } else { "?" }
                    )
                }
                LineEvent::Anomaly(anomaly) => format!("{anomaly:?}"),
            });
        });
    }
    seen
}

const END: Piece<'_> = Piece::End(Ending::Finished);

#[test]
fn a_pipe_is_lines() {
    let text = b"{\"id\":1}\n\r\n  \nlog\r\r\nlast\r";
    let expected = ["1 @0 {\"id\":1}", "2 @9 ", "3 @11   ", "4 @14 log\r", "5 @20 last\r…"];
    assert_eq!(lines(Limits::default(), &[Piece::Data(text), END]), expected);
    let bytes: Vec<_> = text.chunks(1).map(Piece::Data).chain([END]).collect();
    assert_eq!(lines(Limits::default(), &bytes), expected, "byte by byte");
}

#[test]
fn around_a_gap_no_line_is_whole() {
    let pieces =
        [Piece::Data(b"one\ntw"), Piece::Gap(10), Piece::Data(b"ree\nfour\n"), Piece::Gap(3), Piece::Gap(1), END];
    assert_eq!(lines(Limits::default(), &pieces), ["1 @0 one", "2 @4 tw…?", "3 @16 ree?", "4 @20 four"]);
    let pieces = [Piece::Gap(5), Piece::Data(b"\nx"), END];
    assert_eq!(lines(Limits::default(), &pieces), ["1 @5 ?", "2 @6 x…"]);
    assert_eq!(lines(Limits::default(), &[Piece::Gap(u64::MAX), Piece::Gap(9), END]), [""; 0]);
}

#[test]
fn a_line_over_the_limit_is_cut() {
    let limits = Limits { message: 4, ..Limits::default() };
    let text = b"1234\r\n12345\r\n1234\r5\nx\n";
    let reached = |offset| format!("{:?}", Anomaly::LimitReached { limit: "message", offset });
    let expected = ["1 @0 1234", &reached(6), "2 @6 1234?", &reached(13), "3 @13 1234?", "4 @20 x"];
    assert_eq!(lines(limits, &[Piece::Data(text), END]), expected);
    let bytes: Vec<_> = text.chunks(1).map(Piece::Data).chain([END]).collect();
    assert_eq!(lines(limits, &bytes), expected, "byte by byte");
}

#[test]
fn buffered_bytes_are_still_needed() {
    let mut decoder = Lines::new(Limits::default());
    let mut sink = |_: LineEvent<'_>| {};
    decoder.push(Piece::Data(b"one\ntwo"), &mut sink);
    assert_eq!(decoder.low_water(), 4);
    decoder.push(Piece::Data(b"\n"), &mut sink);
    assert_eq!(decoder.low_water(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn lines_are_those_of_split(text in "[a-c\n]{0,60}") {
        let mut expected: Vec<_> = text.split('\n').collect();
        let rest = expected.pop().filter(|rest| !rest.is_empty());
        let mut found = Vec::new();
        let mut decoder = Lines::new(Limits::default());
        for piece in [Piece::Data(text.as_bytes()), END] {
            decoder.push(piece, &mut |event| if let LineEvent::Line { bytes, end, whole, .. } = event {
                found.push((String::from_utf8_lossy(bytes).into_owned(), end, whole));
            });
        }
        let expected: Vec<_> = expected.into_iter().map(|line| (line.to_owned(), LineEnd::LineFeed, true))
            .chain(rest.map(|rest| (rest.to_owned(), LineEnd::Missing, true))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes(data in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..400)) {
        fuzz_lines(&data);
    }
}
