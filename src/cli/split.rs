//! `mcptap split`: divides captures into parts that can be decoded alone.
//!
//! A session stays whole if all packets between its hosts are in one part. So the packets of each
//! capture point and pair of hosts stay together. Pairs that use one `Mcp-Session-Id` stay together
//! too: a client behind several addresses. The first reading counts, the second writes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use regex::bytes::Regex;

use super::args::Split;
use super::output::{self, create_private, note};
use crate::capture::{Limits, Packet, pipe};
use crate::decode::packet::{Decoded, Packets};
use crate::export::pcapng;
use crate::source::file::Files;
use crate::source::{Item, Source, host};
use crate::view::units::count;

/// Session ids that are remembered. Pairs with later ones are not joined.
const IDS: usize = 1 << 20;

/// The largest number of pairs that are kept apart. All later pairs count as one, because a scan
/// from forged addresses has millions.
const PAIRS: usize = 1 << 20;

/// What stays together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pair {
    Hosts(IpAddr, IpAddr),
    Process(u32),
}

/// A place of a packet.
enum Place {
    Pair(Pair),
    /// Names of hosts concern all parts.
    All,
    Fragment,
    Nothing,
}

/// What the first reading found at one capture point.
#[derive(Default)]
struct Found {
    pairs: HashMap<Pair, usize>,
    /// For each pair, one that it is joined with: itself, or an earlier one.
    joined: Vec<usize>,
    bytes: Vec<u64>,
    sealed: Vec<bool>,
    /// The pair of each session id, by its hash.
    ids: HashMap<u64, usize>,
    fragments: u64,
}

pub fn run(arguments: Split) -> Result<ExitCode> {
    let Split { files, into, out } = arguments;
    let is_empty = |folder: &Path| fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    ensure!(is_empty(&out), "the folder {} is not empty: name a new one", out.display());
    let mut points: BTreeMap<Option<String>, Vec<PathBuf>> = BTreeMap::new();
    for file in &files {
        ensure!(file.is_file(), "{} is no file: split reads each capture twice", file.display());
        points.entry(host::named(file)).or_default().push(file.clone());
    }
    let mut weights = vec![0u64; usize::from(into)];
    let mut failed = 0;
    let (mut fragments, mut sealed, mut pairs, mut has_more) = (0, 0, 0, false);
    for (host, files) in points {
        let files: Vec<PathBuf> = files.into_iter().filter(|file| is_readable(file, &mut failed)).collect();
        if files.is_empty() {
            continue;
        }
        let found = look(&files)?;
        let parts = found.divide(&mut weights);
        let folder = |part: usize| {
            let part = out.join(format!("part-{part:04}"));
            host.as_ref().map_or(part.clone(), |host| part.join(format!("host={host}")))
        };
        write(&files, &found, &parts, weights.len(), &folder)?;
        fragments += found.fragments;
        sealed += found.sealed.iter().filter(|sealed| **sealed).count();
        pairs += found.pairs.len();
        has_more |= found.joined.len() > PAIRS;
    }
    if failed == files.len() {
        bail!("no capture could be read");
    }
    let mut lines = output::stdout();
    let used = weights.iter().filter(|bytes| **bytes > 0).count();
    writeln!(lines, "{} of hosts in {}", count(pairs as u64, "pair"), count(used as u64, "part"))?;
    if sealed > 0 {
        writeln!(
            lines,
            "not kept together: sessions that move between addresses over TLS or HTTP/2 ({sealed} pairs use it), because their ids are not readable here"
        )?;
    }
    if has_more {
        writeln!(lines, "not divided: hosts after the first {PAIRS} pairs, all in one part")?;
    }
    if fragments > 0 {
        writeln!(lines, "not kept together: {} of IP packets, all in part-0000", count(fragments, "fragment"))?;
    }
    lines.flush()?;
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Whether a file is a capture. Others are reported.
fn is_readable(file: &Path, failed: &mut usize) -> bool {
    let first = Files::open(&[file.to_owned()], false).and_then(|mut files| files.next().map(drop));
    first
        .map_err(|error| {
            *failed += 1;
            note!("{error:#}");
        })
        .is_ok()
}

/// Reads the packets of one capture point.
fn look(files: &[PathBuf]) -> Result<Found> {
    let id =
        Regex::new(r"(?i-u)\nmcp-session-id:[ \t]*([\x21-\x7e]{1,512})\r").context("the pattern of session ids")?;
    let mut found = Found::default();
    visit(files, |packet, place, payload| {
        match place {
            Place::Pair(pair) => {
                let pair = found.number(pair);
                if pair == found.joined.len() {
                    found.joined.push(pair);
                    found.bytes.push(0);
                    found.sealed.push(false);
                }
                if let Some(bytes) = found.bytes.get_mut(pair) {
                    *bytes += packet.data.len() as u64;
                }
                if let Some(sealed) = found.sealed.get_mut(pair) {
                    *sealed |= payload.starts_with(&[22, 3]) || payload.starts_with(b"PRI * HTTP/2.0");
                }
                for id in id.captures_iter(payload).filter_map(|found| found.get(1)) {
                    found.join(id.as_bytes(), pair);
                }
            }
            Place::Fragment => found.fragments += 1,
            Place::All | Place::Nothing => {}
        }
        Ok(())
    })?;
    Ok(found)
}

impl Found {
    /// The index of a pair. A new pair gets the next index. Beyond [`PAIRS`] all new pairs share
    /// the index `PAIRS`.
    fn number(&mut self, pair: Pair) -> usize {
        let next = self.pairs.len();
        if next < PAIRS { *self.pairs.entry(pair).or_insert(next) } else { self.known(&pair) }
    }

    /// The index of a pair that was seen, else `PAIRS`.
    fn known(&self, pair: &Pair) -> usize {
        self.pairs.get(pair).copied().unwrap_or(PAIRS)
    }

    /// The first of all pairs joined with this one. It halves the way there, so later
    /// look-ups take few steps.
    fn root(&mut self, mut pair: usize) -> usize {
        while let Some(next) = self.joined.get(pair).copied().filter(|next| *next != pair) {
            let after = self.joined.get(next).copied().unwrap_or(next);
            self.joined[pair] = after;
            pair = after;
        }
        pair
    }

    fn join(&mut self, id: &[u8], pair: usize) {
        let mut hash = DefaultHasher::new();
        id.hash(&mut hash);
        let id = hash.finish();
        let other = match self.ids.get(&id) {
            Some(other) => *other,
            None if self.ids.len() < IDS => *self.ids.entry(id).or_insert(pair),
            None => pair,
        };
        let (one, other) = (self.root(pair), self.root(other));
        if let Some(joined) = self.joined.get_mut(one.max(other)) {
            *joined = one.min(other);
        }
    }

    /// The first of the joined pairs, for each pair.
    fn roots(&self) -> Vec<usize> {
        let mut roots = Vec::with_capacity(self.joined.len());
        // A pair is joined with an earlier one, whose root is known by then.
        self.joined
            .iter()
            .enumerate()
            .for_each(|(pair, joined)| roots.push(roots.get(*joined).copied().unwrap_or(pair)));
        roots
    }

    /// The part of each pair: the largest first, each into the part with the fewest bytes.
    fn divide(&self, weights: &mut [u64]) -> Vec<usize> {
        let roots = self.roots();
        let mut groups: BTreeMap<usize, u64> = BTreeMap::new();
        for (root, bytes) in roots.iter().zip(&self.bytes) {
            *groups.entry(*root).or_default() += bytes;
        }
        let mut largest: Vec<(usize, u64)> = groups.into_iter().collect();
        largest.sort_by_key(|(group, bytes)| (std::cmp::Reverse(*bytes), *group));
        let mut parts = HashMap::new();
        for (group, bytes) in largest {
            let lightest = weights.iter().enumerate().min_by_key(|(_, weight)| **weight).map_or(0, |(part, _)| part);
            if let Some(weight) = weights.get_mut(lightest) {
                *weight += bytes;
            }
            parts.insert(group, lightest);
        }
        roots.iter().map(|root| parts.get(root).copied().unwrap_or(0)).collect()
    }
}

/// Writes the packets of one capture point to their parts.
fn write(
    files: &[PathBuf],
    found: &Found,
    parts: &[usize],
    into: usize,
    folder: &dyn Fn(usize) -> PathBuf,
) -> Result<()> {
    let mut writers: Vec<Option<pcapng::Writer<BufWriter<File>>>> = (0..into).map(|_| None).collect();
    let mut used: Vec<usize> = parts.to_vec();
    used.sort_unstable();
    used.dedup();
    for part in used {
        let folder = folder(part);
        let failed = || format!("cannot write to {}", folder.display());
        fs::create_dir_all(&folder).with_context(failed)?;
        let file = create_private(&folder.join("packets.pcapng")).with_context(failed)?;
        if let Some(writer) = writers.get_mut(part) {
            *writer = Some(pcapng::Writer::new(BufWriter::new(file)).with_context(failed)?);
        }
    }
    let mut source = Files::open(files, false)?;
    let mut packets = Packets::new(Limits::default());
    while let Some(item) = source.next()? {
        let all = 0..into;
        let (item, to) = match item {
            Item::Packet(packet) => {
                let to = match place(&mut packets, &packet).0 {
                    Place::Pair(pair) => {
                        let part = parts.get(found.known(&pair)).copied().unwrap_or(0);
                        part..part + 1
                    }
                    Place::All => all,
                    Place::Fragment => 0..1,
                    Place::Nothing => 0..0,
                };
                (Item::Packet(packet), to)
            }
            item => (item, all),
        };
        for writer in writers.get_mut(to).into_iter().flatten().flatten() {
            match &item {
                Item::Packet(packet) => writer.packet(packet),
                Item::Secrets(lines) => writer.secrets(lines),
                Item::Damage(_) | Item::Dropped(_) | Item::Idle => Ok(()),
            }
            .context("cannot write a part")?;
        }
    }
    writers.into_iter().flatten().try_for_each(|writer| writer.finish().map(drop)).context("cannot write a part")
}

/// Calls `take` with each packet, its place and its payload.
fn visit(files: &[PathBuf], mut take: impl FnMut(&Packet<'_>, Place, &[u8]) -> Result<()>) -> Result<()> {
    let mut source = Files::open(files, false)?;
    let mut packets = Packets::new(Limits::default());
    while let Some(item) = source.next()? {
        match item {
            Item::Packet(packet) => {
                let (place, payload) = place(&mut packets, &packet);
                take(&packet, place, payload)?;
            }
            Item::Damage(damage) => note!("{}: damaged at byte {}: {}", damage.file, damage.offset, damage.reason),
            Item::Secrets(_) | Item::Dropped(_) | Item::Idle => {}
        }
    }
    Ok(())
}

/// The place of a packet, and its payload.
fn place<'p>(packets: &'p mut Packets, packet: &Packet<'p>) -> (Place, &'p [u8]) {
    match packets.push(packet) {
        Decoded::Tcp(segment) => {
            let (one, other) = (segment.source.ip(), segment.destination.ip());
            (Place::Pair(Pair::Hosts(one.min(other), one.max(other))), segment.payload)
        }
        Decoded::Pipe => match pipe::decode(packet.data) {
            Some((process, _)) => (Place::Pair(Pair::Process(process)), &[]),
            None => (Place::Nothing, &[]),
        },
        Decoded::Dns(_) => (Place::All, &[]),
        Decoded::Fragment => (Place::Fragment, &[]),
        Decoded::Quic(..) | Decoded::Skipped(_) => (Place::Nothing, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps from a pair to the first one that it is joined with.
    fn depth(found: &Found, mut pair: usize) -> usize {
        let mut steps = 0;
        while found.joined[pair] != pair {
            (pair, steps) = (found.joined[pair], steps + 1);
        }
        steps
    }

    /// Each pair is joined with the one before it, beginning with the last pair. So the first
    /// look-up of the last pair takes as many steps as there are pairs.
    #[test]
    fn look_ups_stay_short_however_pairs_are_joined() {
        const COUNT: usize = 10_000;
        let mut found = Found { joined: (0..COUNT).collect(), ..Found::default() };
        for pair in (1..COUNT).rev() {
            found.join(format!("{pair}").as_bytes(), pair);
            found.join(format!("{pair}").as_bytes(), pair - 1);
        }
        assert_eq!(depth(&found, COUNT - 1), COUNT - 1);
        let mut steps = 0;
        for pair in (0..COUNT).rev() {
            steps += depth(&found, pair);
            assert_eq!(found.root(pair), 0);
        }
        assert!(steps < 40 * COUNT, "{steps}");
        assert_eq!(found.roots(), vec![0; COUNT]);
    }
}
