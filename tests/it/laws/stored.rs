//! A stored or exported capture gives the same events as the original.

use mcptap::export::pcapng;
use mcptap::source::file::Files;
use mcptap::store::{self, CaptureInfo, CaptureKind, DatabaseFile, Selection, StoredPackets, Summary, Writer};
use mcptap_core::internal::capture::Time;
use mcptap_core::internal::pipeline::{Input, PipelineConfig};
use serde_json::Value;

use super::assert_same_events;
use crate::decoded::{ALL, Decoded, TextOrder, assert_same, conversations, frames, frames_of, name};
use crate::program::mcptap;
use crate::rewrite::Frame;
use crate::support::waits::Finishes;

/// Imports packets into a database.
fn import(place: &DatabaseFile, frames: &[Frame]) -> store::CaptureId {
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "laws".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place, &info, store::WriteOptions::default()).expect("a writer");
    let mut pipeline = mcptap_core::internal::pipeline::Pipeline::new(PipelineConfig { ..ALL() });
    for (frame, number) in frames.iter().zip(1..) {
        writer.packet(&frame.packet(number));
        pipeline.push(Input::Packet(frame.packet(number)), &mut |event| writer.event(event));
    }
    pipeline.push(Input::End, &mut |event| writer.event(event));
    writer.finish(&Summary::default()).expect("the capture is written");
    assert_eq!(writer.counts().lost, 0, "nothing was given up");
    writer.capture()
}

#[test]
fn a_stored_capture_decodes_to_the_same() {
    for path in conversations() {
        let frames = frames(&path);
        let wanted = Decoded::of(&frames);
        let place = DatabaseFile::temporary().expect("a temporary database");
        let capture = import(&place, &frames);
        let mut stored = StoredPackets::open(&place, Selection::Capture(capture)).expect("it opens");
        let mut again = Vec::new();
        let mut pipeline = mcptap_core::internal::pipeline::Pipeline::new(ALL());
        while let Some(mcptap::source::Item::Packet(packet)) =
            mcptap::source::Source::next(&mut stored).expect("it reads")
        {
            pipeline.push(Input::Packet(packet), &mut |event| again.push(event));
        }
        pipeline.push(Input::End, &mut |event| again.push(event));
        let again = Decoded { events: again };
        let what = name(&path);
        let [before, after] = [&wanted, &again].map(|decoded| decoded.session_texts(TextOrder::Capture).concat());
        assert_same(&format!("{what}, stored"), &before, &after);
        // Packets have the same numbers and times.
        let places = |decoded: &Decoded| decoded.messages().map(|m| (m.time, m.packets.clone())).collect::<Vec<_>>();
        assert_eq!(places(&wanted), places(&again), "{what}: packets");
        // A reader finds the packets of the messages.
        let reader = store::StoreReader::open(&place).expect("a reader");
        for message in wanted.messages() {
            let mut packets: Vec<_> = Vec::new();
            for range in reader.packet_ranges(capture, message.span).expect("provenance is readable") {
                if !packets.contains(&range.packet) {
                    packets.push(range.packet);
                }
            }
            assert_eq!(message.packets, packets, "{what}: message {}", message.number.0);
        }
    }
}

#[test]
fn an_exported_capture_decodes_to_the_same() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, frames: &[Frame]| {
        let path = folder.path().join(name);
        let mut writer = pcapng::Writer::new(Vec::new()).expect("memory takes it");
        frames.iter().for_each(|frame| writer.packet(&frame.packet(0)).expect("memory takes it"));
        std::fs::write(&path, writer.finish().expect("memory takes it")).expect("the file is written");
        path
    };
    for path in conversations() {
        let frames = frames(&path);
        let whole = frames_of(&mut Files::open(&[write("whole.pcapng", &frames)], false).expect("it opens"));
        assert_same_events(&format!("{}, exported", name(&path)), Decoded::of(&frames), Decoded::of(&whole));
        // A capture tool with rotation writes several files. They are sorted by their first
        // packets.
        let (first, second) = frames.split_at(frames.len() / 2);
        if first.first().map(|frame| frame.time) < second.first().map(|frame| frame.time) {
            let parts = [write("later.pcapng", second), write("sooner.pcapng", first)];
            let parts = frames_of(&mut Files::open(&parts, false).expect("they open"));
            assert_same_events(&format!("{}, in two files", name(&path)), Decoded::of(&frames), Decoded::of(&parts));
        }
    }
}

#[test]
fn stored_messages_are_listed_in_order_of_time() {
    let mut waited = Vec::new();
    for path in conversations() {
        let frames = frames(&path);
        let place = DatabaseFile::temporary().expect("a temporary database");
        import(&place, &frames);
        let reader = store::StoreReader::open(&place).expect("a reader");
        for session in reader.all_sessions() {
            let messages = reader.session_messages(session.expect("a session").number, None);
            let messages: Vec<_> = messages.collect::<Result<_, _>>().expect("messages");
            assert!(messages.is_sorted_by_key(|message| (message.time, message.number)), "{}", path.display());
            if !messages.is_sorted_by_key(|message| message.number) {
                waited.push(path.clone());
            }
        }
    }
    let file = waited.first().expect("in some capture a message waits for another one");
    let shown = mcptap().args(["show", "--json"]).arg(file).finished();
    let lines = String::from_utf8(shown.stdout).expect("text is UTF-8");
    let messages: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let times = |messages: &[Value]| {
        let times = messages.iter().filter(|line| line["type"] == "message");
        times.map(|line| (line["session"].as_u64(), line["time"].as_str().map(str::to_owned))).collect::<Vec<_>>()
    };
    let times = times(&messages);
    assert!(times.len() > 1 && times.is_sorted(), "{}: {times:#?}", file.display());
}
