//! A saved session, whole: what mock works on.

use anyhow::{Result, bail};

use crate::decode::exchange::Exchange;
use crate::mcp::{Message, Session};
use crate::store::{Scope, StoreReader};
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
    pub fn load(reader: &StoreReader, session: Session) -> Result<Recording> {
        // Grown by doubling, half of it would be empty. What the session says of itself is not believed without bounds.
        let count = usize::try_from(session.messages).unwrap_or(usize::MAX).min(MESSAGES);
        let mut messages: Vec<Message> = Vec::with_capacity(count);
        let mut bytes = 0;
        let Some(capture) = reader.capture_of(session.number)? else { return Ok(Recording { session, messages }) };
        for message in reader.all_messages(capture, Scope::Session(session.number), None, None) {
            let message = message?;
            bytes += message.raw.len();
            if bytes > BYTES {
                bail!("session {} is too large to be held: more than {}", session.number.0, units::size(BYTES as u64));
            }
            // Where their bytes were captured is of no use here.
            messages.push(Message { packets: Vec::new(), findings: Vec::new(), ..message });
        }
        Ok(Recording { session, messages })
    }
}

/// The names of header fields of a session's requests whose values were masked when they were recorded, each once.
///
/// # Errors
/// The database cannot be read.
pub fn masked_headers(reader: &StoreReader, session: &Session) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for exchange in reader.all_exchanges(session.number) {
        for name in masked(&exchange?) {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name.to_owned());
            }
        }
    }
    Ok(names)
}

fn masked(exchange: &Exchange) -> impl Iterator<Item = &str> {
    let fields = exchange.request.fields.iter();
    fields.filter(|(_, value)| is_masked(value)).map(|(name, _)| name)
}

/// Whether a value is nothing but the mask.
pub fn is_masked(value: &str) -> bool {
    value.len() > 2 && value.bytes().all(|byte| byte == crate::decode::http::MASK)
}
