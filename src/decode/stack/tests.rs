//! What the layers of a connection make of each other's losses.

use super::*;
use crate::decode::{Ending, Piece};

const REQUEST: &str = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn facts() -> Facts {
    let address = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
    let endpoints = [address(50_000), address(80)];
    Facts { endpoints, opened: Time(0), last: Time(0), handshake: [None; 3], ends: Default::default() }
}

/// The texts from the server in a connection of these pieces.
fn texts(response: &[Piece<'_>]) -> Vec<String> {
    let mut stacks = Stacks::new(Limits::default(), Options::default());
    let mut texts = Vec::new();
    let mut sink = |unit: Unit<'_>| {
        if let Unit::Text(text, _) = unit
            && text.direction == Direction::ServerToClient
        {
            texts.push(String::from_utf8_lossy(&text.bytes).into_owned());
        }
    };
    let connection = ConnectionId(1);
    stacks.opened(connection, &facts());
    let mut offset = 0;
    let request = [(Side::First, Piece::Data(REQUEST.as_bytes()))];
    for (side, piece) in request.into_iter().chain(response.iter().map(|piece| (Side::Second, *piece))) {
        let acknowledged = if side == Side::First { 0 } else { REQUEST.len() as u64 };
        let time = Time(0);
        stacks.delivered(&Delivery { connection, side, offset, piece, origin: &[], time, acknowledged }, &mut sink);
        offset += match piece {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Gap(length) => length,
            Piece::End(_) => 0,
        };
    }
    stacks.closed(connection, &mut sink);
    texts
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

#[test]
fn a_gap_over_chunk_borders_joins_no_event_to_the_next() {
    let events = [chunk("data: {\"id\":1}\n\n"), chunk("data: {\"id\":2}\n\n"), chunk("data: {\"id\":3}\n\n")];
    let stream = [HEAD, &events[0], &events[1], &events[2]].concat();
    let middle = HEAD.len() + events[0].len();
    assert_eq!(texts(&[Piece::Data(stream.as_bytes())]), [r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#]);
    // The gap begins in the first event and ends in the line of the size of the second chunk, in its event, or behind it.
    for behind in [middle + 1, middle + 3, middle + 9, middle + events[1].len()] {
        let (seen, rest) = (&stream.as_bytes()[..middle - 8], &stream.as_bytes()[behind..]);
        let gap = Piece::Gap((behind + 8 - middle) as u64);
        let texts = texts(&[Piece::Data(seen), gap, Piece::Data(rest), Piece::End(Ending::Finished)]);
        for text in &texts {
            assert!([r#"{"id":2}"#, r#"{"id":3}"#].contains(&text.as_str()), "{text} up to {behind}");
        }
    }
}
