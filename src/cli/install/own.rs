//! `mcptap install --self`: adds the MCP server of this program to the configuration of a client,
//! and removes it. It is an entry with the name [`NAME`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use super::clients::{CLIENTS, Client};
use super::config::{Addition, Config, Launch};
use super::{WrapCommand, files, folders, replace};
use crate::cli::output::note;
use crate::cli::{args::Install, output};

/// The name of the entry.
const NAME: &str = "mcptap";

/// Whether this command line is the server of this program.
pub(super) fn is_own(words: &[String], program: &Path) -> bool {
    let Some((command, arguments)) = words.split_first() else { return false };
    let is_this = Path::new(command) == program || Path::new(command).file_name() == Some("mcptap".as_ref());
    is_this && arguments.iter().any(|word| word == "mcp") && !arguments.iter().any(|word| word == "--")
}

/// Adds the server to a client. A client without a configuration gets one.
pub(super) fn install(arguments: &Install, wrap: &WrapCommand) -> Result<ExitCode> {
    ensure!(cfg!(feature = "agents"), crate::cli::lacking("the server for agents"));
    let Some(client) = &arguments.client else {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
        bail!("name the client: {}, or the path of a configuration file", known.join(", "));
    };
    let path = file_of(client)?;
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        text => Some(text.with_context(|| format!("cannot read {}", path.display()))?),
    };
    ensure!(
        before.is_some() || path.extension().is_none_or(|extension| extension != "yaml"),
        "found no configuration at {}: start the client once, which writes one",
        path.display()
    );
    let read = Config::read(&path, before.as_deref().unwrap_or_default());
    let mut config = read.with_context(|| format!("cannot read {}", path.display()))?;
    if config.server(NAME).is_some() {
        note!("{} has a server {NAME} already", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let mut words = vec![wrap.program.display().to_string()];
    words.extend(wrap.db.iter().flat_map(|db| ["--db".to_owned(), db.display().to_string()]));
    words.push("mcp".to_owned());
    let is_added = config.add(&Addition { name: NAME, words: &words, list: list_of(client) });
    ensure!(is_added, "cannot change {}: its servers are written in an unknown way", path.display());
    if arguments.dry_run {
        note!("{} would get the server {NAME}; nothing was changed (--dry-run)", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let changed = match &before {
        Some(before) => replace(&path, before, &config.text()),
        None => create(&path, &config.text()),
    };
    changed.with_context(|| format!("cannot change {}", path.display()))?;
    note!(
        "{} has the server {NAME} from the next start of the client; \"mcptap uninstall --self {client}\" undoes this",
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Removes the server from a client, or from all. Returns from how many files.
pub(super) fn uninstall(client: Option<&str>, dry_run: bool, wrap: &WrapCommand) -> Result<u64> {
    let mut count = 0;
    for (_, path) in files(client)? {
        let before = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let cannot = || format!("cannot change {}", path.display());
        let mut config = Config::read(&path, &before).with_context(|| format!("cannot read {}", path.display()))?;
        let launch = config.server(NAME).map(|server| server.launch(&wrap.program));
        if !matches!(launch, Some(Launch::Command(words)) if is_own(&words, &wrap.program)) {
            continue;
        }
        ensure!(config.remove(NAME), "cannot change {}: remove the server {NAME} by hand", path.display());
        count += 1;
        if dry_run {
            note!("{} would lose the server {NAME}; nothing was changed (--dry-run)", path.display());
        } else if config.text().is_empty() {
            fs::remove_file(&path).with_context(cannot)?;
            note!("removed {}, which had only the server {NAME}", path.display());
        } else {
            replace(&path, &before, &config.text()).with_context(cannot)?;
            note!("{} has the server {NAME} no longer", path.display());
        }
    }
    Ok(count)
}

/// The configuration to change: the first one that exists, else the most general one.
fn file_of(client: &str) -> Result<PathBuf> {
    let Some(known) = Client::named(client) else {
        return Ok(files(Some(client))?.remove(0).1);
    };
    let paths = known.paths(&folders()?);
    let existing = paths.iter().find(|path| path.is_file());
    existing.or(paths.first()).cloned().context("the client has no configuration file")
}

/// The name of the list of servers in a new configuration of a client.
fn list_of(client: &str) -> &'static str {
    match client {
        "vscode" | "vscode-insiders" | "vscodium" => "servers",
        "zed" => "context_servers",
        "codex" => "mcp_servers",
        "goose" => "extensions",
        "opencode" => "mcp",
        _ => "mcpServers",
    }
}

/// Writes a new configuration that only its owner can read, as clients do.
fn create(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    fs::create_dir_all(path.parent().context("it is in no folder")?)?;
    Ok(output::create_private(path)?.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_server_is_not_the_own_one() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let program = Path::new("/opt/mcptap");
        assert!(is_own(&words(&["/usr/bin/mcptap", "--db", "/x y.db", "mcp"]), program));
        assert!(!is_own(&words(&["mcptap", "wrap", "--", "mcptap", "mcp"]), program));
        assert!(!is_own(&words(&["other", "mcp"]), program));
    }
}
