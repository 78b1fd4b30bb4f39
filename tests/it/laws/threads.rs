//! The number of threads changes nothing.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;
use mcptap::engine::threads::{self, Division};
use mcptap::engine::{self, Listener};
use mcptap::source::file::Files;
use mcptap_core::internal::capture::{Packet, PacketNumber};
use mcptap_core::internal::event::Event;
use mcptap_core::internal::pipeline::{Counts, Pipeline};

use crate::decoded::ALL;
use crate::program::{mcptap, root};
use crate::support::waits::Finishes;

/// A listener that keeps what it gets, in order.
#[derive(Debug, Default, PartialEq)]
struct Recorder(Vec<Delivered>);

#[derive(Debug, PartialEq)]
enum Delivered {
    Packet(PacketNumber, Vec<u8>),
    Event(Event),
}

impl Listener for Recorder {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.0.push(Delivered::Packet(packet.number, packet.data.to_vec()));
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.0.push(Delivered::Event(event));
        Ok(())
    }
}

/// All that a listener gets of a capture, the counters, and the error if reading failed.
fn run_with(path: &Path, division: Option<Division>) -> (Recorder, Counts, Option<String>) {
    let mut source = Files::open(&[path.to_owned()], false).expect("the capture opens");
    let (mut pipeline, mut recorder, stop) = (Pipeline::new(ALL()), Recorder::default(), AtomicBool::new(false));
    let result = match division {
        None => engine::run(&mut source, &mut pipeline, &mut recorder, &stop),
        Some(division) => threads::run(&mut source, &mut pipeline, &mut recorder, &stop, division),
    };
    (recorder, pipeline.counts(), result.err().map(|error| format!("{error:#}")))
}

/// Lets the other threads run for a random time.
fn delay() {
    static SEEDS: AtomicU64 = AtomicU64::new(1);
    thread_local!(static STATE: Cell<u64> = Cell::new(SEEDS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1));
    STATE.with(|state| {
        // Marsaglia's xorshift.
        let mut next = state.get();
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        state.set(next);
        (0..next % 32).for_each(|_| thread::yield_now());
    });
}

#[test]
fn any_number_of_threads_gives_the_same_events() {
    let mut batches = 0;
    for path in captures(&["samples", "tests/captures", "tests/captures-public", "tests/cases"]) {
        let expected = run_with(&path, None);
        for (threads, packets, delay) in [(2, 1, delay as fn()), (3, 3, delay), (8, 7, delay), (8, 512, || ())] {
            let division = Division { packets, delay, ..Division::of(threads) };
            let run = run_with(&path, Some(division));
            let differs = run.0.0.iter().zip(&expected.0.0).position(|(one, other)| one != other);
            let what = || differs.map(|at| (&run.0.0[at], &expected.0.0[at]));
            assert!(run == expected, "{} on {threads} threads: {:#?}", path.display(), what());
            batches += run.1.packets / packets as u64;
        }
    }
    assert!(batches > 10_000, "the captures make {batches} batches");
}

#[test]
fn any_number_of_threads_prints_the_same() {
    for sample in captures(&["samples"]) {
        let printed = |arguments: &[&str], threads: &str| {
            let run: &mut Command = &mut mcptap();
            let output = run.arg("read").args(arguments).args(["--threads", threads]).arg(&sample).finished();
            let text = String::from_utf8(output.stdout).unwrap();
            // The last line has the time that it took.
            (output.status.code(), text.split("\"elapsed_seconds\"").next().unwrap().to_owned())
        };
        for arguments in [&[][..], &["--json", "--hash"], &["--filter", "method == tools/call"]] {
            let one = printed(arguments, "1");
            for threads in ["2", "3", "8"] {
                assert_eq!(printed(arguments, threads), one, "{} {arguments:?} on {threads} threads", sample.display());
            }
        }
    }
}

/// The capture files below these folders.
fn captures(folders: &[&str]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if [".pcap", ".pcapng", ".pcap.gz"].iter().any(|ending| file.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 10, "{found:?}");
    found
}
