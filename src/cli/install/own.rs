//! `mcptap install --self`: adds the MCP server of this program to the configuration of a client,
//! and removes it. It is an entry with the name [`NAME`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use jsonc_parser::ast::{Object, Value};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::clients::{CLIENTS, Client};
use super::{WrapCommand, files, folders, replace};
use crate::cli::output::note;
use crate::cli::{args::Install, output};

/// The name of the entry.
const NAME: &str = "mcptap";

/// Names of the member that lists servers: of most clients, of VS Code, of Zed, and of Codex.
const LISTS: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// Whether this command line is the server of this program.
pub(super) fn is_own(words: &[String], program: &Path) -> bool {
    let Some((command, arguments)) = words.split_first() else { return false };
    let is_this = Path::new(command) == program || Path::new(command).file_name() == Some("mcptap".as_ref());
    is_this && arguments.iter().any(|word| word == "mcp") && !arguments.iter().any(|word| word == "--")
}

/// Adds the server to a client. A client without a configuration gets one.
pub(super) fn install(arguments: &Install, wrap: &WrapCommand) -> Result<ExitCode> {
    ensure!(cfg!(feature = "agents"), "this mcptap was built without its MCP server: see \"mcptap mcp\"");
    let Some(client) = &arguments.client else {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
        bail!("name the client: {}, or the path of a configuration file", known.join(", "));
    };
    let path = file_of(client)?;
    let before = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        text => Some(text.with_context(|| format!("cannot read {}", path.display()))?),
    };
    let text = before.as_deref().unwrap_or_default();
    let list = list_of(client);
    let mut words = vec![wrap.program.display().to_string()];
    words.extend(wrap.db.iter().flat_map(|db| ["--db".to_owned(), db.display().to_string()]));
    words.push("mcp".to_owned());
    let added = added(&path, text, list, &words);
    let Some(after) = added.with_context(|| format!("cannot change {}", path.display()))? else {
        note!("{} has a server {NAME} already", path.display());
        return Ok(ExitCode::SUCCESS);
    };
    if arguments.dry_run {
        note!("{} would get the server {NAME}; nothing was changed (--dry-run)", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let changed = match &before {
        Some(before) => replace(&path, before, &after),
        None => create(&path, &after),
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
        let Some(after) = removed(&path, &before, &wrap.program).with_context(cannot)? else { continue };
        count += 1;
        if dry_run {
            note!("{} would lose the server {NAME}; nothing was changed (--dry-run)", path.display());
        } else if LISTS.iter().any(|list| after == empty(&path, list)) {
            fs::remove_file(&path).with_context(cannot)?;
            note!("removed {}, which had only the server {NAME}", path.display());
        } else {
            replace(&path, &before, &after).with_context(cannot)?;
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
        "vscode" => "servers",
        "zed" => "context_servers",
        "codex" => "mcp_servers",
        _ => "mcpServers",
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// A configuration without servers.
fn empty(path: &Path, list: &str) -> String {
    if is_toml(path) { String::new() } else { format!("{{\n  \"{list}\": {{}}\n}}\n") }
}

/// The text with the entry; `None` if it is there.
fn added(path: &Path, text: &str, list: &str, words: &[String]) -> Result<Option<String>> {
    let text = if text.trim().is_empty() { empty(path, list) } else { text.to_owned() };
    let (command, arguments) = words.split_first().context("no words")?;
    if is_toml(path) {
        let mut document: DocumentMut = text.parse().map_err(|error| anyhow!("{error}"))?;
        let servers = document.entry(list).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let servers = servers.as_table_like_mut().with_context(|| format!("{list} is no table"))?;
        if servers.contains_key(NAME) {
            return Ok(None);
        }
        let mut entry = Table::new();
        entry.insert("command", value(command));
        entry.insert("args", value(Array::from_iter(arguments)));
        servers.insert(NAME, Item::Table(entry));
        return Ok(Some(document.to_string()));
    }
    let object = object(&text)?;
    let Some(servers) = LISTS.iter().find_map(|list| object.get_object(list)) else {
        ensure!(object.get(list).is_none(), "{list} is no object");
        return added(path, &insert(&text, &object, list, "{}"), list, words);
    };
    if servers.get(NAME).is_some() {
        return Ok(None);
    }
    let quoted = |word: &String| serde_json::Value::from(word.as_str()).to_string();
    let arguments: Vec<String> = arguments.iter().map(quoted).collect();
    let entry = format!("{{ \"command\": {}, \"args\": [{}] }}", quoted(command), arguments.join(", "));
    Ok(Some(insert(&text, servers, NAME, &entry)))
}

/// The object that a text in JSON is.
fn object(text: &str) -> Result<Object<'_>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    match parsed.map_err(|error| anyhow!("{error}"))?.value {
        Some(Value::Object(object)) => Ok(object),
        _ => bail!("it is no JSON object"),
    }
}

/// The text with one more member at the end of an object. It is separated as the first member is.
/// [`remove`] is the inverse.
fn insert(text: &str, object: &Object<'_>, name: &str, value: &str) -> String {
    let member = format!("\"{name}\": {value}");
    let (inner, end) = (object.range.start + 1, object.range.end - 1);
    let (Some(first), Some(last)) = (object.properties.first(), object.properties.last()) else {
        let line = text[..inner].rsplit('\n').next().unwrap_or_default();
        let margin = &line[..line.len() - line.trim_start().len()];
        let text_of_object = if text[inner..end].trim().is_empty() {
            format!("\n{margin}  {member}\n{margin}")
        } else {
            // A comment.
            format!("\n{margin}  {member}{}", &text[inner..end])
        };
        return format!("{}{text_of_object}{}", &text[..inner], &text[end..]);
    };
    let before = &text[inner..first.range.start];
    let before = before.rfind('\n').map_or(before, |line| &before[line..]);
    let separator = if before.trim().is_empty() { before } else { " " };
    let rest = &text[last.range.end..end];
    match rest.trim_start().starts_with(',') {
        true => {
            let at = last.range.end + rest.find(',').map_or(0, |comma| comma + 1);
            format!("{}{separator}{member},{}", &text[..at], &text[at..])
        }
        false => format!("{},{separator}{member}{}", &text[..last.range.end], &text[last.range.end..]),
    }
}

/// The text without a member of an object.
fn remove(text: &str, object: &Object<'_>, name: &str) -> Option<String> {
    let at = object.properties.iter().position(|member| member.name.as_str() == name)?;
    let (start, end) = (object.properties[at].range.start, object.properties[at].range.end);
    let previous = at.checked_sub(1).map(|before| object.properties[before].range.end);
    let range = match (previous, object.properties.get(at + 1)) {
        (Some(previous), _) => {
            let comma = previous + text[previous..start].find(',').unwrap_or(0);
            if text[end..].starts_with(',') { comma + 1..end + 1 } else { comma..end }
        }
        (None, Some(next)) => start..next.range.start,
        (None, None) => {
            let inner = object.range.start + 1..object.range.end - 1;
            let is_alone = text[inner.start..start].trim().is_empty() && text[end..inner.end].trim().is_empty();
            if is_alone { inner } else { start..end }
        }
    };
    Some(format!("{}{}", &text[..range.start], &text[range.end..]))
}

/// The text without the entry; `None` if there is none, or if it is of somebody else.
fn removed(path: &Path, text: &str, program: &Path) -> Result<Option<String>> {
    if is_toml(path) {
        let mut document: DocumentMut = text.parse().map_err(|error| anyhow!("{error}"))?;
        for list in LISTS {
            let Some(servers) = document.get_mut(list).and_then(Item::as_table_like_mut) else { continue };
            let words = servers.get(NAME).and_then(Item::as_table_like).map(words_of_table);
            if words.is_some_and(|words| is_own(&words, program)) {
                servers.remove(NAME);
                return Ok(Some(document.to_string()));
            }
        }
        return Ok(None);
    }
    let object = object(text)?;
    for servers in LISTS.iter().filter_map(|list| object.get_object(list)) {
        if servers.get_object(NAME).is_some_and(|entry| is_own(&words_of_object(entry), program)) {
            return Ok(remove(text, servers, NAME));
        }
    }
    Ok(None)
}

fn words_of_table(entry: &dyn TableLike) -> Vec<String> {
    let command = entry.get("command").and_then(Item::as_str);
    let arguments = entry.get("args").and_then(Item::as_array).into_iter().flatten().filter_map(|word| word.as_str());
    command.into_iter().chain(arguments).map(str::to_owned).collect()
}

fn words_of_object(entry: &Object<'_>) -> Vec<String> {
    let command = entry.get_string("command").map(|command| command.value.as_ref().to_owned());
    let arguments = entry.get_array("args").map(|arguments| arguments.elements.as_slice()).unwrap_or_default();
    let text = |word: &Value<'_>| word.as_string_lit().map(|word| word.value.as_ref().to_owned());
    command.into_iter().chain(arguments.iter().filter_map(text)).collect()
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

    fn words() -> Vec<String> {
        ["/usr/bin/mcptap", "--db", "/x y.db", "mcp"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_entry_is_added_and_removed_without_a_trace() {
        let json = [
            "{\n  \"mcpServers\": {}\n}\n",
            "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" } // last\n  }\n}\n",
            "{ \"servers\": { \"a\": { \"command\": \"x\", \"args\": [] } } }",
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\" }, } }",
            "{\n\t\"context_servers\": {\n\t\t\"b\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t},\n\t\"z\": 1\n}",
        ];
        let toml = ["", "# mine\ntheme = \"dark\"\n\n[mcp_servers.a]\ncommand = \"x\"\n"];
        let all = json.map(|text| ("a.json", text)).into_iter().chain(toml.map(|text| ("a.toml", text)));
        for (name, text) in all {
            let (path, program) = (Path::new(name), Path::new("/usr/bin/mcptap"));
            let list = if name == "a.toml" { "mcp_servers" } else { "mcpServers" };
            let after = added(path, text, list, &words()).unwrap().unwrap();
            assert!(after.contains("/x y.db") && added(path, &after, list, &words()).unwrap().is_none(), "{after}");
            assert_eq!(removed(path, &after, program).unwrap().as_deref(), Some(text), "{after}");
            assert_eq!(removed(path, text, program).unwrap(), None);
        }
    }

    #[test]
    fn an_entry_of_somebody_else_stays() {
        let text = r#"{ "mcpServers": { "mcptap": { "command": "other", "args": ["mcp"] } } }"#;
        let path = Path::new("a.json");
        assert_eq!(removed(path, text, Path::new("/usr/bin/mcptap")).unwrap(), None);
        assert_eq!(added(path, text, "mcpServers", &words()).unwrap(), None);
        assert!(added(path, "[]", "mcpServers", &words()).is_err());
        let wrapped = ["mcptap", "wrap", "--", "mcptap", "mcp"].map(str::to_owned);
        assert!(!is_own(&wrapped, path) && is_own(&words(), path));
    }
}
