//! Properties that hold for any conversation.

use proptest::prelude::*;

use super::super::fuzz::fuzz_http2;
use super::*;

/// The frames of one stream, in order.
fn stream(id: u32, texts: &[String]) -> Vec<Vec<u8>> {
    let mut frames = vec![headers(WHOLE, id, &[&b"\x83"[..], &literal("n", &id.to_string())].concat())];
    frames.extend(texts.iter().map(|text| data(0, id, text)));
    frames.push(data(LAST, id, ""));
    frames
}

/// The lines of each stream, with contents joined.
fn by_stream(lines: Vec<String>) -> std::collections::BTreeMap<String, String> {
    let mut events = std::collections::BTreeMap::<String, String>::new();
    for line in lines {
        let (stream, what) = line.split_once("> ").expect("a line of a request");
        events.entry(stream.to_owned()).or_default().push_str(what);
    }
    events.values_mut().for_each(|what| *what = what.replace("''", ""));
    events
}

/// Frames, among them likely ones.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(&[0u8, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10, 200][..]);
    let flags = prop::sample::select(&[0u8, 1, 4, 5, 8, 0x20, 0x2d][..]);
    let payload =
        prop::collection::vec(prop::sample::select(&[0u8, 1, 2, 4, 8, 0x40, 0x61, 0x82, 0x88, 0xbe, 0xff][..]), 0..14);
    let frame =
        (kind, flags, 0u32..6, payload).prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    let bytes = prop_oneof![8 => frame, 1 => Just(PREFACE.to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..20)];
    let data = (any::<bool>(), bytes)
        .prop_map(|(server, bytes)| [&[2 + u8::from(server), bytes.len() as u8], bytes.as_slice()].concat());
    prop_oneof![9 => data, 1 => (0u8..2, 1u8..30).prop_map(|(direction, length)| vec![direction, length])]
}

proptest! {
    #[test]
    fn however_streams_are_interleaved_each_says_the_same(
        texts in prop::collection::vec(prop::collection::vec("[a-z]{0,9}", 0..5), 1..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 40),
        size in 1usize..40,
    ) {
        let mut queues: Vec<std::collections::VecDeque<Vec<u8>>> =
            texts.iter().enumerate().map(|(at, texts)| stream(at as u32 * 2 + 1, texts).into()).collect();
        let straight = [PREFACE.to_vec(), queues.iter().flatten().flatten().copied().collect()].concat();
        // A new stream has a higher number than all before, so the heads are sent in order.
        let mut mixed = PREFACE.to_vec();
        queues.iter_mut().for_each(|queue| mixed.extend(queue.pop_front().unwrap_or_default()));
        for index in order {
            let at = index.index(queues.len());
            mixed.extend(queues[at].pop_front().unwrap_or_default());
        }
        queues.iter_mut().for_each(|queue| mixed.extend(queue.drain(..).flatten()));
        let run = |bytes: &[u8], size: usize| {
            by_stream(decode_pieces(&bytes.chunks(size).map(|piece| (CLIENT, Piece::Data(piece))).collect::<Vec<_>>()))
        };
        prop_assert_eq!(run(&straight, usize::MAX), run(&mixed, size));
    }

    #[test]
    fn any_frames(steps in prop::collection::vec(step(), 0..30)) {
        fuzz_http2(&steps.concat());
    }

    #[test]
    fn any_bytes(data: Vec<u8>) {
        fuzz_http2(&data);
    }
}

/// A case that the property above found: the preface from the server's side, then a
/// client's settings.
#[test]
fn a_preface_from_the_wrong_side() {
    let steps = [[&[3, 24], PREFACE].concat(), vec![3, 9, 0, 0, 0, 1, 4, 0, 0, 0, 1]];
    fuzz_http2(&steps.concat());
}
