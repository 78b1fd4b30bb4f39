//! A page that follows a recording: it has no data, and gets the blocks of an exported page from
//! its server, new ones as they are recorded.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::block::{self, BlockKind, ListBlocks, raw};
use super::rows::{ExchangeText, FindingText, SessionFacts};
use super::{BODY, FROM_SERVER, TimelineBlocks, end, head, policy};
use crate::capture::Time;
use crate::decode::exchange::ExchangeNumber;
use crate::mcp::{Session, SessionNumber};
use crate::store::{Scope, StoreReader};

/// The content security policy of the page. It may ask its own server for data.
pub fn page_policy() -> String {
    policy(FROM_SERVER, "connect-src 'self'; ")
}

/// Writes the page without data.
pub fn write_page(out: &mut dyn Write) -> Result<()> {
    head(out, "recording", &page_policy())?;
    raw(out, BODY)?;
    end(out, FROM_SERVER)
}

/// The sessions that a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Only this session.
    One(SessionNumber),
    /// This session, and all that are recorded later.
    From(SessionNumber),
    /// All sessions of the database.
    All,
}

/// The data that one page has.
pub struct PageData {
    followed: Followed,
    sessions: BTreeMap<SessionNumber, SentSession>,
}

/// What a page has of a session.
struct SentSession {
    record: Session,
    timeline: TimelineBlocks,
    /// Hashes of the facts, of all findings, and of each exchange.
    facts: Option<u64>,
    findings: Option<u64>,
    exchanges: HashMap<ExchangeNumber, u64>,
    /// The session was over when all of it was sent.
    is_complete: bool,
}

impl PageData {
    /// A page that has nothing.
    pub fn new(followed: Followed) -> PageData {
        PageData { followed, sessions: BTreeMap::new() }
    }

    /// Writes what the page lacks. The rows of timelines are always written; facts, exchanges and
    /// findings only if `is_thorough`, because they are read as a whole. Returns whether the page
    /// lacked anything that was written.
    pub fn write_new(
        &mut self,
        reader: &StoreReader,
        now: Time,
        is_thorough: bool,
        out: &mut dyn Write,
    ) -> Result<bool> {
        let mut out = Counted { out, bytes: 0 };
        let sessions: Vec<Session> = match self.followed {
            Followed::One(number) => reader.session(number)?.into_iter().collect(),
            Followed::All => reader.all_sessions().collect::<Result<_>>()?,
            Followed::From(first) => reader.sessions_from(first).collect::<Result<_>>()?,
        };
        for session in sessions {
            let known = self.sessions.get(&session.number);
            if known.is_some_and(|sent| sent.is_complete && sent.record == session) {
                continue;
            }
            let is_new = known.is_none();
            // Read before the rest: if the session is over, the rest is complete.
            let is_live = reader.listed_session(session.number)?.is_some_and(|listed| listed.is_live(now));
            let sent = self.sessions.entry(session.number).or_insert_with(|| SentSession::new(&session));
            sent.record = session;
            sent.write(reader, is_thorough || is_new || !is_live, &mut out)?;
            sent.is_complete = !is_live;
        }
        Ok(out.bytes > 0)
    }
}

impl SentSession {
    fn new(session: &Session) -> SentSession {
        SentSession {
            record: session.clone(),
            timeline: TimelineBlocks::new(session.number),
            facts: None,
            findings: None,
            exchanges: HashMap::new(),
            is_complete: false,
        }
    }

    fn write(&mut self, reader: &StoreReader, is_thorough: bool, out: &mut dyn Write) -> Result<()> {
        let (number, start) = (self.record.number, self.record.started);
        if is_thorough {
            let facts = SessionFacts::read(reader, &self.record)?;
            let hash = hash(&facts)?;
            if self.facts.replace(hash) != Some(hash) {
                block::write(out, BlockKind::Session, number, 0, &facts, &[])?;
            }
        }
        self.timeline.write(reader, &self.record, None, out)?;
        if !is_thorough {
            return Ok(());
        }
        let mut exchanges = ListBlocks::new(BlockKind::Exchanges, number);
        for exchange in reader.all_exchanges(number) {
            let exchange = exchange?;
            let key = exchange.number;
            let text = ExchangeText::new(exchange, start);
            let hash = hash(&text)?;
            if self.exchanges.insert(key, hash) != Some(hash) {
                exchanges.push(out, &text)?;
            }
        }
        exchanges.flush(out)?;
        let mut known = HashSet::new();
        let mut findings = Vec::new();
        for row in reader.all_findings(Scope::Session(number)) {
            let row = row?;
            let is_first = known.insert(row.rule.clone());
            findings.push(FindingText::new(row, is_first));
        }
        let hash = hash(&findings)?;
        if self.findings.replace(hash) != Some(hash) {
            let mut blocks = ListBlocks::new(BlockKind::Findings, number);
            findings.iter().try_for_each(|finding| blocks.push(out, finding))?;
            blocks.flush(out)?;
        }
        Ok(())
    }
}

/// The hash of what would be written.
fn hash(value: &impl Serialize) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(value)?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// Counts what is written.
struct Counted<'o> {
    out: &'o mut dyn Write,
    bytes: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
