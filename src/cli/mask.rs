//! `mcptap mask`: masks secrets in recordings that are saved already.

use std::io::{IsTerminal, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::Mask;
use super::output::note;
use super::{output, target};
use crate::engine::saver;
use crate::event::Detail;
use crate::pipeline::{Input, Pipeline, PipelineConfig};
use crate::store::{DatabaseFile, MaskCounts, MaskRules, PacketIterator, PacketMasker, count_secrets, mask_recordings};
use crate::view::{command_line, secrets, units};

pub fn run(arguments: Mask, db: Option<PathBuf>) -> Result<ExitCode> {
    let path = target::existing(target::database(arguments.database.or(db))?)?;
    let place = DatabaseFile::file(&path);
    let mut out = output::stdout();
    let found = count(&place)?;
    let shown = path.display();
    if found.is_empty() && !arguments.yes {
        writeln!(out, "{shown}: no secret to mask")?;
        return Ok(out.flush().map(|()| ExitCode::SUCCESS)?);
    }
    if !arguments.yes {
        writeln!(out, "{shown}: secrets in {}", words(&found))?;
        out.flush()?;
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            bail!("nothing was changed: --yes masks them, and they cannot be restored");
        }
        write!(out, "Mask them? They cannot be restored. [y/N] ")?;
        out.flush()?;
        let mut answer = String::new();
        stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            note!("nothing was changed");
            return Ok(ExitCode::from(1));
        }
    }
    // With --yes also if nothing is found: the free pages of the file may hold secrets.
    let masked = with_rules(|rules| mask_recordings(&place, rules, saver::now()))?;
    let left = count(&place)?;
    if !left.is_empty() {
        bail!("secrets are left in {}", words(&left));
    }
    let done = if masked.is_empty() { "no secret to mask".to_owned() } else { format!("masked in {}", words(&masked)) };
    writeln!(out, "{shown}: {done}; the file holds no earlier content")?;
    Ok(out.flush().map(|()| ExitCode::SUCCESS)?)
}

/// Counts the secrets in a database, in recordings that have ended.
pub fn count(place: &DatabaseFile) -> Result<MaskCounts> {
    with_rules(|rules| count_secrets(place, rules, saver::now()))
}

/// What was found, in words.
pub fn words(counts: &MaskCounts) -> String {
    let MaskCounts { recordings, command_lines, exchanges, findings, packets, keys } = *counts;
    let parts = [
        (command_lines, "command line"),
        (exchanges, "HTTP exchange"),
        (findings, "finding"),
        (packets, "packet"),
        (keys, "TLS key"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, name)| units::count(*number, name)).collect();
    let parts = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
    format!("{}: {parts}", units::count(recordings, "recording"))
}

fn with_rules<T>(work: impl FnOnce(&MaskRules<'_>) -> T) -> T {
    let line = |line: &str| secrets::masked_text(line).into_owned();
    work(&MaskRules {
        key: secrets::key(),
        command: &|words| command_line::masked(words),
        line: &line,
        decode: &decode,
    })
}

fn decode(packets: &mut PacketIterator<'_>, masker: &mut PacketMasker) -> Result<()> {
    let config = PipelineConfig { detail: Detail::Store, mask_key: secrets::key(), ..PipelineConfig::default() };
    let mut pipeline = Pipeline::new(config);
    let mut result = Ok(());
    for packet in packets {
        let packet = packet?;
        masker.packet(&packet.packet());
        pipeline.push(Input::Packet(packet.packet()), &mut |event| {
            if result.is_ok() {
                result = masker.event(event);
            }
        });
    }
    pipeline.push(Input::End, &mut |event| {
        if result.is_ok() {
            result = masker.event(event);
        }
    });
    result
}
