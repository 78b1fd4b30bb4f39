//! `mcptap install` and `mcptap uninstall`: change a client's configuration so that its servers are
//! recorded, or no longer recorded.

mod clients;
mod config;
mod own;

#[cfg(feature = "http")]
pub use config::replaced_settings;

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use etcetera::BaseStrategy;

use self::clients::{CLIENTS, Client, Folders};
use self::config::{Config, Launch, Server};
use super::args::Install;
use super::output::{self, Output};
use crate::cli::output::note;
use crate::filter::nearest;
use crate::view::{command_line, safe, units};

/// The action for each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    List,
    Wrap,
    Unwrap,
}

/// The words before a server's command that record it: this program and its arguments.
struct WrapCommand {
    program: PathBuf,
    db: Option<PathBuf>,
}

/// Counts over the servers of all files.
#[derive(Debug, Default)]
struct Tally {
    names: Vec<String>,
    changed: u64,
    recorded: u64,
}

/// Runs `mcptap install`. Without a client it lists the configurations of all clients.
pub fn install(arguments: Install, db: Option<PathBuf>) -> Result<ExitCode> {
    if arguments.own {
        return own::install(&arguments, &WrapCommand::new(db)?);
    }
    let Some(client) = &arguments.client else {
        run(&arguments, db, Action::List)?;
        return Ok(ExitCode::SUCCESS);
    };
    let tally = run(&arguments, db, Action::Wrap)?;
    match tally.changed {
        0 if tally.recorded == 0 => {
            note!("no server to record");
            return Ok(ExitCode::from(1));
        }
        0 => note!("already recorded"),
        _ if arguments.dry_run => note!("nothing was changed (--dry-run)"),
        servers => note!(
            "{} will be recorded from the next start of the client; \"mcptap\" shows the sessions, \"mcptap uninstall {client}\" undoes this",
            units::count(servers, "server")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `mcptap uninstall`. Without a client it changes the configurations of all clients.
pub fn uninstall(arguments: Install) -> Result<ExitCode> {
    if arguments.own {
        let count = own::uninstall(arguments.client.as_deref(), arguments.dry_run, &WrapCommand::new(None)?)?;
        if count == 0 {
            note!("no client has the server of mcptap");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let tally = run(&arguments, None, Action::Unwrap)?;
    match tally.changed {
        0 => note!("no server is recorded"),
        _ if arguments.dry_run => note!("nothing was changed (--dry-run)"),
        servers => note!(
            "{} will not be recorded from the next start of the client; existing recordings stay",
            units::count(servers, "server")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: &Install, db: Option<PathBuf>, action: Action) -> Result<Tally> {
    let wrap = WrapCommand::new(db)?;
    let mut out = output::stdout();
    let mut tally = Tally::default();
    let files = files(arguments.client.as_deref())?;
    // All files are read before anything is written, so that a mistake in one of them leaves no
    // work half done.
    let mut changes = Vec::new();
    for (client, path) in &files {
        writeln!(out, "{client:<16}  {}", path.display())?;
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut config = Config::read(path, &text).with_context(|| format!("cannot read {}", path.display()))?;
        let before = tally.changed;
        for server in config.servers() {
            let name = server.name().to_owned();
            if arguments.servers.is_empty() || arguments.servers.contains(&name) {
                // This program is recorded only if its server is named.
                let is_own = arguments.servers.is_empty()
                    && matches!(server.launch(&wrap.program), Launch::Command(words) if own::is_own(&words, &wrap.program));
                let action = if is_own && action == Action::Wrap { Action::List } else { action };
                apply(&mut config, &server, &wrap, action, &mut tally, &mut out)?;
            }
            tally.names.push(name);
        }
        if tally.changed > before {
            changes.push((path, text, config.text()));
        }
    }
    if let Some(unknown) = arguments.servers.iter().find(|name| !tally.names.contains(name)) {
        bail!("the configuration has no server {unknown:?}; it has: {}", tally.names.join(", "));
    }
    if action == Action::List && files.is_empty() {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
        let known = known.join(", ");
        writeln!(out, "found no configuration of {known}: give the path of a configuration file")?;
        writeln!(out, "\"mcptap run -- CLIENT\" records a client without changing its configuration (Linux)")?;
    }
    for (path, before, after) in changes.into_iter().filter(|_| !arguments.dry_run) {
        replace(path, &before, &after).with_context(|| format!("cannot change {}", path.display()))?;
    }
    out.flush()?;
    Ok(tally)
}

/// Applies the action to a server, and prints its state.
fn apply(
    config: &mut Config,
    server: &Server,
    wrap: &WrapCommand,
    action: Action,
    tally: &mut Tally,
    out: &mut Output,
) -> Result<()> {
    let launch = server.launch(&wrap.program);
    tally.recorded += u64::from(matches!(launch, Launch::Wrapped(_) | Launch::Bridged(_)));
    let state = match (&launch, action) {
        (Launch::Command(_), Action::Wrap) if config.put_in_front(server, &wrap.words(server.name())) => {
            tally.changed += 1;
            "is recorded now"
        }
        (Launch::Command(_), Action::Wrap) => "is written in a way that mcptap cannot change and restore exactly",
        (Launch::Wrapped(_), Action::Unwrap) => {
            config.take_from_front(server, server.words_in_front());
            tally.changed += 1;
            "is no longer recorded"
        }
        (Launch::Wrapped(_), _) => "is recorded",
        (Launch::Command(_), _) => "is not recorded",
        (Launch::Url(_), Action::Wrap) if config.replace_url(server, &wrap.bridge_words(server.name())) => {
            tally.changed += 1;
            "is recorded now"
        }
        (Launch::Url(_), Action::Wrap) => {
            "is reached over HTTP: \"mcptap run\" or \"mcptap proxy --intercept\" can record it"
        }
        (Launch::Bridged(_), Action::Unwrap) => {
            config.restore_url(server);
            tally.changed += 1;
            "is no longer recorded"
        }
        (Launch::Bridged(_), _) => "is recorded",
        (Launch::Url(_), _) => "is not recorded",
        (Launch::Unknown, _) => "has no command that could be recorded",
    };
    let command = match launch {
        // People paste this output into chats and tickets.
        Launch::Command(words) | Launch::Wrapped(words) => command_line::masked(&words).join(" "),
        Launch::Url(url) | Launch::Bridged(url) => command_line::masked(&[url]).concat(),
        Launch::Unknown => String::new(),
    };
    let line = format!("  {:<14}  {state:<22}  {command}", server.name());
    Ok(writeln!(out, "{}", safe::visible(line.trim_end()))?)
}

impl WrapCommand {
    fn new(db: Option<PathBuf>) -> Result<WrapCommand> {
        let program = env::current_exe().context("cannot determine the path of this program")?;
        let db = db.map(std::path::absolute).transpose().context("cannot determine the full path of the database")?;
        Ok(WrapCommand { program, db })
    }

    fn words(&self, name: &str) -> Vec<String> {
        self.with(&[&["wrap".to_owned()], &*name_option(name), &["--".to_owned()]].concat())
    }

    /// The command in place of a URL. The URL is only in the environment, because it may contain a
    /// token, and all users of the machine can read command lines.
    fn bridge_words(&self, name: &str) -> Vec<String> {
        self.with(&[&["proxy".to_owned()], &*name_option(name), &["--stdio".to_owned()]].concat())
    }

    fn with(&self, added: &[String]) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        if let Some(db) = &self.db {
            words.extend(["--db".to_owned(), db.display().to_string()]);
        }
        words.extend_from_slice(added);
        words
    }
}

/// The option that names a recording. A name that looks like an option is one word with it.
fn name_option(name: &str) -> Vec<String> {
    match name.starts_with('-') {
        true => vec![format!("--name={name}")],
        false => vec!["--name".to_owned(), name.to_owned()],
    }
}

/// The configuration files, each with the name of its client: those of one client, one given by its
/// path, or all that exist.
fn files(client: Option<&str>) -> Result<Vec<(String, PathBuf)>> {
    let folders = folders()?;
    let here = |client: &Client| {
        let paths = client.paths(&folders).into_iter().filter(|path| path.is_file());
        paths.map(|path| (client.id.to_owned(), path)).collect::<Vec<_>>()
    };
    let Some(name) = client else {
        // Clients can share a file of the project.
        let mut files: Vec<(String, PathBuf)> = Vec::new();
        for (client, path) in CLIENTS.iter().flat_map(here) {
            if !files.iter().any(|(_, known)| *known == path) {
                files.push((client, path));
            }
        }
        return Ok(files);
    };
    let Some(client) = Client::named(name) else {
        ensure!(Path::new(name).is_file(), "{}", unknown(name));
        return Ok(vec![("configuration".to_owned(), PathBuf::from(name))]);
    };
    let files = here(client);
    let paths: Vec<String> = client.paths(&folders).iter().map(|path| path.display().to_string()).collect();
    ensure!(!files.is_empty(), "found no configuration of {name} at {}", paths.join(", "));
    Ok(files)
}

/// The message about a word that is neither a client nor a file.
fn unknown(name: &str) -> String {
    let near = nearest(name, CLIENTS.iter().map(|client| client.id));
    let known: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
    match near.first() {
        Some(near) => format!("{name:?} is neither a client nor a file: did you mean {near}?"),
        None => format!("{name:?} is neither a client ({}) nor a file", known.join(", ")),
    }
}

fn folders() -> Result<Folders> {
    let base = etcetera::base_strategy::choose_native_strategy().context("cannot find the home folder")?;
    let config = if cfg!(target_os = "macos") { base.data_dir() } else { base.config_dir() };
    let windows = env::var_os("APPDATA").map(PathBuf::from);
    Ok(Folders { home: base.home_dir().to_owned(), config, windows, project: env::current_dir()? })
}

/// Replaces the text of a file atomically and retains its permissions. A symbolic link is followed.
fn replace(path: &Path, before: &str, after: &str) -> Result<()> {
    let path = fs::canonicalize(path)?;
    let folder = path.parent().context("it is in no folder")?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(after.as_bytes())?;
    file.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
    file.as_file().sync_all()?;
    ensure!(fs::read_to_string(&path)? == before, "another program changed it in the meantime: try again");
    file.persist(&path)?;
    Ok(())
}
