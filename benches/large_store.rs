//! Makes a large store, with the writer of every recording.
//!
//! ```text
//! cargo bench --bench large_store -- OUT.db --sessions 10000 --messages 100 --bytes 2048
//! ```
//!
//! Each session is a capture of its own, as `wrap` makes it: calls of tools and their results, some
//! of which fail. The texts are words of a vocabulary of 20,000, in the frequencies of a language
//! (Zipf), with numbers, paths and random ids. The word `quixotic` is in one message in the middle.

use mcptap::store::{CaptureInfo, CaptureKind, DatabaseFile, Summary, WriteOptions, Writer};
use mcptap_core::internal::capture::{Span, StreamId, Time};
use mcptap_core::internal::decode::Direction;
use mcptap_core::internal::decode::jsonrpc::{Kind, parse_raw};
use mcptap_core::internal::event::Event;
use mcptap_core::internal::findings::{self, Finding};
use mcptap_core::internal::mcp::{
    Carrier, Message, MessageNumber, Outcomes, Party, Peers, Session, SessionNumber, Transport,
};

/// The one message that has a word of its own.
const WORD: &str = "quixotic";

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(path) = arguments.next() else {
        println!("usage: cargo bench --bench large_store -- OUT.db [--sessions N] [--messages N] [--bytes N]");
        return;
    };
    let (mut sessions, mut messages, mut bytes) = (10_000u64, 100u64, 2_048u64);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok()).expect("a number follows each option");
        match &*name {
            "--sessions" => sessions = value,
            "--messages" => messages = value,
            "--bytes" => bytes = value,
            _ => panic!("there is no option {name}"),
        }
    }
    assert!(messages >= 2, "a session has a call and its response");
    let place = DatabaseFile::file(path);
    let mut texts = Texts::new(bytes as usize);
    for number in 1..=sessions {
        let special = (number == sessions.div_ceil(2)).then_some((messages / 2).next_multiple_of(2).max(2));
        record(&place, &mut texts, number, messages, special);
    }
}

/// Records a session. `special` is the number of the message with a word of its own.
fn record(place: &DatabaseFile, texts: &mut Texts, number: u64, messages: u64, special: Option<u64>) {
    let start = 1_700_000_000_000_000_000 + number as i64 * 60_000_000_000;
    let info = CaptureInfo {
        kind: CaptureKind::Wrap,
        source: "server".into(),
        process: 1,
        started: Time(start),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place, &info, WriteOptions::default()).expect("a writer");
    let command = vec!["server".to_owned(), format!("--port={number}")];
    let peers = Peers::Process { process: 1, command };
    let party = |name: &str| Some(Party { name: name.into(), version: "1.0".into() });
    let opened = Session::opened(SessionNumber(1), Transport::Stdio, peers, Time(start));
    let mut session = Session {
        protocol_version: Some("2025-06-18".into()),
        client: party("client"),
        server: party("server"),
        ..opened
    };
    writer.event(Event::Session(Box::new(session.clone())));
    let mut offset = 0;
    for message in 1..=messages {
        let is_response = message % 2 == 0;
        let has_failed = is_response && texts.below(100) == 0;
        let raw = texts.message(message, is_response, has_failed, special == Some(message));
        let (end, time) = (offset + raw.len() as u64, start + message as i64 * 1_000_000);
        let latency = is_response.then(|| 1_000_000 + texts.below(50_000_000) as i64);
        let record = record_of(message, raw.into_bytes(), Time(time), latency, (offset, end));
        offset = end + 1;
        writer.event(Event::Message(Box::new(record)));
        if has_failed {
            let rule = findings::rule("tool-error").or_else(|| findings::all().next()).expect("a rule");
            writer.event(Event::Finding(Box::new(Finding {
                rule,
                severity: rule.severity,
                session: Some(SessionNumber(1)),
                messages: vec![MessageNumber(message)],
                packets: Vec::new(),
                span: None,
                text: format!("Message {message} reports a failure."),
                repeated: 0,
                once: "",
            })));
        }
        session.messages = message;
        session.responses += u64::from(is_response);
        session.outcomes = Outcomes {
            ok: session.outcomes.ok + u64::from(is_response && !has_failed),
            tool_errors: session.outcomes.tool_errors + u64::from(has_failed),
            unanswered: u64::from(!is_response),
            ..Outcomes::default()
        };
        session.ended = Time(time);
    }
    writer.event(Event::Session(Box::new(session)));
    writer.finish(&Summary { ended: Time(start), ..Summary::default() }).expect("a database that can be written");
}

fn record_of(number: u64, raw: Vec<u8>, time: Time, latency: Option<i64>, (start, end): (u64, u64)) -> Message {
    let is_response = latency.is_some();
    let raw = raw.into();
    let envelope = match parse_raw(&raw, 128, 100) {
        mcptap_core::internal::decode::jsonrpc::JsonRpcText::Single(envelope) => envelope,
        _ => panic!("the generator writes JSON-RPC"),
    };
    Message {
        session: SessionNumber(1),
        number: MessageNumber(number),
        time,
        transport: Transport::Stdio,
        direction: if is_response { Direction::ServerToClient } else { Direction::ClientToServer },
        kind: if is_response { Kind::Response } else { Kind::Request },
        id: Some(number.div_ceil(2).to_string().into()),
        method: Some("tools/call".into()),
        tool: None,
        raw,
        envelope,
        batch: None,
        answers: is_response.then_some(MessageNumber(number - 1)),
        answered_by: None,
        latency,
        span: Span { stream: StreamId(1 + u32::from(is_response)), start, end },
        packets: Vec::new(),
        carrier: Carrier::Line,
        exchange: None,
        sse_id: None,
        line: Some(number),
        redelivered: false,
        copies: None,
        operation: None,
        link: None,
        findings: Vec::new(),
    }
}

/// Texts that are the same in every run.
struct Texts {
    random: u64,
    words: Vec<String>,
    bytes: usize,
}

impl Texts {
    fn new(bytes: usize) -> Texts {
        let mut texts = Texts { random: 88_172_645_463_325_252, words: Vec::new(), bytes };
        const SYLLABLES: [&str; 24] = [
            "re", "con", "ti", "ment", "er", "al", "ex", "pro", "de", "in", "ta", "ver", "sion", "ma", "lo", "gra",
            "ph", "ser", "quer", "path", "ed", "ing", "un", "st",
        ];
        for _ in 0..20_000 {
            let syllables = 1 + texts.below(4);
            let word = (0..syllables).map(|_| SYLLABLES[texts.below(24) as usize]).collect();
            texts.words.push(word);
        }
        texts
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// A word: the n-th one is n times as rare as the first.
    fn word(&mut self) -> usize {
        let uniform = self.below(1 << 20) as f64 / f64::from(1 << 20);
        ((self.words.len() as f64).powf(uniform) as usize).min(self.words.len() - 1)
    }

    fn message(&mut self, number: u64, is_response: bool, has_failed: bool, is_special: bool) -> String {
        let mut text = if is_response {
            let failed = if has_failed { r#""isError":true,"# } else { "" };
            format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{{failed}"content":[{{"type":"text","text":""#,
                number.div_ceil(2)
            )
        } else {
            format!(
                r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"search","arguments":{{"query":""#,
                number.div_ceil(2)
            )
        };
        if is_special {
            text.push_str(WORD);
        }
        while text.len() + 16 < self.bytes {
            match self.below(40) {
                0 => text.push_str(&self.below(1 << 20).to_string()),
                1 => text.push_str(&format!("{:016x}", self.below(u64::MAX))),
                2 => text.push_str("\\n"),
                3 => {
                    let (folder, file) = (self.word(), self.word());
                    text.push_str(&format!("src/{}/{}.rs", self.words[folder], self.words[file]));
                }
                _ => {
                    let word = self.word();
                    text.push_str(&self.words[word]);
                }
            }
            text.push(' ');
        }
        text + if is_response { "\"}]}}" } else { "\"}}}" }
    }
}
