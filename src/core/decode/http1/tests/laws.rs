//! Properties of the decoder over generated conversations.

use proptest::prelude::*;

use super::*;

/// The framing of a body, and its content.
#[derive(Clone, Debug)]
enum Body {
    None,
    Length(String),
    Chunked(Vec<String>),
}

impl Body {
    fn content(&self) -> String {
        match self {
            Body::None => String::new(),
            Body::Length(text) => text.clone(),
            Body::Chunked(chunks) => chunks.concat(),
        }
    }

    /// The fields, the empty line and the body.
    fn encode(&self, fields: &str) -> String {
        match self {
            Body::None => format!("{fields}Content-Length: 0\r\n\r\n"),
            Body::Length(text) => format!("{fields}Content-Length: {}\r\n\r\n{text}", text.len()),
            Body::Chunked(chunks) => {
                let chunks: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
                format!("{fields}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
            }
        }
    }
}

fn body() -> impl Strategy<Value = Body> {
    // The content looks like framing, but never like a start line.
    let text = "[a-c0-9{}: \r\n]{1,30}";
    prop_oneof![
        Just(Body::None),
        text.prop_map(Body::Length),
        proptest::collection::vec(text, 0..4).prop_map(Body::Chunked),
    ]
}

/// Requests with their responses. The number in both is the same.
fn exchanges() -> impl Strategy<Value = Vec<(Body, Body)>> {
    proptest::collection::vec((body(), body()), 1..8)
}

fn request(number: usize, body: &Body) -> String {
    format!("POST /{number} HTTP/1.1\r\n{}", body.encode("Host: a\r\n"))
}

fn response(number: usize, body: &Body) -> String {
    format!("HTTP/1.1 200 {number}\r\n{}", body.encode("Server: b\r\n"))
}

/// The messages of both sides in a possible order. At most `window` requests are open at once.
/// `order` decides where there is a choice.
fn conversation(exchanges: &[(Body, Body)], window: usize, order: &[bool]) -> Vec<(Direction, String)> {
    let (mut asked, mut answered) = (0, 0);
    let mut messages = Vec::new();
    let mut order = order.iter().copied().cycle();
    while answered < exchanges.len() {
        let may_ask = asked < exchanges.len() && asked - answered < window;
        if may_ask && (asked == answered || order.next().unwrap_or(true)) {
            messages.push((Direction::ClientToServer, request(asked, &exchanges[asked].0)));
            asked += 1;
        } else {
            messages.push((Direction::ServerToClient, response(answered, &exchanges[answered].1)));
            answered += 1;
        }
    }
    messages
}

/// Targets and reasons of the exchanges that have both.
fn pairs(lines: &[String]) -> Vec<(String, String)> {
    let head = |line: &String, arrow: &str, before: &str| {
        let (index, rest) = line.strip_prefix(arrow)?.split_once(' ')?;
        Some((index.to_owned(), rest.strip_prefix(before)?.to_owned()))
    };
    let requests: Vec<_> = lines.iter().filter_map(|line| head(line, "> ", "POST /")).collect();
    let responses = lines.iter().filter_map(|line| head(line, "< ", "200 "));
    let request = |index: &str| requests.iter().find(|(of, _)| of == index).map(|(_, target)| target.clone());
    responses.filter_map(|(index, reason)| Some((request(&index)?, reason))).collect()
}

/// A loss in a message: its position and its length, in percent of the message. Most
/// messages have none.
fn loss() -> impl Strategy<Value = Option<(usize, usize)>> {
    prop_oneof![5 => Just(None), 1 => Just(Some((0, 100))), 2 => (0usize..100, 1usize..100).prop_map(Some)]
}

/// The messages as actions, with the losses in them.
fn with_losses(messages: &[(Direction, String)], losses: &[Option<(usize, usize)>]) -> Vec<PeerAction> {
    let mut steps = Vec::new();
    for ((direction, text), loss) in messages.iter().zip(losses.iter().cycle()) {
        let (start, length) = loss.unwrap_or((100, 0));
        let start = text.len() * start / 100;
        let end = (start + text.len() * length / 100).min(text.len());
        steps.push(PeerAction::Sends(*direction, text.as_bytes()[..start].into()));
        steps.push(PeerAction::Lost(*direction, (end - start) as u64));
        steps.push(PeerAction::Sends(*direction, text.as_bytes()[end..].into()));
    }
    steps
}

/// The actions as a script of the fuzz target.
fn script(steps: &[PeerAction]) -> Vec<u8> {
    let mut script = Vec::new();
    for step in steps {
        match step {
            PeerAction::Sends(direction, bytes) => {
                for piece in bytes.chunks(255) {
                    script.extend([2 | *direction as u8, piece.len() as u8]);
                    script.extend_from_slice(piece);
                }
            }
            PeerAction::Lost(direction, length) => script.extend([*direction as u8, (*length).min(255) as u8]),
            PeerAction::Ends(..) => {}
        }
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_was_sent_is_what_is_emitted(
        exchanges in exchanges(), window in 1usize..4, order in proptest::collection::vec(any::<bool>(), 1..20),
        size in 1usize..50,
    ) {
        let messages = conversation(&exchanges, window, &order);
        let steps = with_losses(&messages, &[None]);
        let lines = event_lines(Limits::default(), &steps, size);
        for (index, (asked, answered)) in exchanges.iter().enumerate() {
            let sides = [('>', format!("POST /{index}"), asked), ('<', format!("200 {index}"), answered)];
            for (arrow, start, body) in sides {
                let begin = format!("{arrow} {index} ");
                let of: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(&begin)).collect();
                prop_assert_eq!(of[0], start);
                prop_assert_eq!(*of.last().unwrap_or(&""), "complete Finished");
                let content = of.iter().filter_map(|line| line.strip_prefix("content @")?.split_once(' '));
                let content: String = content.map(|(_, text)| text).collect();
                prop_assert_eq!(content, body.content().escape_default().to_string());
            }
        }
        prop_assert!(!lines.iter().any(|line| line.contains('!')), "nothing is odd");
    }

    #[test]
    fn no_loss_makes_a_wrong_pair(
        exchanges in exchanges(), window in 1usize..4, order in proptest::collection::vec(any::<bool>(), 1..20),
        losses in proptest::collection::vec(loss(), 1..20),
    ) {
        // A client that sends without waiting must show this before the first loss. So nothing of
        // its first two requests is lost.
        let habit = if window > 1 { 2 } else { 0 };
        let order: Vec<_> = std::iter::repeat_n(true, habit).chain(order).collect();
        let losses: Vec<_> = std::iter::repeat_n(None, habit).chain(losses.iter().copied().cycle().take(40)).collect();
        let messages = conversation(&exchanges, window, &order);
        let steps = with_losses(&messages, &losses);
        let lines = event_lines(Limits::default(), &steps, usize::MAX);
        for (asked, answered) in pairs(&lines) {
            prop_assert_eq!(asked, answered, "{:#?}", lines);
        }
        fuzz_http1(&script(&steps));
    }

    #[test]
    fn one_request_at_a_time_pairs_whatever_is_seen_whole(
        exchanges in exchanges(), losses in proptest::collection::vec(loss(), 1..20),
    ) {
        let messages = conversation(&exchanges, 1, &[true]);
        let losses: Vec<_> = losses.iter().copied().cycle().take(messages.len()).collect();
        let lines = event_lines(Limits::default(), &with_losses(&messages, &losses), usize::MAX);
        let pairs = pairs(&lines);
        for (index, lost) in losses.chunks(2).enumerate() {
            // Content before a head cannot hide it without a line end. The rest of a chunk may
            // contain a head.
            if lost == [None, None] && lines.contains(&format!("< {index} 200 {index}")) {
                prop_assert!(pairs.contains(&(index.to_string(), index.to_string())), "{:#?}", lines);
            }
        }
    }

    #[test]
    fn heads_are_what_httparse_says(
        request in any::<bool>(), target in "/[a-z?=&%0-9]{0,20}", reason in "[A-Za-z ]{0,10}",
        fields in proptest::collection::vec(
            ("[A-Za-z][A-Za-z0-9-]{0,12}", "[ \t]{0,2}", "[!-~]([ -~]{0,20}[!-~])?", "[ \t]{0,2}"), 0..10,
        ),
    ) {
        let start = if request { format!("OPTIONS {target} HTTP/1.1") } else { format!("HTTP/1.0 299 {reason}") };
        let lines = fields.iter().map(|(name, before, value, after)| format!("{name}:{before}{value}{after}\r\n"));
        let fields: String = lines.collect();
        let text = format!("{start}\r\n{fields}\r\n");
        let direction = if request { Direction::ClientToServer } else { Direction::ServerToClient };
        let mut list = grammar::FieldLines::default();
        let (rest, found) = grammar::head(direction, text.as_bytes(), &mut list).unwrap();
        prop_assert!(rest.is_empty());
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let headers = if request {
            let mut parsed = httparse::Request::new(&mut headers);
            prop_assert!(parsed.parse(text.as_bytes()).unwrap().is_complete());
            let target = parsed.path.unwrap().as_bytes();
            let expected = grammar::Start::Request { method: b"OPTIONS", target, version: "1.1" };
            prop_assert_eq!(found, expected);
            parsed.headers
        } else {
            let mut parsed = httparse::Response::new(&mut headers);
            prop_assert!(parsed.parse(text.as_bytes()).unwrap().is_complete());
            let reason = parsed.reason.unwrap().trim().as_bytes();
            prop_assert_eq!(found, grammar::Start::Response { status: 299, reason, version: "1.0" });
            parsed.headers
        };
        let at = |range: &std::ops::Range<u32>| &text.as_bytes()[range.start as usize..range.end as usize];
        let found: Vec<_> = list.list.iter().map(|(name, value)| (at(name), at(value))).collect();
        let expected: Vec<_> = headers.iter().map(|header| (header.name.as_bytes(), header.value)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_http1(&data);
    }

    #[test]
    fn any_tokens(tokens in proptest::collection::vec((0u8..16, 0usize..TOKENS.len(), any::<u8>()), 0..40)) {
        let mut data = Vec::new();
        for (what, token, length) in tokens {
            let token = TOKENS[token].as_bytes();
            let gap = what & 6 == 0;
            data.extend([what, if gap { length % 40 } else { token.len() as u8 }]);
            data.extend_from_slice(if gap { b"" } else { token });
        }
        fuzz_http1(&data);
    }
}

#[test]
fn a_start_line_is_judged_alike_however_it_is_cut() {
    let long = format!("\x02\x7f{} / HTTP/1.1\r\nA", "M".repeat(33));
    for script in ["\x02\u{7f} 2 0 HTTP/1.1\r\nA", "\x03\u{7f}HTTP/1.1  200\r\nA", &long] {
        fuzz_http1(script.as_bytes());
    }
}

#[test]
fn a_message_is_searched_in_one_flight_however_it_is_cut() {
    // One byte; the server's response is lost; the bytes after it do not continue the first byte.
    let script = "\x02\x01I\x01\x48\x02\x29P\x02zGET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n";
    fuzz_http1(script.as_bytes());
}

#[test]
fn a_status_line_behind_events_is_cut_between_flights_however_it_comes() {
    let steps: [(u8, &[u8]); 4] = [
        (3, b"x\ndata: {\n\nHTTP/1"),
        (2, b"y"),
        (3, b".1 200 OK\nContent-Length: 1\n\nz"),
        (3, b"HTTP/1.1 200 OK\nContent-Length: 1\n\nz"),
    ];
    fuzz_http1(&steps.map(|(what, bytes)| [&[what, bytes.len() as u8], bytes].concat()).concat());
}

#[test]
fn a_field_of_an_event_that_is_nearly_too_long_is_held_however_its_data_are_cut() {
    for length in 180..220 {
        let field = format!("event: {}\n", "m".repeat(length));
        let data = "data: {\"id\":1}\n\n";
        let steps = [&field, data].map(|sent| [&[3, sent.len() as u8], sent.as_bytes()].concat());
        fuzz_http1(&steps.concat());
    }
}

/// Byte sequences with a meaning for the decoder.
const TOKENS: [&str; 30] = [
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "CONNECT a HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nUpgrade: x\r\n\r\n",
    "HEAD / HTTP/1.1\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching\r\n\r\n",
    "HTTP/1.1 204 None\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "5\r\nhello\r\n",
    "5\r\n",
    "hello",
    "0\r\n\r\n",
    "0\r\n",
    "ffffffffffffffff0\r\n",
    "\r\n",
    "\n",
    "\r",
    " folded\r\n",
    "A: b\r\n",
    "x",
    "HTTP/1.1 ",
    "no field\n",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"a\":\"0123456789012345678901234567890123456789\"}}",
];
