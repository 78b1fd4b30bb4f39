//! Captures: one row per import, live capture, wrapped server, proxy, replay or mock.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use super::Columns;
use crate::capture::Damage;
use crate::capture::Time;
use crate::mcp::SessionNumber;
use crate::source::now;
use crate::store::codec::{Code, Damaged};
use crate::store::packets::PacketCounts;
use crate::store::{CaptureId, process};

/// The origin of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaptureKind {
    /// Capture files were read.
    #[default]
    Import,
    /// Packets were captured on an interface.
    Sniff,
    /// A server ran with its pipes recorded.
    Wrap,
    /// A proxy recorded the traffic that it passed on.
    Proxy,
    /// A recording was sent to a server again.
    Replay,
    /// A mock played the server of a recording.
    Mock,
    /// The pipes of servers that already ran were recorded.
    Attach,
    /// Recordings of other programs were read, which have messages without packets.
    Foreign,
}

impl CaptureKind {
    /// Whether the layers below the content of its packets are invented: this program itself was an
    /// endpoint, and nobody captured its sockets, or another program recorded the content alone.
    pub fn is_made_up(self) -> bool {
        matches!(self, CaptureKind::Proxy | CaptureKind::Replay | CaptureKind::Mock | CaptureKind::Foreign)
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
        CaptureKind::Attach,
        CaptureKind::Foreign,
    ];
    const WHAT: &'static str = "a kind of capture";
}

/// The properties of a capture at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// The origin of the capture.
    pub kind: CaptureKind,
    /// The files, the interface or the command line.
    pub source: String,
    /// The id of the process that writes it.
    pub process: u32,
    /// The time of its start by the system clock.
    pub started: Time,
    /// The session of the same database that a replay sent again.
    pub replay_of: Option<SessionNumber>,
}

impl CaptureInfo {
    /// A capture that this process begins now. `source` is its name in lists.
    pub fn begun(kind: CaptureKind, source: String) -> CaptureInfo {
        CaptureInfo { kind, source, process: std::process::id(), started: now(), replay_of: None }
    }
}

/// The properties of a capture at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The time of its end by the system clock.
    pub ended: Time,
    /// Numbers of packets that mcptap cannot use, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The places where the files were damaged.
    pub damage: Vec<Damage>,
}

/// Counters of a capture that is being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of packets observed.
    pub packets: u64,
    /// The sum of their captured bytes.
    pub bytes: u64,
    /// The earliest and the latest time among them.
    pub times: Option<(Time, Time)>,
    /// Numbers of packets, by what became of them.
    pub packet_counts: PacketCounts,
    /// Records that could not be written and were discarded.
    pub lost: u64,
}

/// The least time between two notes that a writer lives, in nanoseconds. Each costs a page of the
/// database. Two of them fit into the time after which a reader checks the process itself, see
/// [`Capture::is_live`].
pub(in crate::store) const SIGN_OF_LIFE: u64 = 4_000_000_000;

/// A stored capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its number in the database.
    pub id: CaptureId,
    /// The properties at its start.
    pub info: CaptureInfo,
    /// The last sign of life of its writer, by the system clock.
    pub last_alive: Time,
    /// The counters up to the last commit.
    pub counts: Counts,
    /// The properties at its end. `None` if it is being written, or if its writer died.
    pub summary: Option<Summary>,
}

impl Capture {
    /// Whether it is still being written: it is not finished, and its writer gave a sign of life
    /// within ten seconds before `now`, or its process still runs.
    pub fn is_live(&self, now: Time) -> bool {
        let is_recent = || now.since(self.last_alive) < 10_000_000_000;
        self.summary.is_none() && (is_recent() || process::runs_since(self.info.process, self.info.started))
    }
}

pub(in crate::store) fn insert(db: &Connection, info: &CaptureInfo) -> rusqlite::Result<CaptureId> {
    let replayed = info.replay_of.map(|session| session.0);
    db.prepare(
        "INSERT INTO capture (kind, source, process, started, last_alive, replay_of) VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
    )?
    .insert(params![info.kind.code(), info.source, info.process, info.started.0, replayed])
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
    packets_blanked, records_lost, ended, skipped, damage, replay_of";

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<Capture> {
    const DAMAGED: Damaged = Damaged("a capture");
    let mut columns = Columns::new(row);
    let id = columns.capture()?;
    let mut info = CaptureInfo {
        kind: columns.code()?,
        source: columns.get()?,
        process: columns.get()?,
        started: Time(columns.get()?),
        replay_of: None,
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
    info.replay_of = columns.get::<Option<u32>>()?.map(SessionNumber);
    let summary = ended.map(|ended| Summary { ended: Time(ended), skipped, damage });
    Ok(Capture { id, info, last_alive, counts, summary })
}
