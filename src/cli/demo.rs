//! `mcptap demo`: shows recordings that are part of the program.

use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::{Colour, Decoding, Demo, Read};
use super::{output, read};

/// `samples/weather`, without problems, and `samples/helpdesk`: an assistant and three servers, one
/// of them over pipes, with many problems.
const RECORDINGS: [(&str, &[u8]); 3] = [
    ("weather.pcapng", include_bytes!("../../samples/weather/capture.pcapng")),
    ("helpdesk.pcapng", include_bytes!("../../samples/helpdesk/capture.pcapng")),
    ("helpdesk-stdio.pcapng", include_bytes!("../../samples/helpdesk/stdio.pcapng")),
];

/// The next steps for a new user.
const NEXT: &str = "
These recordings are part of mcptap. To record your own servers:
  mcptap install CLIENT      record the STDIO servers in a client's configuration
  mcptap wrap -- CMD         record one of them
  mcptap sniff -i lo         record HTTP servers on this machine
    mcptap proxy --help        record one without permission to capture, or behind TLS
    mcptap FILE                open a capture made with tcpdump or Wireshark
    mcptap doctor              test whether all of this works here";

pub fn run(arguments: Demo, colour: Colour) -> Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("mcptap-demo-").tempdir();
    let folder = folder.context("cannot write the recordings of the demo")?;
    let mut files = Vec::new();
    for (name, recording) in RECORDINGS {
        let file = folder.path().join(name);
        fs::write(&file, recording).with_context(|| format!("cannot write {}", file.display()))?;
        files.push(file);
    }
    let code = if arguments.text || !stdout().is_terminal() { print(files, colour) } else { browse(files, colour) }?;
    output::say(NEXT);
    Ok(code)
}

#[cfg(feature = "tui")]
fn browse(files: Vec<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let targets = files.into_iter().map(|file| file.to_string_lossy().into_owned()).collect();
    super::tui::run(super::args::Tui { targets, ..Default::default() }, None, colour)
}

#[cfg(not(feature = "tui"))]
fn browse(files: Vec<PathBuf>, colour: Colour) -> Result<ExitCode> {
    print(files, colour)
}

fn print(files: Vec<PathBuf>, colour: Colour) -> Result<ExitCode> {
    let decoding = Decoding::default();
    let read =
        Read { files, decoding, filter: None, save: false, json: false, hash: false, follow: false, ..Read::default() };
    read::run(read, None, colour)
}
