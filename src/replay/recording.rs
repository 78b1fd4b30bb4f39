//! A recorded session in memory, as the mock uses it.

use anyhow::{Result, bail};

use crate::decode::exchange::Exchange;
use crate::decode::mask::is_masked;
use crate::mcp::{Message, Session};
use crate::store::StoreReader;
use crate::view::units;

/// The most bytes of messages in one recording. All of them stay in memory, since a client can ask
/// for any at any time. A session of a thousand calls has a few megabytes.
const BYTES: usize = 512 << 20;

/// The most messages for which memory is reserved in advance.
const MESSAGES: usize = 1 << 18;

/// A recorded session with all its messages.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The recorded session.
    pub session: Session,
    /// Messages in order of completion.
    pub messages: Vec<Message>,
}

impl Recording {
    /// Loads a session.
    pub fn load(reader: &StoreReader, session: Session) -> Result<Recording> {
        // Reserving avoids half-empty memory after growth by doubling. The stored count can be
        // wrong, so it is limited.
        let count = usize::try_from(session.messages).unwrap_or(usize::MAX).min(MESSAGES);
        let mut messages: Vec<Message> = Vec::with_capacity(count);
        let mut bytes = 0;
        for message in reader.numbered_messages(session.number)? {
            let message = message?;
            bytes += message.raw.len();
            if bytes > BYTES {
                bail!("session {} is too large for memory: more than {}", session.number.0, units::size(BYTES as u64));
            }
            // The mock needs neither packets nor findings.
            messages.push(Message { packets: Vec::new(), findings: Vec::new(), ..message });
        }
        Ok(Recording { session, messages })
    }
}

/// The names of header fields in a session's requests whose values were masked in the
/// recording, each once.
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
    fields.filter(|(_, value)| is_masked(value.as_bytes())).map(|(name, _)| name)
}
