//! A saved session, whole: what mock works on.

use anyhow::{Result, bail};

use crate::decode::exchange::Exchange;
use crate::mcp::{Message, Session};
use crate::store::{Key, Page, Reader, Scope};
use crate::view::units;

/// Bytes of messages that one recording may have. All of them are held at once, since any may be the next to be asked for; sessions of a thousand
/// calls have a few megabytes.
const BYTES: usize = 512 << 20;

/// Messages that room is made for at once.
const MESSAGES: usize = 1 << 18;

/// A recorded session.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The session.
    pub session: Session,
    /// Its messages in order of completion.
    pub messages: Vec<Message>,
}

impl Recording {
    /// Reads a session.
    ///
    /// # Errors
    /// The database cannot be read, or the session is larger than can be held.
    pub fn load(reader: &Reader, session: Session) -> Result<Recording> {
        // Grown by doubling, half of it would be empty. What the session says of itself is not believed without bounds.
        let count = usize::try_from(session.messages).unwrap_or(usize::MAX).min(MESSAGES);
        let mut messages: Vec<Message> = Vec::with_capacity(count);
        let mut bytes = 0;
        let Some(capture) = reader.capture_of(session.number)? else { return Ok(Recording { session, messages }) };
        loop {
            let page = match messages.last() {
                Some(last) => Page::from(Key::new(capture, last.number.0).next(), 1_000),
                None => Page::first(1_000),
            };
            let more = reader.messages(Scope::Session(session.number), page)?;
            if more.is_empty() {
                return Ok(Recording { session, messages });
            }
            bytes += more.iter().map(|message| message.raw.len()).sum::<usize>();
            if bytes > BYTES {
                bail!("session {} is too large to be held: more than {}", session.number.0, units::size(BYTES as u64));
            }
            // Where their bytes were captured is of no use here.
            messages.extend(more.into_iter().map(|message| Message {
                packets: Vec::new(),
                findings: Vec::new(),
                ..message
            }));
        }
    }
}

/// The names of header fields of a session's requests whose values were masked when they were recorded, each once.
///
/// # Errors
/// The database cannot be read.
pub fn masked_headers(reader: &Reader, session: &Session) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut page = Page::first(1_000);
    loop {
        let exchanges = reader.exchanges(session.number, page)?;
        let Some(last) = exchanges.last().map(|exchange| exchange.number) else { return Ok(names) };
        page = Page::from(crate::decode::exchange::ExchangeNumber(last.0 + 1), 1_000);
        for name in exchanges.iter().flat_map(masked) {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name.to_owned());
            }
        }
    }
}

fn masked(exchange: &Exchange) -> impl Iterator<Item = &str> {
    let fields = exchange.request.fields.iter();
    fields.filter(|(_, value)| is_masked(value)).map(|(name, _)| name)
}

/// Whether a value is nothing but the mask.
pub fn is_masked(value: &str) -> bool {
    value.len() > 2 && value.bytes().all(|byte| byte == crate::decode::http::MASK)
}
