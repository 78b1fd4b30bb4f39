//! Captures: one row for every import, live capture or wrapped server.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use super::Columns;
use crate::capture::Damage;
use crate::capture::Time;
use crate::store::codec::{Code, Damaged};
use crate::store::packets::PacketCounts;
use crate::store::{CaptureId, process};

/// How a capture came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaptureKind {
    /// Capture files were read.
    Import,
    /// An interface was listened to.
    Sniff,
    /// A server was run with its pipes recorded.
    Wrap,
    /// A proxy stood in between.
    Proxy,
    /// A recording was sent again.
    Replay,
    /// A recorded server was played.
    Mock,
}

impl CaptureKind {
    /// Whether its packets below what they carry are made up: this program spoke itself, over
    /// sockets that nobody listened to.
    pub fn is_made_up(self) -> bool {
        matches!(self, CaptureKind::Proxy | CaptureKind::Replay | CaptureKind::Mock)
    }
}

impl Code for CaptureKind {
    const ALL: &'static [CaptureKind] = &[
        CaptureKind::Import,
        CaptureKind::Sniff,
        CaptureKind::Wrap,
        CaptureKind::Proxy,
        CaptureKind::Replay,
        CaptureKind::Mock,
    ];
    const WHAT: &'static str = "a kind of capture";
}

/// What is known of a capture when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// How it comes about.
    pub kind: CaptureKind,
    /// From what: the files, the interface, the command line.
    pub source: String,
    /// The process that writes it.
    pub process: u32,
    /// When it was begun, by the clock.
    pub started: Time,
}

/// What is known of a capture when it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// When it was over, by the clock.
    pub ended: Time,
    /// Packets that were nothing for mcptap, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Where the files were broken.
    pub damage: Vec<Damage>,
}

/// What is counted while a capture is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets observed.
    pub packets: u64,
    /// Their captured bytes.
    pub bytes: u64,
    /// The earliest and the latest of their times.
    pub times: Option<(Time, Time)>,
    /// What became of them.
    pub packet_counts: PacketCounts,
    /// Records that could not be written and were given up.
    pub lost: u64,
}

/// A capture as it was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its number in the database.
    pub id: CaptureId,
    /// What was known when it began.
    pub info: CaptureInfo,
    /// When its writer last said that it lives, by the clock.
    pub last_alive: Time,
    /// What was counted up to the last commit.
    pub counts: Counts,
    /// What was known in the end; `None`: it is being written, or its writer died.
    pub summary: Option<Summary>,
}

impl Capture {
    /// Whether it is still being written: not finished, and heard of within ten seconds before
    /// `now` or by a process that still runs.
    pub fn is_live(&self, now: Time) -> bool {
        let is_recent = || now.since(self.last_alive) < 10_000_000_000;
        self.summary.is_none() && (is_recent() || process::runs_since(self.info.process, self.info.started))
    }
}

pub(in crate::store) fn insert(db: &Connection, info: &CaptureInfo) -> rusqlite::Result<CaptureId> {
    db.prepare("INSERT INTO capture (kind, source, process, started, last_alive) VALUES (?1, ?2, ?3, ?4, ?4)")?
        .insert(params![info.kind.code(), info.source, info.process, info.started.0])
        .map(|id| CaptureId(id as u32))
}

pub(in crate::store) fn update(
    db: &Connection,
    id: CaptureId,
    counts: &Counts,
    last_alive: Time,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE capture SET packets = ?, bytes = ?, first_time = ?, last_time = ?, packets_kept = ?, packets_dropped = ?,
             packets_blanked = ?, records_lost = ?, last_alive = ? WHERE id = ?",
    )?
    .execute(params![
        counts.packets as i64,
        counts.bytes as i64,
        counts.times.map(|(first, _)| first.0),
        counts.times.map(|(_, last)| last.0),
        counts.packet_counts.stored as i64,
        counts.packet_counts.discarded as i64,
        counts.packet_counts.blanked as i64,
        counts.lost as i64,
        last_alive.0,
        id.0,
    ])?;
    Ok(())
}

pub(in crate::store) fn finish(db: &Connection, id: CaptureId, summary: &Summary) -> anyhow::Result<()> {
    let damage: Vec<_> = summary.damage.iter().map(|damage| (&damage.file, damage.offset, &damage.reason)).collect();
    let (skipped, damage) = (serde_json::to_string(&summary.skipped)?, serde_json::to_string(&damage)?);
    db.prepare("UPDATE capture SET ended = ?, skipped = ?, damage = ? WHERE id = ?")?.execute(params![
        summary.ended.0,
        skipped,
        damage,
        id.0
    ])?;
    Ok(())
}

/// Columns as [`read`] takes them.
pub(in crate::store) const COLUMNS: &str = "
    id, kind, source, process, started, last_alive, packets, bytes, first_time, last_time, packets_kept, packets_dropped,
    packets_blanked, records_lost, ended, skipped, damage";

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<Capture> {
    const DAMAGED: Damaged = Damaged("a capture");
    let mut columns = Columns::new(row);
    let id = columns.capture()?;
    let info = CaptureInfo {
        kind: columns.code()?,
        source: columns.get()?,
        process: columns.get()?,
        started: Time(columns.get()?),
    };
    let last_alive = Time(columns.get()?);
    let (packets, bytes) = (columns.u64()?, columns.u64()?);
    let (first, last): (Option<i64>, Option<i64>) = (columns.get()?, columns.get()?);
    let counts = Counts {
        packets,
        bytes,
        times: first.zip(last).map(|(first, last)| (Time(first), Time(last))),
        packet_counts: PacketCounts { stored: columns.u64()?, discarded: columns.u64()?, blanked: columns.u64()? },
        lost: columns.u64()?,
    };
    let ended: Option<i64> = columns.get()?;
    let skipped = serde_json::from_slice(columns.bytes("a capture")?).map_err(|_| DAMAGED)?;
    let damage: Vec<(String, u64, String)> =
        serde_json::from_slice(columns.bytes("a capture")?).map_err(|_| DAMAGED)?;
    let damage = damage.into_iter().map(|(file, offset, reason)| Damage { file, offset, reason }).collect();
    let summary = ended.map(|ended| Summary { ended: Time(ended), skipped, damage });
    Ok(Capture { id, info, last_alive, counts, summary })
}
