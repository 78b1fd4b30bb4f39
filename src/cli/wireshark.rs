//! `mcptap wireshark`: adds mcptap to Wireshark, and removes it.
//!
//! Two files are added. Wireshark runs the first one to list interfaces and to capture (`extcap`).
//! The second one is a plugin in Lua, `mcp.lua`, with the fields `mcp.*`. Each has a line that says
//! who added it, and which folders were made for it. So nothing else needs to be remembered.

mod capture;
mod extcap;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::args::{Wireshark, WiresharkAction, WiresharkFolders};
use crate::cli::output::note;

/// The plugin with the fields.
const PLUGIN: &str = include_str!("wireshark/mcp.lua");

/// Marks a file that `install` added.
const MARK: &str = "Added by \"mcptap wireshark install\"; \"mcptap wireshark uninstall\" removes it.";
/// Begins a line with a folder that was made for the file.
const MADE: &str = "Made for it: ";

/// Names of the added files.
const PROGRAM_FILE: &str = "mcptap";
const PLUGIN_FILE: &str = "mcptap.lua";

pub fn run(arguments: Wireshark) -> Result<()> {
    match arguments.action {
        WiresharkAction::Install(folders) => install(&folders),
        WiresharkAction::Uninstall(folders) => uninstall(&folders),
        WiresharkAction::Extcap(extcap) => extcap::run(extcap),
    }
}

/// Folders of Wireshark. The one to write to is first, others may hold files of an earlier
/// `install`.
struct Folders {
    extcap: Vec<PathBuf>,
    plugins: Vec<PathBuf>,
}

impl Folders {
    /// The given folders, else those that Wireshark names.
    fn find(given: &WiresharkFolders) -> Result<Folders> {
        let needs_extcap = !given.only_fields && given.extcap_dir.is_none();
        let named = if needs_extcap || given.plugin_dir.is_none() { named_folders()? } else { Vec::new() };
        // With sudo, the folders of the user are those of root, who does not run Wireshark.
        let is_for_all = std::env::var_os("SUDO_UID").is_some();
        let of = |names: &[&str]| -> Vec<PathBuf> {
            let found = names.iter().flat_map(|name| named.iter().filter(move |(known, _)| known == name));
            let mut folders: Vec<PathBuf> = found.map(|(_, path)| path.clone()).collect();
            if is_for_all {
                folders.reverse();
            }
            folders
        };
        let extcap = match &given.extcap_dir {
            _ if given.only_fields => Vec::new(),
            Some(folder) => vec![folder.clone()],
            // Wireshark before 4.2 has no folder of the user.
            None => of(&["Personal Extcap path", "Extcap path", "Global Extcap path"]),
        };
        let plugins = match &given.plugin_dir {
            Some(folder) => vec![folder.clone()],
            None => of(&["Personal Lua Plugins", "Global Lua Plugins"]),
        };
        ensure!(given.only_fields || !extcap.is_empty(), "this Wireshark names no extcap folder: give --extcap-dir");
        ensure!(!plugins.is_empty(), "this Wireshark has no Lua plugins: give --plugin-dir");
        Ok(Folders { extcap, plugins })
    }
}

/// The folders that Wireshark uses, with its names for them.
fn named_folders() -> Result<Vec<(String, PathBuf)>> {
    for program in ["tshark", "wireshark"] {
        let done = Command::new(program).args(["-G", "folders"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let Ok(done) = done else { continue };
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let folders = text.lines().filter_map(|line| line.split_once(':'));
        let folders = folders.map(|(name, path)| (name.trim().to_owned(), PathBuf::from(path.trim())));
        return Ok(folders.filter(|(_, path)| path.is_absolute()).collect());
    }
    bail!(
        "cannot run tshark or wireshark, which name their folders: install one, or give --extcap-dir and --plugin-dir"
    )
}

fn install(given: &WiresharkFolders) -> Result<()> {
    let folders = Folders::find(given)?;
    let mut files = Vec::new();
    if let Some(folder) = folders.extcap.first() {
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        files.push((folder.join(PROGRAM_FILE), launcher(&program)?));
    }
    if let Some(folder) = folders.plugins.first() {
        files.push((folder.join(PLUGIN_FILE), format!("-- {MARK}\n{PLUGIN}")));
    }
    for (path, _) in &files {
        ensure!(
            !path.exists() || is_ours(path),
            "{} is there already and is not of mcptap: move it away first",
            path.display()
        );
    }
    for (path, text) in &files {
        add(path, text).with_context(|| format!("cannot write {}{}", path.display(), hint(path)))?;
        note!("added {}", path.display());
    }
    let interfaces = if given.only_fields { "" } else { "the interface \"MCP on this host\" and " };
    note!("start Wireshark again: it then has {interfaces}the fields mcp.*");
    Ok(())
}

fn uninstall(given: &WiresharkFolders) -> Result<()> {
    let folders = Folders::find(given)?;
    let programs = folders.extcap.iter().map(|folder| folder.join(PROGRAM_FILE));
    let plugins = folders.plugins.iter().map(|folder| folder.join(PLUGIN_FILE));
    let mut removed = 0;
    for path in programs.chain(plugins).filter(|path| is_ours(path)) {
        remove(&path)
            .with_context(|| format!("cannot remove {}: if it was added with sudo, use sudo", path.display()))?;
        note!("removed {}", path.display());
        removed += 1;
    }
    if removed == 0 {
        note!("nothing to remove: mcptap added no file to these folders");
    }
    Ok(())
}

/// What to try when a file cannot be written.
fn hint(path: &Path) -> &'static str {
    match path.file_name().is_some_and(|name| name == PROGRAM_FILE) {
        true => " (if only root may write there, use sudo, or --only-fields to add the fields alone)",
        false => "",
    }
}

/// A script that starts this program as an external capture program.
fn launcher(program: &Path) -> Result<String> {
    let program = program.to_str().context("the path of this program is not UTF-8, so no script can name it")?;
    let quoted = program.replace('\'', r"'\''");
    Ok(format!("#!/bin/sh\n# {MARK}\nexec '{quoted}' wireshark extcap \"$@\"\n"))
}

/// Writes a file, and its folder if it is missing. The file gets a line for each folder made.
fn add(path: &Path, text: &str) -> Result<()> {
    let mut made: Vec<PathBuf> = match is_ours(path) {
        true => made_folders(path),
        false => Vec::new(),
    };
    let folder = path.parent().context("it is no file in a folder")?;
    made.extend(folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned));
    fs::create_dir_all(folder)?;
    // The line with the mark has the sign of a comment before it.
    let at = text.find(MARK).context("the text has no mark")?;
    let comment = text[..at].lines().last().unwrap_or_default();
    let folders: String = made.iter().map(|folder| format!("{comment}{MADE}{}\n", folder.display())).collect();
    let behind = at + text[at..].find('\n').map_or(text.len() - at, |end| end + 1);
    fs::write(path, format!("{}{folders}{}", &text[..behind], &text[behind..]))?;
    if path.file_name().is_some_and(|name| name == PROGRAM_FILE) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Removes a file, and the folders made for it that are empty.
fn remove(path: &Path) -> Result<()> {
    let made = made_folders(path);
    fs::remove_file(path)?;
    for folder in made {
        // A folder with other files stays.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// The first lines of a file, where `install` writes its marks.
fn head(path: &Path) -> Vec<String> {
    let text = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().take(20).map(str::to_owned).collect()
}

/// Whether `install` added a file.
fn is_ours(path: &Path) -> bool {
    head(path).iter().any(|line| line.ends_with(MARK))
}

/// The folders that were made for a file, the innermost first.
fn made_folders(path: &Path) -> Vec<PathBuf> {
    head(path).iter().filter_map(|line| Some(PathBuf::from(line.split_once(MADE)?.1))).collect()
}
