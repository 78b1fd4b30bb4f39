//! Datasets: `mcptap dataset compact`, and `--dataset` of `export` and `read`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use super::args::{DatasetCommand, DatasetOptions, Decoding, Export, Read};
use super::output::{self, note};
use super::target::{self, TargetKind};
use super::{databases, stop};
use crate::capture::Time;
use crate::dataset::{self, Collector, Dataset, Exporter, file_names, run_number};
use crate::engine::{Listener, saver};
use crate::event::{Detail, Event};
use crate::export::parquet::Place;
use crate::source::file::Files;
use crate::source::{Item, Source, host};
use crate::store::StoreReader;
use crate::view::units::count;

pub fn run(command: DatasetCommand) -> Result<ExitCode> {
    let DatasetCommand::Compact { dataset } = command;
    let storage = dataset::open(&dataset)?;
    let done = dataset::compact(&*storage, &dataset::day(saver::now().0))?;
    let mut out = output::stdout();
    writeln!(out, "{} merged into {}", count(done.files as u64, "file"), done.into)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// `mcptap export TARGET --dataset PLACE`.
pub fn export(arguments: &Export, place: &str, db: Option<PathBuf>) -> Result<ExitCode> {
    ensure!(
        arguments.format.is_none() && arguments.output.is_none(),
        "a dataset has its own format: leave out --format and --output"
    );
    ensure!(
        arguments.filter.is_none(),
        "a dataset has whole sessions: leave out --filter, and select in the engine that reads it"
    );
    let options = &arguments.dataset.options;
    let name = arguments.sessions.target.as_deref().unwrap_or("latest");
    let exporter = exporter(place, options);
    let dataset = match target::target_kind(name)? {
        TargetKind::Capture(path) if arguments.sessions.session.is_none() => {
            return decode(&[path], &arguments.sessions.decoding, place, options);
        }
        // A redacted copy is made of sessions that are decoded again.
        TargetKind::Database(path)
            if arguments.sessions.session.is_none() && arguments.sessions.decoding.redaction()?.is_none() =>
        {
            exporter.export(&StoreReader::open(path)?, saver::now(), true)?
        }
        _ => {
            let opened = target::open_or_latest(&arguments.sessions, db)?;
            dataset::export_sessions(&exporter, &opened.reader, &opened.sessions()?)?
        }
    };
    report(&dataset)?;
    Ok(ExitCode::SUCCESS)
}

/// `mcptap read --dataset PLACE FILE...`.
pub fn read(arguments: &Read, place: &str) -> Result<ExitCode> {
    let Read { filter, save, json, follow, .. } = arguments;
    ensure!(
        filter.is_none() && !save && !json && !follow,
        "--dataset writes all messages of whole files: leave out --filter, --save, --json and --follow"
    );
    decode(&arguments.files, &arguments.decoding, place, &arguments.dataset.options)
}

/// What is exported, and where to.
pub fn exporter(place: &str, options: &DatasetOptions) -> Exporter {
    Exporter {
        to: place.to_owned(),
        host: options.host.clone(),
        capture: options.capture_name.clone(),
        has_text: !options.no_text,
    }
}

/// Prints how many rows were added.
pub fn report(dataset: &Dataset) -> Result<()> {
    let mut out = output::stdout();
    for (table, counts) in &dataset.counts {
        let mut line = format!("{table}: {} added", counts.added);
        for (number, what) in [(counts.replaced, "replaced"), (counts.present, "were there")] {
            if number > 0 {
                line += &format!(", {number} {what}");
            }
        }
        writeln!(out, "{line}")?;
    }
    if dataset.counts.is_empty() {
        writeln!(out, "nothing new")?;
    }
    Ok(out.flush()?)
}

/// Decodes capture files into a dataset. Files of one capture point are one capture. A file that
/// cannot be read is reported, and the others are decoded.
fn decode(files: &[PathBuf], decoding: &Decoding, place: &str, options: &DatasetOptions) -> Result<ExitCode> {
    let redaction = decoding.redaction()?;
    let mut dataset = Dataset::new(dataset::open(place)?);
    let mut points: BTreeMap<Option<String>, Vec<(PathBuf, Time)>> = BTreeMap::new();
    let mut failed = 0;
    for file in files {
        match first_time(file) {
            Ok(time) => {
                let point = options.host.clone().or_else(|| host::named(file));
                points.entry(point).or_default().push((file.clone(), time));
            }
            Err(error) => {
                failed += 1;
                note!("{error:#}");
            }
        }
    }
    let stop = stop::on_signals()?;
    for (point, files) in points {
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
        let capture = options.capture_name.clone().unwrap_or_else(|| file_names(&target::joined(&paths)));
        let first = files.iter().map(|(_, time)| *time).min().unwrap_or_default();
        let run = run_number(point.as_deref(), &capture, first);
        let config = target::pipeline_options(decoding.keep_secrets, Detail::Store, redaction);
        let collector = Collector::new(dataset, Place { host: point, capture, run }, !options.no_text);
        let mut writer = DatasetWriter(collector);
        let stopped = "a signal ended the run: run it again, nothing is added twice";
        target::decode(Files::open(&paths, false)?, decoding, config, &mut writer, &stop, stopped)?;
        dataset = writer.0.finish()?;
    }
    if failed == files.len() {
        bail!("no capture could be read");
    }
    report(&dataset)?;
    if failed > 0 {
        note!("{} of {} could not be read", failed, count(files.len() as u64, "capture"));
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// The time of the first packet of a file. A pipe is not touched.
fn first_time(path: &Path) -> Result<Time> {
    if !path.is_file() {
        return Files::open(&[path.to_owned()], false).map(|_| Time::default());
    }
    let mut file = Files::open(&[path.to_owned()], false)?;
    while let Some(item) = file.next()? {
        match item {
            Item::Packet(packet) => return Ok(packet.time),
            Item::Damage(damage) => {
                bail!("{}: damaged before its first packet, at byte {}: {}", damage.file, damage.offset, damage.reason)
            }
            Item::Secrets(_) | Item::Dropped(_) | Item::Idle => {}
        }
    }
    Ok(Time::default())
}

/// Passes events to a collector, and lists damage.
struct DatasetWriter(Collector);

impl Listener for DatasetWriter {
    fn event(&mut self, event: Event) -> Result<()> {
        if let Event::Finding(finding) = &event
            && finding.rule.id == "capture-damaged"
        {
            note!("{}", finding.text);
        }
        self.0.take(event)
    }
}

/// The database that `ship` reads.
pub fn database(db: Option<PathBuf>) -> Result<PathBuf> {
    let path = target::existing(target::database(db)?)?;
    let _listing = databases::remember(&path);
    Ok(path)
}
