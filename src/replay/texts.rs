//! Reads messages of a recording from the store as they are needed, so that memory does not grow
//! with the recording.

use std::sync::Arc;

use anyhow::Result;

use crate::compare::Answer;
use crate::decode::Direction;
use crate::mcp::content::part;
use crate::mcp::{Message, MessageNumber, Session};
use crate::store::{DatabaseFile, StoreReader};

/// The most messages, and the most bytes of them, that are retained from the first pass.
const MAX_FIRST: (usize, usize) = (2_048, 1 << 20);

/// Messages per read. A caller usually asks for the following messages next.
const PAGE: usize = 256;

/// The first messages of the client, retained from the first pass. A short recording is therefore
/// not read twice.
#[derive(Clone, Debug, Default)]
pub struct FirstMessages {
    messages: Vec<Message>,
    bytes: usize,
    is_full: bool,
}

impl FirstMessages {
    /// Retains the next message of the client, if there is room.
    pub fn add(&mut self, message: &Message) {
        self.bytes += message.raw.len();
        self.is_full |= self.messages.len() >= MAX_FIRST.0 || self.bytes > MAX_FIRST.1;
        if !self.is_full {
            self.messages.push(message.clone());
        }
    }
}

/// Reads messages by their numbers, one page per direction at a time.
pub struct Texts {
    place: DatabaseFile,
    /// Opened for the first message that has to be read. To open a database takes as long as many
    /// messages of a replay.
    reader: Option<StoreReader>,
    session: Session,
    /// The client's first messages, which need no reading.
    first_messages: Arc<FirstMessages>,
    /// By direction: the page that was read last, sorted by number.
    pages: [Vec<Message>; 2],
}

impl Texts {
    /// The messages of a session.
    pub fn new(place: &DatabaseFile, session: &Session, first_messages: Arc<FirstMessages>) -> Texts {
        Texts {
            place: place.clone(),
            reader: None,
            session: session.clone(),
            first_messages,
            pages: Default::default(),
        }
    }

    /// The message of one direction with this number. `None` if the store does not contain
    /// it any more.
    pub fn message(&mut self, side: Direction, number: MessageNumber) -> Result<Option<&Message>> {
        let first_messages = self.first_messages.messages.binary_search_by_key(&number, |message| message.number);
        if let (Direction::ClientToServer, Ok(at)) = (side, first_messages) {
            return Ok(Some(&self.first_messages.messages[at]));
        }
        let page = &mut self.pages[side as usize];
        let find = |page: &[Message]| page.binary_search_by_key(&number, |message| message.number).ok();
        if find(page).is_none() {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => none.insert(StoreReader::open(self.place.clone())?),
            };
            *page = reader.conversation(&self.session, side, number, PAGE)?;
        }
        Ok(find(page).map(|at| &page[at]))
    }

    /// The response of the server with this number, as an answer.
    pub fn answer(&mut self, number: MessageNumber) -> Result<Answer> {
        let missing = || Answer::Nothing("the recorded response is no longer in the store".to_owned());
        Ok(self.message(Direction::ServerToClient, number)?.map_or_else(missing, Answer::of))
    }

    /// A member of a message as JSON text. Errors as for [`Texts::message`].
    pub fn part(&mut self, side: Direction, number: MessageNumber, name: &str) -> Result<Option<&str>> {
        Ok(self.message(side, number)?.and_then(|message| part(message, name)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::test_recordings;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn messages_are_read_in_any_order(numbers in prop::collection::vec(0..1_300_u64, 1..60)) {
            let call = |id| format!("-> {{\"id\":{id},\"method\":\"ping\"}}\n<- {{\"id\":{id},\"result\":{{\"n\":{id}}}}}\n");
            let messages = test_recordings::read(&(0..600).map(call).collect::<String>());
            let mut texts = test_recordings::analyze(&messages).texts();
            for (at, number) in numbers.into_iter().enumerate() {
                if at == 30 {
                    texts.first_messages = Arc::default();
                }
                let wanted = messages.iter().find(|message| message.number.0 == number);
                for side in [Direction::ClientToServer, Direction::ServerToClient] {
                    let found = texts.message(side, MessageNumber(number)).unwrap();
                    let fields = |message: &Message| (message.number, message.raw.clone(), part(message, "params").map(str::to_owned), message.answers);
                    let wanted = wanted.filter(|message| message.direction == side);
                    prop_assert_eq!(found.map(fields), wanted.map(fields));
                }
            }
        }
    }
}
