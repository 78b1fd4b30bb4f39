//! Masks what today's rules mask in recordings that are stored already: earlier versions knew fewer
//! secrets.
//!
//! ```text
//!  records  ── masked as text ─────────────────────────────► rows
//!  packets, decrypted bytes ─► decoder ─► Packets (masks) ─► the same chunks, with masked bytes
//! ```
//!
//! Packets are decoded again, a connection at a time, because only the decoder knows where secrets
//! are. What TLS carried has no packets, so it is decoded in packets that are made for it.
//! Messages stay as they are.

mod plaintext;

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail};
use rusqlite::{Connection, TransactionBehavior, params};

use super::chunk::{Builder, OpenChunk, StoredPacket};
use super::packets::Packets;
use super::record::{capture, exchange, packet};
use super::text::Packer;
use super::{Capture, CaptureId, CaptureKind, DatabaseFile, StoreReader, WriteOptions, mask, migrate};
use crate::capture::pipe::{self, PipeEvent};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::decode::exchange::{Exchange, Fields};
use crate::decode::http::{secrets_of_field, secrets_of_target};
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::secrets;
use crate::event::Event;

/// The time to wait for other programs that use the database.
const BUSY: Duration = Duration::from_secs(5);

/// Packets in order of number.
pub type PacketIterator<'a> = dyn Iterator<Item = anyhow::Result<StoredPacket>> + 'a;

/// How secrets are found and masked.
pub struct MaskRules<'a> {
    /// The key of the tags.
    pub key: Option<MaskKey>,
    /// Masks the words of a command line.
    pub command: &'a dyn Fn(&[String]) -> Vec<String>,
    /// Masks a line for people.
    pub line: &'a dyn Fn(&str) -> String,
    /// Decodes the packets of a connection. The masker gets each packet, and then its events.
    pub decode: &'a dyn Fn(&mut PacketIterator<'_>, &mut PacketMasker) -> anyhow::Result<()>,
}

/// Numbers of places with secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskCounts {
    /// Recordings with any of them.
    pub recordings: u64,
    /// Command lines and URLs of servers.
    pub command_lines: u64,
    /// HTTP exchanges: header fields and targets.
    pub exchanges: u64,
    /// Findings whose text repeats a secret.
    pub findings: u64,
    /// Packets, and pieces of what TLS carried.
    pub packets: u64,
    /// Connections whose TLS keys are stored.
    pub keys: u64,
}

impl MaskCounts {
    /// Whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        *self == MaskCounts::default()
    }

    fn add(&mut self, other: MaskCounts) {
        self.recordings += u64::from(!other.is_empty());
        self.command_lines += other.command_lines;
        self.exchanges += other.exchanges;
        self.findings += other.findings;
        self.packets += other.packets;
        self.keys += other.keys;
    }
}

/// The stage of a writer that masks packets, for packets that are stored already.
pub struct PacketMasker {
    stage: Packets,
    connection: Option<crate::decode::ConnectionId>,
    /// The packets with masked bytes.
    masked: HashMap<PacketNumber, Vec<u8>>,
}

impl PacketMasker {
    fn new(key: Option<MaskKey>) -> anyhow::Result<PacketMasker> {
        let stage = Packets::new(&WriteOptions { mask_key: key, ..WriteOptions::default() }, &std::env::temp_dir())?;
        Ok(PacketMasker { stage, connection: None, masked: HashMap::new() })
    }

    /// Takes a packet. Its events follow.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.stage.observe(packet);
    }

    /// Takes an event of the packet.
    pub fn event(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Connection(connection) if self.connection != Some(connection.id) => {
                self.connection = Some(connection.id);
                self.stage.keep(connection.id);
            }
            Event::Closed(connection) => self.stage.closed(connection)?,
            Event::Segment(segment) => self.stage.segment(segment)?,
            Event::Secret { connection, side, start, end, mask } => {
                self.stage.secret(connection, side, start..end, mask);
            }
            Event::Cleared { connection, side, offset } => self.stage.cleared(connection, side, offset)?,
            _ => {}
        }
        self.collect()
    }

    fn finish(mut self) -> anyhow::Result<HashMap<PacketNumber, Vec<u8>>> {
        self.stage.finish()?;
        self.collect()?;
        Ok(self.masked)
    }

    fn collect(&mut self) -> anyhow::Result<()> {
        for chunk in self.stage.take_ready() {
            let mut chunk = OpenChunk::open(chunk.connection, &chunk.data)?;
            while let Some(packet) = chunk.next()? {
                if packet.masked {
                    self.masked.insert(packet.number, packet.data);
                }
            }
        }
        Ok(())
    }
}

/// Counts what [`mask_recordings`] would mask. Recordings that are being written are not examined.
pub fn count_secrets(place: &DatabaseFile, rules: &MaskRules<'_>, now: Time) -> anyhow::Result<MaskCounts> {
    let reader = StoreReader::open(place)?;
    let mut counts = MaskCounts::default();
    for capture in captures(&reader.db)?.iter().filter(|capture| !capture.is_live(now)) {
        counts.add(Sweep { db: &reader.db, capture: capture.id, rules, writes: false }.run(capture)?);
    }
    Ok(counts)
}

/// Masks all recordings of a database, and removes the earlier content from the file.
///
/// # Errors
/// A recording is being written, the database cannot be read or written, or is damaged. Or another
/// program has it open, so that earlier content is still in the file.
pub fn mask_recordings(place: &DatabaseFile, rules: &MaskRules<'_>, now: Time) -> anyhow::Result<MaskCounts> {
    let mut db = migrate::open_writer(place, BUSY)?;
    db.pragma_update(None, "secure_delete", true)?;
    let mut counts = MaskCounts::default();
    // Nobody can begin a recording between the check and the end of the transaction.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let captures = captures(&transaction)?;
    if let Some(live) = captures.iter().find(|capture| capture.is_live(now)) {
        bail!("recording {} is being written by process {}: end it first", live.id.0, live.info.process);
    }
    for capture in &captures {
        counts.add(Sweep { db: &transaction, capture: capture.id, rules, writes: true }.run(capture)?);
    }
    transaction.commit()?;
    clean(&db).with_context(|| {
        format!("all recordings in {} are masked, but earlier content is still in the file", place.path().display())
    })?;
    Ok(counts)
}

/// Removes what was deleted or overwritten from the file and its write-ahead log.
fn clean(db: &Connection) -> anyhow::Result<()> {
    // The content may be larger than the memory.
    db.pragma_update(None, "temp_store", "FILE")?;
    db.execute_batch("VACUUM")?;
    let is_blocked: bool = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_blocked {
        bail!("another program has it open: end it, and run the command again");
    }
    Ok(())
}

fn captures(db: &Connection) -> anyhow::Result<Vec<Capture>> {
    let sql = format!("SELECT {} FROM capture ORDER BY id", capture::COLUMNS);
    db.prepare(&sql)?.query_and_then([], capture::read)?.collect()
}

/// The search through one recording.
struct Sweep<'a> {
    db: &'a Connection,
    capture: CaptureId,
    rules: &'a MaskRules<'a>,
    /// Whether what is found is masked, or only counted.
    writes: bool,
}

impl Sweep<'_> {
    fn run(&self, capture: &Capture) -> anyhow::Result<MaskCounts> {
        Ok(MaskCounts {
            recordings: 0,
            command_lines: self.command_lines(capture)?,
            exchanges: self.exchanges()?,
            findings: self.findings()?,
            packets: self.packets()? + self.plaintext()?,
            keys: self.keys()?,
        })
    }

    /// Executes a statement that changes something. Parameters: the key, the values.
    fn change(&self, sql: &str, parameters: impl rusqlite::Params) -> anyhow::Result<()> {
        if self.writes {
            self.db.prepare_cached(sql)?.execute(parameters)?;
        }
        Ok(())
    }

    fn command_lines(&self, capture: &Capture) -> anyhow::Result<u64> {
        let mut changed = 0;
        // Others name files and interfaces.
        if !matches!(capture.info.kind, CaptureKind::Import | CaptureKind::Sniff) {
            let source = &capture.info.source;
            let words: Vec<String> = source.split(' ').map(str::to_owned).collect();
            let masked = (self.rules.command)(&words).join(" ");
            if masked != *source {
                changed += 1;
                self.change("UPDATE capture SET source = ? WHERE id = ?", params![masked, self.capture.0])?;
            }
        }
        let sql = "SELECT id, command FROM session WHERE capture = ? AND command IS NOT NULL";
        let sessions: Vec<(i64, String)> = self.rows(sql, self.capture.0, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (id, command) in sessions {
            let words: Vec<String> = serde_json::from_str(&command)?;
            let masked = (self.rules.command)(&words);
            if masked != words {
                changed += 1;
                let masked = serde_json::to_string(&masked)?;
                self.change("UPDATE session SET command = ? WHERE id = ?", params![masked, id])?;
            }
        }
        Ok(changed)
    }

    fn exchanges(&self) -> anyhow::Result<u64> {
        let sql = format!("SELECT {} FROM exchange WHERE capture = ?", exchange::COLUMNS);
        let mut select = self.db.prepare(&sql)?;
        let mut changed = Vec::new();
        for row in select.query_and_then([self.capture.0], exchange::read)? {
            let before = row?;
            let after = self.masked_exchange(before.clone());
            if after != before {
                changed.push(after);
            }
        }
        for exchange in changed.iter().filter(|_| self.writes) {
            exchange::update_texts(self.db, self.capture, exchange)?;
        }
        Ok(changed.len() as u64)
    }

    fn masked_exchange(&self, exchange: Exchange) -> Exchange {
        let is_coded = exchange.http_version == "2";
        let mask =
            |text: &str, found| secrets::masked(text, found, |value| Mask::of(self.rules.key, value)).into_owned();
        let fields = |fields: &Fields| -> Fields {
            let value = |(name, value): (&str, &str)| {
                let found = secrets_of_field(name.as_bytes(), value.as_bytes(), is_coded);
                (name.to_owned(), mask(value, found))
            };
            fields.iter().map(value).collect()
        };
        let mut masked = exchange;
        masked.target = masked.target.map(|target| mask(&target, secrets_of_target(target.as_bytes(), is_coded)));
        masked.request.fields = fields(&masked.request.fields);
        masked.response.fields = fields(&masked.response.fields);
        masked
    }

    fn findings(&self) -> anyhow::Result<u64> {
        let sql = "SELECT id, text FROM finding WHERE capture = ?";
        let findings: Vec<(i64, String)> = self.rows(sql, self.capture.0, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut changed = 0;
        for (id, text) in findings {
            let masked = (self.rules.line)(&text);
            if masked != text {
                changed += 1;
                self.change("UPDATE finding SET text = ? WHERE id = ?", params![masked, id])?;
            }
        }
        Ok(changed)
    }

    /// TLS keys open the stored packets with every secret in them.
    fn keys(&self) -> anyhow::Result<u64> {
        let count: i64 =
            self.db.query_row("SELECT count(*) FROM key_log WHERE capture = ?", [self.capture.0], |row| row.get(0))?;
        self.change("DELETE FROM key_log WHERE capture = ?", [self.capture.0])?;
        Ok(count as u64)
    }

    fn packets(&self) -> anyhow::Result<u64> {
        let sql = "SELECT DISTINCT connection FROM packet_chunk WHERE capture = ?";
        let mut changed = 0;
        for connection in self.rows(sql, self.capture.0, |row| Ok(row.get::<_, i64>(0)?))? {
            let sql = "SELECT id FROM packet_chunk WHERE connection = ? ORDER BY first_number, id";
            let chunks: Vec<i64> = self.rows(sql, connection, |row| Ok(row.get(0)?))?;
            let masked = self.decoded(&mut self.packets_of(&chunks))?;
            for chunk in chunks {
                changed += self.rewrite(chunk, &masked)?;
            }
        }
        Ok(changed)
    }

    /// The packets of chunks, in order of number as far as the chunks do not overlap.
    fn packets_of<'c>(&'c self, chunks: &'c [i64]) -> impl Iterator<Item = anyhow::Result<StoredPacket>> + 'c {
        chunks.iter().flat_map(|chunk| {
            let mut open = Some(packet::open(self.db, *chunk));
            std::iter::from_fn(move || match open.as_mut()? {
                Ok(chunk) => chunk.next().map_err(anyhow::Error::from).transpose(),
                Err(_) => open.take()?.err().map(Err),
            })
        })
    }

    /// Decodes packets. Returns those with masked bytes.
    fn decoded(&self, packets: &mut PacketIterator<'_>) -> anyhow::Result<HashMap<PacketNumber, Vec<u8>>> {
        let mut masker = PacketMasker::new(self.rules.key)?;
        (self.rules.decode)(packets, &mut masker)?;
        masker.finish()
    }

    /// Replaces the bytes of packets in a chunk. Returns the number of those that changed.
    fn rewrite(&self, id: i64, masked: &HashMap<PacketNumber, Vec<u8>>) -> anyhow::Result<u64> {
        let mut chunk = packet::open(self.db, id)?;
        let (mut builder, mut packer) = (Builder::default(), Packer::new()?);
        let mut changed = 0;
        let mut connection = Default::default();
        while let Some(mut packet) = chunk.next()? {
            connection = packet.connection;
            let data = match self.masked_pipe(&packet) {
                Some(data) => Some(data),
                None => masked.get(&packet.number).cloned(),
            };
            if let Some(data) = data.filter(|data| *data != packet.data) {
                changed += 1;
                packet.data = data;
                packet.masked = true;
            }
            builder.push(&packet, &[], &mut packer);
        }
        if changed > 0 && self.writes {
            let (chunk, _) = builder.finish(connection, &mut packer)?;
            self.change("UPDATE packet_chunk SET data = ? WHERE id = ?", params![chunk.data, id])?;
        }
        Ok(changed)
    }

    /// A pipe packet with its secrets masked: the command line, or the log of the server.
    fn masked_pipe(&self, packet: &StoredPacket) -> Option<Vec<u8>> {
        if packet.link != LinkType::PIPE {
            return None;
        }
        let mut data = packet.data.clone();
        if let Some((process, PipeEvent::Start(mut start))) = pipe::decode(&packet.data) {
            let masked = (self.rules.command)(&start.command);
            if masked != start.command {
                start.command = masked;
                data.clear();
                pipe::encode(process, &PipeEvent::Start(start), &mut data);
            }
        } else {
            mask::mask_log(&mut data, self.rules.key);
        }
        Some(data)
    }

    /// The rows of a query with one parameter.
    fn rows<T>(
        &self,
        sql: &str,
        parameter: impl rusqlite::ToSql,
        read: impl FnMut(&rusqlite::Row<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        self.db.prepare_cached(sql)?.query_and_then([parameter], read)?.collect()
    }
}
