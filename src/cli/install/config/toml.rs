//! A configuration in TOML.

use anyhow::Result;
use toml_edit::{Array, DocumentMut, Item, TableLike, TomlError, Value, value};

use super::{DEPTH, Document, LISTS, ServerSettings, URLS};
use crate::cli::toml_error;

/// The document, and the keys that lead to each of its servers.
pub(super) struct Toml {
    document: DocumentMut,
    servers: Vec<Vec<String>>,
}

impl Toml {
    /// Parses the text.
    ///
    /// # Errors
    /// It is not TOML.
    pub(super) fn read(text: &str) -> Result<Toml> {
        let wrong = |error: TomlError| toml_error(text, error.message(), error.span());
        let document: DocumentMut = text.parse().map_err(wrong)?;
        let mut servers = Vec::new();
        collect(document.as_table(), &[], &mut servers);
        Ok(Toml { document, servers })
    }

    fn server(&mut self, server: usize) -> Option<&mut dyn TableLike> {
        let path = self.servers.get(server)?;
        let mut table: &mut dyn TableLike = self.document.as_table_mut();
        for name in path {
            table = table.get_mut(name)?.as_table_like_mut()?;
        }
        Some(table)
    }
}

fn collect(table: &dyn TableLike, path: &[String], found: &mut Vec<Vec<String>>) {
    for (name, item) in table.iter() {
        let Some(inner) = item.as_table_like() else { continue };
        let path = [path, &[name.to_owned()]].concat();
        if LISTS.contains(&name) {
            let servers = inner.iter().filter(|(_, server)| server.is_table_like());
            found.extend(servers.map(|(server, _)| [&path[..], &[server.to_owned()]].concat()));
        } else if path.len() < DEPTH {
            collect(inner, &path, found);
        }
    }
}

impl Document for Toml {
    fn servers(&self) -> Vec<ServerSettings> {
        let settings = |path: &Vec<String>| {
            let mut table: &dyn TableLike = self.document.as_table();
            for name in path {
                table = table.get(name)?.as_table_like()?;
            }
            Some(ServerSettings {
                name: path.last()?.clone(),
                command: table.get("command").and_then(Item::as_str).map(str::to_owned),
                arguments: match table.get("args") {
                    None => Some(Vec::new()),
                    Some(arguments) => arguments.as_array().and_then(words),
                },
                url: URLS.iter().find_map(|name| table.get(name)?.as_str()).map(str::to_owned),
                replaced: None,
                has_type: false,
                is_plain: false,
            })
        };
        self.servers.iter().filter_map(settings).collect()
    }

    fn replace_command(&mut self, server: usize, command: &str) {
        let value = self.server(server).and_then(|table| table.get_mut("command")?.as_value_mut());
        if let Some(value) = value {
            let decor = value.decor().clone();
            *value = command.into();
            *value.decor_mut() = decor;
        }
    }

    fn add_arguments(&mut self, server: usize, added: &[String]) {
        let Some(table) = self.server(server) else { return };
        if !table.contains_key("args") {
            // In an inline table the blank before the closing brace belongs to the last value.
            let blank = last(table).and_then(take_blank).unwrap_or_default();
            table.insert("args", value(Value::from(Array::new()).decorated(" ", blank)));
        }
        let Some(arguments) = table.get_mut("args").and_then(Item::as_array_mut) else { return };
        let first = arguments.get(0).map_or_else(String::new, |word| prefix(word).to_owned());
        let others = between(&first);
        if let Some(word) = arguments.get_mut(0) {
            word.decor_mut().set_prefix(&others);
        }
        for (at, word) in added.iter().enumerate() {
            let prefix = if at == 0 { &first } else { &others };
            arguments.insert_formatted(at, Value::from(word.as_str()).decorated(prefix, ""));
        }
    }

    fn remove_arguments(&mut self, server: usize, count: usize) {
        let Some(table) = self.server(server) else { return };
        let Some(arguments) = table.get_mut("args").and_then(Item::as_array_mut) else { return };
        let first = arguments.get(0).map_or_else(String::new, |word| prefix(word).to_owned());
        (0..count.min(arguments.len())).for_each(|_| drop(arguments.remove(0)));
        match arguments.get_mut(0) {
            Some(word) => word.decor_mut().set_prefix(first),
            None => {
                let blank = table.get_mut("args").and_then(Item::as_value_mut).and_then(take_blank);
                table.remove("args");
                if let (Some(blank), Some(last)) = (blank, last(table)) {
                    last.decor_mut().set_suffix(blank);
                }
            }
        }
    }

    /// A table of TOML can be in several places, so its text cannot be put aside.
    fn entry(&self, _: usize) -> Option<String> {
        None
    }

    fn replace_entry(&mut self, _: usize, _: &str) {}

    fn text(&self) -> String {
        self.document.to_string()
    }
}

fn words(array: &Array) -> Option<Vec<String>> {
    array.iter().map(|value| value.as_str().map(str::to_owned)).collect()
}

/// The text before a value: blanks, line ends and comments.
fn prefix(value: &Value) -> &str {
    value.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default()
}

fn last(table: &mut dyn TableLike) -> Option<&mut Value> {
    table.iter_mut().last()?.1.as_value_mut()
}

/// Removes the blanks behind a value and returns them.
fn take_blank(value: &mut Value) -> Option<String> {
    let suffix = value.decor().suffix().and_then(|suffix| suffix.as_str()).filter(|suffix| !suffix.is_empty())?;
    let blank = suffix.trim().is_empty().then(|| suffix.to_owned())?;
    value.decor_mut().set_suffix("");
    Some(blank)
}

/// The text between two words of an array, given the text before the first word: a line end with
/// its indentation, or a blank.
fn between(first: &str) -> String {
    match first.rfind('\n') {
        Some(at) => first[at..].to_owned(),
        None => " ".to_owned(),
    }
}
