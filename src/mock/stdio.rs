//! Plays the server as a process with one client on standard input and output.

use std::io::{self, BufRead, Read, Write};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded, select};

use super::ledger::Ledger;
use super::session::{RecordedServer, Session};
use crate::replay::messages;
use crate::view::secrets;

/// The longest line in bytes, as for the decoder.
const LINE: u64 = 128 << 20;

/// The most lines that are read before they are processed.
const AHEAD: usize = 64;

/// Serves until the input ends or `stop` receives.
///
/// # Errors
/// The input cannot be read, or the output cannot be written. A client that closes the output ends
/// the server without an error.
pub fn serve(server: &RecordedServer, stop: &Receiver<()>) -> Result<Ledger> {
    let (send, lines) = bounded(AHEAD);
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || read(&mut io::stdin().lock(), &send))
        .context("cannot start a thread")?;
    let started = Instant::now();
    let mut out = io::stdout().lock();
    let mut ledger = Ledger::default();
    let mut session = Session::new(server, started.elapsed());
    let mut post = 0;
    loop {
        for output in session.due_output(server, started.elapsed()) {
            let Some(text) = output.text else { continue };
            let mut line = messages::line(text);
            line.truncate(output.cut.unwrap_or(usize::MAX));
            match out.write_all(&line).and_then(|()| out.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ledger),
                result => result.context("cannot write to standard output")?,
            }
            if output.cut.is_some() {
                return Ok(ledger);
            }
        }
        for note in session.notes.drain(..) {
            eprintln!("mcptap: {}", secrets::shown(&note));
        }
        let due = session.next_due(server).map(|due| started + due);
        let wake = due.map_or_else(crossbeam_channel::never, crossbeam_channel::at);
        select! {
            recv(lines) -> line => match line {
                Ok(line) => {
                    let line = line.context("cannot read standard input")?;
                    session.receive(server, &mut ledger, &line, post, started.elapsed());
                    post += 1;
                }
                Err(_) => return Ok(ledger),
            },
            recv(wake) -> _ => {}
            recv(stop) -> _ => return Ok(ledger),
        }
    }
}

/// Reads lines until the end and skips blank ones.
fn read(input: &mut dyn BufRead, lines: &Sender<io::Result<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let read = match input.take(LINE).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) if line.len() as u64 == LINE => Err(io::Error::other("a line is longer than 128 MiB")),
            Ok(_) => Ok(line),
            Err(error) => Err(error),
        };
        let is_blank = matches!(&read, Ok(line) if line.trim_ascii().is_empty());
        let failed = read.is_err();
        if !is_blank && lines.send(read).is_err() || failed {
            return;
        }
    }
}
