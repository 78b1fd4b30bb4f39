//! The texts of a recording, read from its store as they are needed: a replay holds what is open, however long the recording is.

use anyhow::Result;

use crate::decode::Direction;
use crate::mcp::facts::part;
use crate::mcp::{Message, MessageNumber, Session};
use crate::store::{Page, Place, Reader};

/// Messages that are read at once: whoever asks for one asks for those behind it next.
const AHEAD: usize = 256;

/// Reads messages by their numbers, those of each side a page at a time.
pub struct Texts {
    reader: Reader,
    session: Session,
    /// By side: consecutive messages.
    pages: [Vec<Message>; 2],
}

impl Texts {
    /// Of a session in a store.
    ///
    /// # Errors
    /// The database cannot be opened.
    pub fn open(place: &Place, session: &Session) -> Result<Texts> {
        Ok(Texts { reader: Reader::open(place.clone())?, session: session.clone(), pages: Default::default() })
    }

    /// A message of one side; `None` where it is gone.
    ///
    /// # Errors
    /// The database cannot be read; so for all that follow.
    pub fn message(&mut self, side: Direction, number: MessageNumber) -> Result<Option<&Message>> {
        let page = &mut self.pages[side as usize];
        let find = |page: &[Message]| page.binary_search_by_key(&number, |message| message.number).ok();
        if find(page).is_none() {
            *page = self.reader.conversation(&self.session, Some(side), Page::from(number, AHEAD))?;
        }
        Ok(find(page).map(|at| &page[at]))
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
            for number in numbers {
                let wanted = messages.iter().find(|message| message.number.0 == number);
                for side in [Direction::ClientToServer, Direction::ServerToClient] {
                    let found = texts.message(side, MessageNumber(number)).unwrap();
                    let said = |message: &Message| (message.number, message.raw.clone(), message.envelope.clone(), message.answers);
                    let wanted = wanted.filter(|message| message.direction == side);
                    prop_assert_eq!(found.map(said), wanted.map(said));
                }
            }
        }
    }
}
