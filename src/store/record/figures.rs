//! Figures of a session that would need all its messages: a list of sessions shows them at once.
//!
//! A writer gathers them for each transaction and adds them to the row of the session. So they take
//! no memory between transactions, and the order of messages does not matter.

use std::collections::BTreeMap;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OptionalExtension, params};

use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::Message;
use crate::store::codec::{BlobReader, BlobWriter, Damaged};

/// Buckets of a power of two, as a power of two. A percentile differs from the exact one by less
/// than 1/64 of it.
const FINE: u32 = 5;

/// Counts of latencies: each bucket covers a narrow range of nanoseconds.
///
/// Values below 64 have buckets of their own. From there on, each power of two has 32 buckets, as
/// in an HDR histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct LatencyHistogram(BTreeMap<u32, u64>);

impl LatencyHistogram {
    pub(in crate::store) fn add(&mut self, latency: i64) {
        *self.0.entry(bucket(latency.max(0) as u64)).or_default() += 1;
    }

    fn merge(&mut self, other: &LatencyHistogram) {
        for (bucket, count) in &other.0 {
            let own = self.0.entry(*bucket).or_default();
            *own = own.saturating_add(*count);
        }
    }

    /// A percentile by the nearest-rank method, as the middle of its bucket. `None` without values.
    pub(in crate::store) fn percentile(&self, percent: u64) -> Option<i64> {
        let total = self.0.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        let rank = (u128::from(total) * u128::from(percent)).div_ceil(100).max(1) as u64;
        let mut below = 0u64;
        let found = self.0.iter().find(|(_, count)| {
            below = below.saturating_add(**count);
            below >= rank
        });
        found.map(|(bucket, _)| middle(*bucket))
    }

    fn write(&self) -> Vec<u8> {
        let mut blob = BlobWriter::default();
        let mut before = 0;
        for (bucket, count) in &self.0 {
            blob.u64((bucket - before).into());
            blob.u64(*count);
            before = *bucket;
        }
        blob.0
    }

    pub(in crate::store) fn read(blob: &[u8]) -> Result<LatencyHistogram, Damaged> {
        let mut blob = BlobReader::new(blob, "latencies of a session");
        let (mut counts, mut bucket) = (BTreeMap::new(), 0u32);
        while !blob.is_empty() {
            bucket = bucket.checked_add(blob.u32()?).filter(|bucket| *bucket <= LAST).ok_or(blob.damaged())?;
            counts.insert(bucket, blob.u64()?);
        }
        Ok(LatencyHistogram(counts))
    }
}

/// The bucket of the largest latency.
const LAST: u32 = ((62 - FINE) << FINE) + (2 << FINE) - 1;

/// The bucket of a latency: its highest `FINE + 1` bits, and how far they are shifted.
fn bucket(latency: u64) -> u32 {
    let shift = (63 - latency.max(1).leading_zeros()).saturating_sub(FINE);
    (shift << FINE) + (latency >> shift) as u32
}

/// The latency in the middle of a bucket.
fn middle(bucket: u32) -> i64 {
    let shift = (bucket >> FINE).saturating_sub(1);
    let low = u64::from(bucket - (shift << FINE)) << shift;
    (low + (1 << shift >> 1)).min(i64::MAX as u64) as i64
}

/// Figures of the messages of a session that are written in one transaction.
#[derive(Debug, Default)]
pub(in crate::store) struct SessionFigures {
    latencies: LatencyHistogram,
    /// The longest latency of a response of the server, and its request.
    slowest: Option<(i64, u64)>,
    tool_calls: u64,
}

impl SessionFigures {
    pub(in crate::store) fn add(&mut self, message: &Message) {
        let is_call = message.kind == Kind::Request && message.direction == Direction::ClientToServer;
        self.tool_calls += u64::from(is_call && message.method.as_deref() == Some("tools/call"));
        let Some((latency, request)) = message.latency.zip(message.answers) else { return };
        self.latencies.add(latency);
        // Of equal latencies the first counts.
        if message.direction == Direction::ServerToClient && self.slowest.is_none_or(|(slowest, _)| latency > slowest) {
            self.slowest = Some((latency, request.0));
        }
    }

    /// Adds the figures to those of the session's row.
    pub(in crate::store) fn write(&self, db: &Connection, session: i64) -> anyhow::Result<()> {
        let before: Option<Option<Vec<u8>>> = db
            .prepare_cached("SELECT latencies FROM session WHERE id = ?")?
            .query_row([session], |row| row.get(0))
            .optional()?;
        let mut latencies = LatencyHistogram::read(&before.flatten().unwrap_or_default())?;
        latencies.merge(&self.latencies);
        db.prepare_cached(
            "UPDATE session SET latencies = ?1, tool_calls = coalesce(tool_calls, 0) + ?2,
                 slowest_request = iif(?3 > coalesce(slowest, -1), ?4, slowest_request),
                 slowest = iif(?3 > coalesce(slowest, -1), ?3, slowest)
             WHERE id = ?5",
        )?
        .execute(params![
            latencies.write(),
            self.tool_calls as i64,
            self.slowest.map(|(latency, _)| latency),
            self.slowest.map(|(_, request)| request as i64),
            session
        ])?;
        Ok(())
    }
}

/// Defines the SQL function `merged_latencies(one, other)` for a session of which two files have
/// a histogram each.
pub(in crate::store) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("merged_latencies", 2, flags, |context| {
        let read = |argument: usize| match context.get_raw(argument) {
            ValueRef::Blob(blob) => LatencyHistogram::read(blob).map(Some),
            _ => Ok(None),
        };
        let read = |argument| read(argument).map_err(|damaged| Error::UserFunctionError(Box::new(damaged)));
        Ok(match (read(0)?, read(1)?) {
            (Some(mut one), Some(other)) => {
                one.merge(&other);
                Some(one.write())
            }
            (one, other) => one.or(other).map(|latencies| latencies.write()),
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_close_however_the_latencies_are_split(
            latencies in prop::collection::vec(prop_oneof![0..200i64, 0..10_000_000_000i64, any::<i64>()], 1..60),
            cut in 0..60usize,
            percent in 0..=100u64,
        ) {
            let all = |latencies: &[i64]| {
                let mut histogram = LatencyHistogram::default();
                latencies.iter().for_each(|latency| histogram.add(*latency));
                histogram
            };
            let (first, second) = latencies.split_at(cut.min(latencies.len()));
            let mut merged = all(second);
            merged.merge(&all(first));
            prop_assert_eq!(&merged, &all(&latencies));
            prop_assert_eq!(&LatencyHistogram::read(&merged.write()).unwrap(), &merged);
            let mut sorted: Vec<i64> = latencies.iter().map(|latency| *latency.max(&0)).collect();
            sorted.sort_unstable();
            let exact = sorted[(sorted.len() * percent as usize).div_ceil(100).saturating_sub(1)];
            let close = merged.percentile(percent).unwrap();
            prop_assert!(close.abs_diff(exact) <= exact as u64 / 64, "{close} for {exact}");
        }

        #[test]
        fn no_blob_is_trusted(blob in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(mut histogram) = LatencyHistogram::read(&blob) {
                histogram.merge(&histogram.clone());
                histogram.percentile(95);
            }
        }
    }
}
