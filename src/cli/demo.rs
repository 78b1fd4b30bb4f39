//! `mcptap demo`: the story of a call that hangs, with recordings that are part of the program.

use std::fs;
use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::slice::from_ref;

use anyhow::{Context, Result};
use etcetera::BaseStrategy;

use super::args::{Colour, Decoding, Demo, Explain, Read, TargetOptions};
use super::{explain, output, read};

/// A server whose tool never answers.
const HANG: (&str, &[u8]) = ("hang.pcapng", include_bytes!("../../samples/causes/hang/stdio.pcapng"));

/// `samples/weather`, without problems, and `samples/helpdesk`: an assistant and three servers, one
/// of them over pipes, with many problems.
const OTHERS: [(&str, &[u8]); 3] = [
    ("weather.pcapng", include_bytes!("../../samples/weather/capture.pcapng")),
    ("helpdesk.pcapng", include_bytes!("../../samples/helpdesk/capture.pcapng")),
    ("helpdesk-stdio.pcapng", include_bytes!("../../samples/helpdesk/stdio.pcapng")),
];

/// The bottom line of the terminal UI until the first key.
#[cfg(feature = "tui")]
const HINT: &str = "A call hangs in the last session: G and enter open it, e goes to the call, enter shows it.";

/// The next steps for a new user.
const NEXT: &str = "
These recordings are part of mcptap. To record your own servers:
  mcptap install CLIENT      record the servers in a client's configuration
  mcptap attach              record STDIO servers that already run (Linux)
  mcptap wrap -- CMD         record one STDIO server
  mcptap sniff -i lo         record HTTP servers on this machine
  mcptap proxy --help        record one without permission to capture, or behind TLS
  mcptap FILE                open a capture made with tcpdump or Wireshark
  mcptap doctor              test whether all of this works here";

pub fn run(arguments: Demo, colour: Colour) -> Result<()> {
    let folder = folder().context("cannot write the recordings of the demo")?;
    let mut files = Vec::new();
    for (name, recording) in [HANG].into_iter().chain(OTHERS) {
        let file = folder.join(name);
        fs::write(&file, recording).with_context(|| format!("cannot write {}", file.display()))?;
        files.push(file);
    }
    if arguments.text || !stdout().is_terminal() { print(files, colour) } else { browse(files, colour) }?;
    output::say(NEXT);
    Ok(())
}

/// The folder of the recordings. They stay, so that the printed commands work.
fn folder() -> Result<PathBuf> {
    let cache = etcetera::choose_base_strategy().map(|base| base.cache_dir().join("mcptap/demo"));
    match cache.ok().filter(|folder| fs::create_dir_all(folder).is_ok()) {
        Some(folder) => Ok(folder),
        None => Ok(tempfile::Builder::new().prefix("mcptap-demo-").tempdir()?.keep()),
    }
}

#[cfg(feature = "tui")]
fn browse(files: Vec<PathBuf>, colour: Colour) -> Result<()> {
    let targets = files.into_iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let arguments = super::args::Tui { targets, ..Default::default() };
    super::tui::run_with_hint(arguments, None, colour, Some(HINT.to_owned()))
}

#[cfg(not(feature = "tui"))]
fn browse(files: Vec<PathBuf>, colour: Colour) -> Result<()> {
    print(files, colour)
}

/// Prints the story: the messages of the server that hangs, the cause, and the other recordings.
fn print(files: Vec<PathBuf>, colour: Colour) -> Result<()> {
    let Some((hang, others)) = files.split_first() else { return Ok(()) };
    let name = hang.to_string_lossy().into_owned();
    chapter("A user says: \"the assistant hangs\". Its server ran under \"mcptap wrap\".", "read", from_ref(hang))?;
    listing(vec![hang.clone()], colour)?;
    chapter("The last call was cancelled after two seconds. What happened?", "explain", from_ref(hang))?;
    let decoding = Decoding::default();
    let arguments =
        Explain { symptom: None, json: false, sessions: TargetOptions { target: Some(name), session: None, decoding } };
    explain::run(arguments, None, colour)?;
    chapter("HTTP is read the same way, with the packets of each message (#).", "read", others)?;
    listing(others.to_vec(), colour)
}

/// Prints a sentence, and the command whose output follows.
fn chapter(sentence: &str, verb: &str, files: &[PathBuf]) -> Result<()> {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut out = output::stdout();
    writeln!(out, "\n{sentence}\n\n$ mcptap {verb} {}\n", files.join(" "))?;
    Ok(out.flush()?)
}

fn listing(files: Vec<PathBuf>, colour: Colour) -> Result<()> {
    let decoding = Decoding::default();
    let read =
        Read { files, decoding, filter: None, save: false, json: false, hash: false, follow: false, ..Read::default() };
    read::run(read, None, colour).map(drop)
}
