//! What mcptap cannot see of a process, and why.

use std::fs::{self, File};
use std::io::Read;

use super::pairs::{Pair, program};
use super::processes::{Snapshot, path};

/// The reasons why the pipes of a pair cannot be recorded, or not completely.
pub fn obstacles(snapshot: &Snapshot, pair: &Pair) -> Vec<String> {
    let mut reasons = Vec::new();
    for id in &pair.processes {
        if is_32_bit(*id) {
            reasons.push(format!("process {id} is a 32-bit program, whose system calls differ"));
        }
        if uses_io_uring(*id) {
            reasons.push(format!("process {id} has opened io_uring: what it reads and writes that way is not seen"));
        }
    }
    if is_recorded(snapshot, pair) {
        reasons.push("mcptap wrap records it already".to_owned());
    }
    reasons
}

/// Whether the host or the server of a pair is mcptap itself.
pub fn is_recorded(snapshot: &Snapshot, pair: &Pair) -> bool {
    let command = |id: u32| snapshot.processes.get(&id).and_then(|process| process.command.first());
    [pair.host, pair.server].into_iter().filter_map(command).any(|word| program(word) == "mcptap")
}

/// The fifth byte of an ELF file is 1 for 32 bits (elf(5)).
fn is_32_bit(id: u32) -> bool {
    let mut head = [0; 5];
    File::open(path(id, "exe")).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"\x7fELF\x01"
}

fn uses_io_uring(id: u32) -> bool {
    let entries = fs::read_dir(path(id, "fd")).into_iter().flatten();
    let mut targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| target.as_os_str() == "anon_inode:[io_uring]")
}
