//! TLS secrets of running processes, as lines of a key log.
//!
//! | library | what passes | line |
//! |---|---|---|
//! | OpenSSL 3, TLS 1.3 | the label and the derived secret | with a dash for the client random |
//! | OpenSSL 3, TLS 1.2 | the master secret and both randoms | a usual one |
//! | BoringSSL | the label of the key log and the secret | with a dash |
//! | Go | the label, the client random and the secret | a usual one |
//!
//! The decoder finds the session of a secret without a random by proof (decision 34).

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::event::{Derived, Event, Kind, Logged};
use super::libraries::{self, SecretPlace};
use super::probe::{EXITS, Probe, Watch};
use super::processes::Snapshot;
use super::recording::Counts;
use super::text::TextTap;
use crate::capture::{Packet, PacketNumber};
use crate::source::command::program;
use crate::source::{Item, Source};

/// Events that are taken at once. A handshake has about ten.
const EVENTS: usize = 4_096;

/// The bytes of the ring. A handshake takes about 40 KB of it, and text its length. It is emptied
/// every 20 ms.
const RING: u32 = 16 << 20;

/// The time between two looks at the ring. Packets that need a secret wait for it.
const LOOK: Duration = Duration::from_millis(20);

/// Processes whose secrets are taken.
pub struct SecretTap {
    probe: Probe,
    /// A line for each process and each library: what is taken, and what cannot be.
    pub notes: Vec<String>,
    texts: TextTap,
}

impl SecretTap {
    /// Attaches to a process by its id, or to all whose command line contains a text.
    ///
    /// # Errors
    /// There is no such process, none with a TLS library that can be seen, or the kernel refuses.
    pub fn attach(process: &str) -> Result<SecretTap> {
        let snapshot = Snapshot::take()?;
        let own = std::process::id();
        let mut processes: Vec<u32> = match process.parse::<u32>() {
            Ok(id) if snapshot.processes.contains_key(&id) => vec![id],
            Ok(id) => bail!("there is no process {id}"),
            Err(_) => {
                let is_meant = |id: &u32| {
                    let command = &snapshot.processes[id].command;
                    let is_mcptap = command.iter().take(2).any(|word| program(word) == "mcptap");
                    !is_mcptap && command.iter().any(|word| word.contains(process)) && !snapshot.descends(own, *id)
                };
                snapshot.processes.keys().copied().filter(is_meant).collect()
            }
        };
        processes.sort_unstable();
        if processes.is_empty() {
            bail!("no command line of a running process contains \"{process}\"");
        }
        let (mut notes, mut unseen, mut watches_text) = (Vec::new(), Vec::new(), false);
        let mut probe = Probe::load(RING, 1)?;
        for &id in &processes {
            let name = snapshot.processes[&id].command.first().map_or("?", |word| program(word));
            let found = match libraries::libraries(id) {
                Ok(found) => found,
                // Of several, one may have ended meanwhile.
                Err(error) if processes.len() > 1 => {
                    unseen.push(format!("process {id} ({name}): {error}"));
                    continue;
                }
                Err(error) => bail!("cannot look into process {id}: {error}; run mcptap as root"),
            };
            let mut has_text = false;
            for file in found.text {
                has_text |= probe.watch_text(id, &file)?;
            }
            if has_text {
                probe.add_process(id, Watch::Pipes)?;
                watches_text = true;
            }
            for place in found.places {
                let library = match place {
                    SecretPlace::OpenSsl(_) => "OpenSSL 3",
                    SecretPlace::BoringSsl(..) => "BoringSSL",
                    SecretPlace::Go(_) => "Go",
                };
                let is_there = probe.watch_secrets(id, &place)?;
                if let (SecretPlace::Go(_), false) = (&place, is_there) {
                    let why = "Go's crypto/tls in a program without a symbol table";
                    unseen.push(format!("process {id} ({name}): {}", libraries::unseen(why)));
                }
                if is_there {
                    notes.push(format!("taking TLS secrets from process {id} ({name}, {library})"));
                }
            }
            if has_text {
                let what =
                    "the text above TLS of connections whose secrets do not pass, such as those that are open already";
                notes.push(format!("taking from process {id} ({name}) {what}"));
            }
            unseen.extend(found.unseen.into_iter().map(|why| format!("process {id} ({name}): {why}")));
        }
        if notes.is_empty() {
            let known = if unseen.is_empty() { "no TLS library that is known".to_owned() } else { unseen.join("; ") };
            bail!("no TLS secrets can be taken from \"{process}\": {known}");
        }
        if watches_text {
            probe.watch(&EXITS)?;
        }
        notes.extend(unseen);
        Ok(SecretTap { probe, notes, texts: TextTap::new() })
    }

    /// Appends the lines of the secrets that passed since the last call, and takes the text.
    /// Returns whether nothing was left.
    fn take(&mut self, lines: &mut Vec<u8>) -> bool {
        let SecretTap { probe, texts, .. } = self;
        let mut add = |event: Event<'_>| match line(&event) {
            Some(line) => {
                lines.extend_from_slice(line.as_bytes());
                texts.secret_passed(&event);
            }
            None => texts.event(&event),
        };
        // A process that derives without a pause would keep this loop running.
        for _ in 0..EVENTS {
            if !probe.next(&mut add) {
                texts.settle(probe);
                return true;
            }
        }
        false
    }
}

/// The line of a key log for an event; `None` if it carries no secret of TLS.
fn line(event: &Event<'_>) -> Option<String> {
    match event.kind {
        Kind::Logged => {
            let Logged { label, secret, .. } = Logged::parse(event.bytes)?;
            Some(format!("{label} - {}\n", hex(secret)))
        }
        Kind::KeyLine => {
            let Logged { label, secret, random } = Logged::parse(event.bytes)?;
            Some(format!("{label} {} {}\n", hex(random?), hex(secret)))
        }
        Kind::Derived => {
            let derived = Derived::parse(event.bytes)?;
            if derived.find("prefix").next() == Some(b"tls13 ") {
                // RFC 8446 section 7.1
                let label = match derived.find("label").next()? {
                    b"c e traffic" => "CLIENT_EARLY_TRAFFIC_SECRET",
                    b"c hs traffic" => "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
                    b"s hs traffic" => "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                    b"c ap traffic" => "CLIENT_TRAFFIC_SECRET_0",
                    b"s ap traffic" => "SERVER_TRAFFIC_SECRET_0",
                    _ => return None,
                };
                return Some(format!("{label} - {}\n", hex(derived.out?)));
            }
            // RFC 5246 section 6.3:
            // PRF(master_secret, "key expansion", server_random + client_random)
            let mut seeds = derived.find("seed");
            let (Some(b"key expansion"), Some(_), Some(client)) = (seeds.next(), seeds.next(), seeds.next()) else {
                return None;
            };
            let master = derived.find("secret").next()?;
            Some(format!("CLIENT_RANDOM {} {}\n", hex(client), hex(master)))
        }
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A source combined with the secrets of processes, and with their text above TLS. They are
/// delivered between its packets, which are numbered anew.
pub struct WithSecrets<S> {
    inner: S,
    taken: Option<Taken>,
    /// Packets delivered so far.
    packets: u64,
    /// Whether `inner` has ended. What passed before is still taken.
    is_over: bool,
}

/// What a tap has taken and what of it was not delivered.
struct Taken {
    tap: SecretTap,
    lines: Vec<u8>,
    delivered: Vec<u8>,
    looked: Instant,
    /// Whether all that passed until the programs were detached was taken.
    is_all: bool,
}

impl Taken {
    fn look(&mut self) {
        self.looked = Instant::now();
        self.tap.take(&mut self.lines);
    }

    /// The capture has ended: takes the next part of what is left, once the last one was delivered.
    /// What is missing after the last part is lost.
    fn look_after_end(&mut self) {
        while !self.is_all && self.lines.is_empty() && self.tap.texts.is_empty() {
            self.tap.probe.detach();
            self.is_all = self.tap.take(&mut self.lines);
            if self.is_all {
                let SecretTap { probe, texts, .. } = &mut self.tap;
                texts.finish(probe);
            }
        }
    }
}

impl<S: Source> WithSecrets<S> {
    /// Combines a source and the secrets, if there are any.
    pub fn new(inner: S, tap: Option<SecretTap>) -> WithSecrets<S> {
        let (lines, delivered, looked, is_all) = (Vec::new(), Vec::new(), Instant::now(), false);
        let taken = tap.map(|tap| Taken { tap, lines, delivered, looked, is_all });
        WithSecrets { inner, taken, packets: 0, is_over: false }
    }

    /// Returns the source that was combined with the secrets.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Bytes of text above TLS recorded and lost so far.
    pub fn text_counts(&self) -> Counts {
        self.taken.as_ref().map(|taken| taken.tap.texts.made.counts).unwrap_or_default()
    }
}

impl<S: Source> Source for WithSecrets<S> {
    fn next(&mut self) -> Result<Option<Item<'_>>> {
        let number = PacketNumber(self.packets + 1);
        if let Some(taken) = &mut self.taken {
            if self.is_over {
                taken.look_after_end();
            } else if taken.looked.elapsed() >= LOOK {
                taken.look();
            }
            if !taken.lines.is_empty() {
                taken.delivered = std::mem::take(&mut taken.lines);
                return Ok(Some(Item::Secrets(&taken.delivered)));
            }
            if let Some(packet) = taken.tap.texts.next(number) {
                self.packets += 1;
                return Ok(Some(Item::Packet(packet)));
            }
        }
        if self.is_over {
            return Ok(None);
        }
        Ok(match self.inner.next()? {
            Some(Item::Packet(packet)) => {
                self.packets += 1;
                Some(Item::Packet(Packet { number, ..packet }))
            }
            None => {
                self.is_over = true;
                Some(Item::Idle)
            }
            other => other,
        })
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.inner.progress()
    }
}
