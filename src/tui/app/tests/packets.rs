//! The packets screen: all packets or some, the panes, and the way between messages and packets.

use super::hostile::wrapped;
use super::*;
use crate::capture::pipe::Pipe;
use crate::tui::data::PacketScope;

fn public(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures-public").join(name)
}

#[test]
fn all_packets_those_of_the_session_or_of_one_connection() {
    let mut story = Story::sample("helpdesk", (120, 40));
    story.press("<enter>6");
    assert_eq!((story.app.packet_scope(), story.app.rows(Screen::Packets)), (PacketScope::Session, Some(54)));
    story.press("c");
    assert_eq!(story.app.packets.focus, Focus::Connections);
    story.press("g");
    assert_eq!((story.app.packet_scope(), story.app.rows(Screen::Packets)), (PacketScope::Capture, Some(68)));
    let numbers: Vec<u64> = (0..68).map(|row| story.app.packet(row).unwrap().number.0).collect();
    assert_eq!(numbers, (1..69).collect::<Vec<u64>>(), "in the order of the capture");
    insta::assert_snapshot!("packets_all_120x40", story.screen());
    // The rest of the list are the connections. Their packets are all packets.
    let connections = story.app.connections().unwrap().len();
    let mut packets = 0;
    story.press("j");
    for _ in 0..connections {
        story.press("j");
        let row = story.app.connection().unwrap();
        assert_eq!(story.app.rows(Screen::Packets), Some(row.packets as usize));
        packets += row.packets;
    }
    assert_eq!(packets, 68);
    story.press("<esc>");
    assert_eq!((story.app.screen, story.app.packets.focus), (Screen::Packets, Focus::List), "esc leaves the pane");
    // Left and right go through the same list.
    story.press("ll");
    assert_eq!(story.app.packet_scope(), PacketScope::Session);
    story.press("l");
    insta::assert_snapshot!("packets_of_one_connection_120x40", story.screen());
}

#[test]
fn a_capture_without_mcp_shows_its_packets() {
    let mut story = Story::files(&[public("pcapplusplus/three_http_streams.pcap")], (100, 30));
    assert!(story.screen().contains("No MCP session") && story.screen().contains("6 shows the packets"));
    story.press("6");
    insta::assert_snapshot!("packets_without_mcp_100x30", story.screen());
    let packets = story.app.rows(Screen::Packets).unwrap();
    let captured = story.app.cache.connections.of(None).unwrap().packets;
    assert_eq!((packets as u64, packets as u64), captured, "each packet is listed");
    story.press("G<enter>");
    assert!(story.app.notice.as_ref().is_some_and(|notice| notice.text.contains("no message")));
    story.press("<esc>");
    assert_eq!(story.app.screen, Screen::Sessions);
}

#[test]
fn every_packet_of_captures_with_other_protocols_is_listed() {
    let files = |folder| std::fs::read_dir(public(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = ["arkime", "pcapplusplus", "derived"].into_iter().flat_map(files).collect();
    files.sort();
    let mut seen = 0;
    for file in
        files.iter().filter(|file| file.extension().is_some_and(|ending| ending.to_string_lossy().contains("pcap")))
    {
        let place = DatabaseFile::temporary().unwrap();
        let Ok(import) = Import::new(std::slice::from_ref(file), place.clone(), Decoding::default()) else { continue };
        import.run(&mut |_| {}, &AtomicBool::new(false));
        let mut story = Story::store(place, (80, 24));
        story.press("6c<up><up><up><up><esc>");
        let (captured, stored) = story.app.cache.connections.of(story.app.session).unwrap().packets;
        assert_eq!(captured, stored, "{file:?}");
        assert_eq!(story.app.rows(Screen::Packets).unwrap() as u64, stored, "{file:?}");
        story.press("G<tab>G<tab>G");
        story.buffer();
        seen += stored;
    }
    assert!(seen > 1_000, "{seen} packets");
}

#[test]
fn a_field_of_a_message_is_lit_in_its_packet() {
    let mut story = Story::sample("weather", (120, 40));
    story.press("<enter>G<enter><tab><tab>/Quito<enter>w");
    assert_eq!(story.app.screen, Screen::Packets);
    let packet = story.app.packet(story.app.cursor(Screen::Packets).selected).unwrap();
    assert_eq!((packet.number.0, packet.message), (59, Some((SessionNumber(1), MessageNumber(7)))));
    let lit = |story: &Story| {
        let bytes = &story.app.packet_detail().unwrap().source.bytes;
        let text: Vec<u8> = story.app.packets.linked.iter().flat_map(|range| bytes[range.clone()].to_vec()).collect();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(lit(&story), "Quito");
    insta::assert_snapshot!("packets_field_lit_120x40", story.screen());
    // The fields of the message are in the tree, too, and each lights its bytes.
    let selected = |story: &Story| {
        let index = story.app.packets.headers.selected().unwrap();
        story.app.packet_detail().unwrap().nodes[index].clone()
    };
    story.press("<tab>");
    assert_eq!(selected(&story).name, "$.result.content[0].text");
    story.press("k");
    assert_eq!(
        (selected(&story).name.as_str(), lit(&story).as_str()),
        ("$.result.content[0].type", "\"type\":\"text\"")
    );
    // A byte selects the field around it.
    story.press("<tab>");
    assert_eq!(story.app.packets.focus, Focus::Bytes);
    for _ in 0..30 {
        story.press("l");
    }
    assert_eq!(selected(&story).name, "$.result.content[0].text");
    // Another packet begins without lit bytes. Then back to the message.
    story.press("<esc>g");
    assert_eq!(lit(&story), "");
    story.press("<esc>");
    assert_eq!(story.app.screen, Screen::Detail, "back to where one came from");
    story.press("w<enter>");
    assert_eq!(story.app.screen, Screen::Detail);
    assert_eq!(story.app.selected_message().unwrap().row.number, MessageNumber(7));
    // A step without a message leads to its packet.
    story.press("3g<enter>");
    assert_eq!((story.app.screen, story.app.cursor(Screen::Packets).selected), (Screen::Packets, 0));
}

#[test]
fn panes_take_focus_and_clicks_at_every_size() {
    for size in [(160, 48), (80, 24), (40, 12)] {
        let mut story = Story::sample("weather", size);
        story.press("<enter>6");
        let mut seen = Vec::new();
        for _ in Focus::PACKETS {
            story.press("<tab>j");
            seen.push(story.app.packets.focus);
            let areas = layout::packets(layout::body(size), story.app.packets.focus);
            let (area, focus) = (areas.bytes, Focus::Bytes);
            if area.height > 0 {
                story.take(Input::Click(area.x + 12, area.y));
                assert_eq!(story.app.packets.focus, focus, "{size:?}");
                story.app.packets.focus = *seen.last().unwrap();
            }
            story.buffer();
        }
        seen.sort_by_key(|focus| *focus as usize);
        assert_eq!(seen, [Focus::List, Focus::Connections, Focus::Layers, Focus::Bytes], "{size:?}");
    }
    let mut story = Story::sample("weather", (40, 12));
    story.press("<enter>6");
    insta::assert_snapshot!("packets_40x12", story.screen());
    story.press("c");
    insta::assert_snapshot!("packets_connections_40x12", story.screen());
}

#[test]
fn the_chunks_of_pipes_are_packets() {
    let call = (Pipe::Stdin, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let mut story = Story::store(wrapped(&[call, (Pipe::Stderr, "ready\n")], false), (100, 24));
    story.press("6j");
    let infos: Vec<&str> = (0..3).map(|row| story.app.packet(row).unwrap().info.as_str()).collect();
    assert_eq!(
        infos,
        [
            "pid 4711 starts: python server.py",
            "stdin  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
            "stderr  ready"
        ]
    );
    insta::assert_snapshot!("packets_of_pipes_100x24", story.screen());
}
