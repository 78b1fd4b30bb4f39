//! What mcptap cannot see of a process, and why.

use std::fs::{self, File};
use std::io::Read;

use super::http_pairs::HttpPair;
use super::libraries::{self, Libraries};
use super::pairs::Pair;
use super::processes::{Snapshot, path};
use super::tcp_sockets::namespace;
use crate::source::command::program;

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
    [pair.host, pair.server].into_iter().any(|id| is_mcptap(snapshot, id))
}

/// How a pair over HTTP can be seen, and what prevents it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpVisibility {
    /// A command that shows the traffic.
    pub command: Option<String>,
    /// The reasons why it cannot be seen, or not by packets.
    pub obstacles: Vec<String>,
}

/// Finds out how a pair over HTTP can be seen.
pub fn of_http(snapshot: &Snapshot, pair: &HttpPair) -> HttpVisibility {
    let processes: Vec<u32> = pair.client.into_iter().chain(pair.server).collect();
    if processes.iter().any(|id| is_mcptap(snapshot, *id)) {
        return HttpVisibility { command: None, obstacles: vec!["mcptap itself is one of its ends".to_owned()] };
    }
    let Some(first) = pair.addresses.first() else { return HttpVisibility::default() };
    let is_loopback = pair.addresses.iter().all(|address| address.ip().is_loopback());
    let interface = if is_loopback { "lo" } else { "any" };
    let is_elsewhere = namespace(std::process::id()).is_some_and(|own| own != pair.namespace);
    let enter = processes.first().filter(|_| is_elsewhere).map(|id| format!("nsenter --net=/proc/{id}/ns/net "));
    let port = first.port();
    let sniff = format!("sudo {}mcptap sniff -i {interface} -f \"tcp port {port}\"", enter.unwrap_or_default());
    if !pair.is_https {
        return HttpVisibility { command: Some(sniff), obstacles: Vec::new() };
    }
    // The secrets of one end open both directions.
    let mut obstacles = Vec::new();
    for id in processes {
        match libraries::libraries(id) {
            Ok(Libraries { places, .. }) if !places.is_empty() => {
                return HttpVisibility { command: Some(format!("{sniff} --keys-from {id}")), obstacles: Vec::new() };
            }
            Ok(Libraries { unseen, .. }) if unseen.is_empty() => {
                obstacles.push(format!("TLS, and process {id} has loaded no TLS library that is known"));
            }
            Ok(Libraries { unseen, .. }) => obstacles.extend(unseen),
            Err(_) => obstacles.push(format!("TLS, and no permission to look into process {id}: run mcptap as root")),
        }
    }
    HttpVisibility { command: pair.client.map(|_| "mcptap proxy --intercept HOST".to_owned()), obstacles }
}

fn is_mcptap(snapshot: &Snapshot, id: u32) -> bool {
    snapshot.command(id).first().is_some_and(|word| program(word) == "mcptap")
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
