//! The texts of a recording, read from its store as they are needed: a replay holds what is open, however long the recording is.

use std::sync::Arc;

use anyhow::Result;

use crate::compare::Answer;
use crate::decode::Direction;
use crate::mcp::facts::part;
use crate::mcp::{Message, MessageNumber, Session};
use crate::store::{DatabaseFile, Page, StoreReader};

/// Messages, and bytes of them, that are kept from the first reading.
const EARLY: (usize, usize) = (2_048, 1 << 20);

/// Messages that are read at once: whoever asks for one asks for those behind it next.
const AHEAD: usize = 256;

/// The first messages of the client, kept when they were read for the plan: a short recording is not read twice.
#[derive(Clone, Debug, Default)]
pub struct Early {
    messages: Vec<Message>,
    bytes: usize,
    is_full: bool,
}

impl Early {
    /// Keeps the next message of the client, as long as there is room.
    pub fn keep(&mut self, message: &Message) {
        self.bytes += message.raw.len();
        self.is_full |= self.messages.len() >= EARLY.0 || self.bytes > EARLY.1;
        if !self.is_full {
            self.messages.push(message.clone());
        }
    }
}

/// Reads messages by their numbers, those of each side a page at a time.
pub struct Texts {
    reader: StoreReader,
    session: Session,
    /// The first ones of the client: they were read before.
    early: Arc<Early>,
    /// By side: consecutive messages.
    pages: [Vec<Message>; 2],
}

impl Texts {
    /// Of a session in a store.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(place: &DatabaseFile, session: &Session, early: Arc<Early>) -> Result<Texts> {
        let (reader, session) = (StoreReader::open(place.clone())?, session.clone());
        Ok(Texts { reader, session, early, pages: Default::default() })
    }

    /// A message of one side; `None` where it is gone.
    ///
    /// # Errors
    /// The database cannot be read; so for all that follow.
    pub fn message(&mut self, side: Direction, number: MessageNumber) -> Result<Option<&Message>> {
        let early = self.early.messages.binary_search_by_key(&number, |message| message.number);
        if let (Direction::ClientToServer, Ok(at)) = (side, early) {
            return Ok(Some(&self.early.messages[at]));
        }
        let page = &mut self.pages[side as usize];
        let find = |page: &[Message]| page.binary_search_by_key(&number, |message| message.number).ok();
        if find(page).is_none() {
            *page = self.reader.conversation(&self.session, Some(side), Page::from(number, AHEAD))?;
        }
        Ok(find(page).map(|at| &page[at]))
    }

    /// An answer of the server.
    ///
    /// # Errors
    /// As for [`Texts::message`].
    pub fn answer(&mut self, number: MessageNumber) -> Result<Answer> {
        let gone = || Answer::Nothing("the recorded answer is not there any more".to_owned());
        Ok(self.message(Direction::ServerToClient, number)?.map_or_else(gone, Answer::of))
    }

    /// A member of a message, as JSON text.
    pub fn part(&mut self, side: Direction, number: MessageNumber, name: &str) -> Result<Option<&str>> {
        Ok(self.message(side, number)?.and_then(|message| part(message, name)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::talk;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn each_message_is_read_wherever_one_looked_before(numbers in prop::collection::vec(0..1_300_u64, 1..60)) {
            let call = |id| format!("-> {{\"id\":{id},\"method\":\"ping\"}}\n<- {{\"id\":{id},\"result\":{{\"n\":{id}}}}}\n");
            let messages = talk::read(&(0..600).map(call).collect::<String>());
            let mut texts = talk::recorded(&messages).texts().unwrap();
            for (at, number) in numbers.into_iter().enumerate() {
                if at == 30 {
                    texts.early = Arc::default();
                }
                let wanted = messages.iter().find(|message| message.number.0 == number);
                for side in [Direction::ClientToServer, Direction::ServerToClient] {
                    let found = texts.message(side, MessageNumber(number)).unwrap();
                    let said = |message: &Message| (message.number, message.raw.clone(), part(message, "params").map(str::to_owned), message.answers);
                    let wanted = wanted.filter(|message| message.direction == side);
                    prop_assert_eq!(found.map(said), wanted.map(said));
                }
            }
        }
    }
}
