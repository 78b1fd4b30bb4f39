//! The servers in a client's configuration. Text is inserted into its text and removed from it:
//! comments, blanks and everything else stay as they are.

mod addition;
mod edit;
mod json;
mod servers;
mod toml;
mod tree;
mod yaml;

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

pub use self::addition::Addition;
use self::edit::Edit;
use self::servers::Entry;
use self::tree::Node;

/// The variable with the settings that a bridge replaces.
const REPLACED: &str = "MCPTAP_REPLACED";

/// The mark that some editors write before the first character of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The URL and the header fields in the settings that this program replaces, if a client started
/// it in place of a URL. The client has replaced variables in them.
#[cfg(feature = "http")]
pub fn replaced_settings() -> Option<(String, Vec<(String, String)>)> {
    remote(&std::env::var(REPLACED).ok()?)
}

/// The URL and the header fields in the settings of a server.
#[cfg(feature = "http")]
fn remote(settings: &str) -> Option<(String, Vec<(String, String)>)> {
    let root = json::read(settings).ok()??;
    let fields = root.map()?.get("headers").and_then(|headers| headers.value.map());
    let fields = fields.map_or(&[][..], |fields| &fields.members);
    let field = |field: &tree::Member| Some((field.name.clone(), field.value.text()?.to_owned()));
    Some((servers::url(root.map()?)?.to_owned(), fields.iter().filter_map(field).collect()))
}

/// A format of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    /// JSON, with or without comments.
    Json,
    Toml,
    Yaml,
}

/// The configuration of a client, as text that can be changed.
#[derive(Debug)]
pub struct Config {
    format: Syntax,
    has_mark: bool,
    /// The text without the mark.
    text: String,
}

/// A server in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its position among the servers.
    at: usize,
    name: String,
    /// The program that the client starts and its arguments.
    words: Option<Vec<String>>,
    has_command: bool,
    /// The URL of a server over HTTP.
    url: Option<String>,
    /// The text of the settings that a bridge replaces.
    replaced: Option<String>,
}

/// The way in which a client reaches a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// The client runs this command.
    Command(Vec<String>),
    /// The client runs mcptap, which runs this command.
    Wrapped(Vec<String>),
    /// The client runs nothing: it reaches the server over HTTP, at this URL.
    Url(String),
    /// The client runs mcptap, which reaches the server at this URL.
    Bridged(String),
    /// The configuration cannot be interpreted.
    Unknown,
}

impl Config {
    /// Parses TOML if the file's name ends in `.toml`, YAML if it ends in `.yaml` or `.yml`, else
    /// JSON with or without comments. An empty file has no servers.
    ///
    /// # Errors
    /// The text is not valid in that format.
    pub fn read(path: &Path, text: &str) -> Result<Config> {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Syntax::Toml,
            Some("yaml" | "yml") => Syntax::Yaml,
            _ => Syntax::Json,
        };
        let unmarked = text.strip_prefix(BYTE_ORDER_MARK);
        let config = Config { format, has_mark: unmarked.is_some(), text: unmarked.unwrap_or(text).to_owned() };
        config.tree()?;
        Ok(config)
    }

    /// The servers, in order.
    pub fn servers(&self) -> Vec<Server> {
        let Ok(Some(root)) = self.tree() else { return Vec::new() };
        let entries = servers::entries(&root, self.format).into_iter();
        entries.enumerate().map(|(at, entry)| Server::new(at, &entry)).collect()
    }

    /// The current text.
    pub fn text(&self) -> String {
        let mark = self.has_mark.then_some(BYTE_ORDER_MARK);
        mark.into_iter().map(String::from).chain([self.text.clone()]).collect()
    }

    fn tree(&self) -> Result<Option<Node>> {
        match self.format {
            Syntax::Json => json::read(&self.text),
            Syntax::Toml => toml::read(&self.text),
            Syntax::Yaml => yaml::read(&self.text),
        }
    }

    /// Inserts words before the command of a server. The first of them becomes its command. Returns
    /// whether that can be undone exactly, and changes nothing else.
    pub fn put_in_front(&mut self, server: &Server, words: &[String]) -> bool {
        let mut expected = self.servers();
        if let Some(server) = expected.get_mut(server.at) {
            server.words = server.words.take().map(|command| [words, &command].concat());
        }
        let edit = |config: &Config, entry: &Entry| edit::insert_words(config, entry, words);
        self.change(server, edit, |changed| {
            let is_expected = changed.servers() == expected;
            changed.take_from_front(server, words.len());
            is_expected
        })
    }

    /// Removes words before the command of a server.
    pub fn take_from_front(&mut self, server: &Server, count: usize) {
        self.text = self.edited(server, |config, entry| edit::remove_words(config, entry, count));
    }

    /// Replaces the URL of a server by a command that reaches it. The settings stay, as text in
    /// the environment of that command. Returns whether the format allows that, and nothing that
    /// the client needs would be lost.
    pub fn replace_url(&mut self, server: &Server, words: &[String]) -> bool {
        let edit = |config: &Config, entry: &Entry| edit::bridge(config, entry, words);
        self.change(server, edit, |changed| {
            let is_expected = changed.servers().get(server.at).is_some_and(|server| server.replaced.is_some());
            changed.restore_url(server);
            is_expected
        })
    }

    /// Puts back what [`Config::replace_url`] replaced. Members that were added later stay.
    pub fn restore_url(&mut self, server: &Server) {
        self.text = self.edited(server, edit::unbridge);
    }

    /// Makes an edit if its result is as expected, and if the opposite edit gives the same text
    /// again. `undo` makes that opposite edit and returns whether the result was as expected.
    fn change(
        &mut self,
        server: &Server,
        edit: impl Fn(&Config, &Entry) -> Option<Vec<Edit>>,
        undo: impl Fn(&mut Config) -> bool,
    ) -> bool {
        let text = self.edited(server, edit);
        let mut undone = Config { text: text.clone(), ..*self };
        let is_exact = text != self.text && undo(&mut undone) && undone.text == self.text;
        if is_exact {
            self.text = text;
        }
        is_exact
    }

    /// The text after an edit of a server's settings. It is the same if the edit is impossible.
    fn edited(&self, server: &Server, edit: impl Fn(&Config, &Entry) -> Option<Vec<Edit>>) -> String {
        let mut text = self.text.clone();
        let Ok(Some(root)) = self.tree() else { return text };
        let entry = servers::entries(&root, self.format).into_iter().nth(server.at);
        let mut edits = entry.and_then(|entry| edit(self, &entry)).unwrap_or_default();
        edits.sort_by_key(|(range, _)| range.start);
        edits.into_iter().rev().for_each(|(range, replacement)| text.replace_range(range, &replacement));
        text
    }
}

impl Server {
    fn new(at: usize, entry: &Entry) -> Server {
        let start = entry.start();
        Server {
            at,
            name: entry.name.to_owned(),
            words: start.and_then(|start| start.words()),
            has_command: start.is_some(),
            url: entry.url().map(str::to_owned),
            replaced: entry.replaced().map(str::to_owned),
        }
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The way in which the client reaches the server. `program` is the path of this program.
    pub fn launch(&self, program: &Path) -> Launch {
        let Some(words) = &self.words else {
            let url = self.url.clone().filter(|_| !self.has_command);
            return url.map_or(Launch::Unknown, Launch::Url);
        };
        let command = Path::new(&words[0]);
        let is_own = command == program || command.file_name() == Some("mcptap".as_ref());
        if let (true, Some(replaced)) = (is_own, &self.replaced) {
            let root = json::read(replaced).ok().flatten();
            let url = root.as_ref().and_then(|root| servers::url(root.map()?));
            return Launch::Bridged(url.unwrap_or_default().to_owned());
        }
        if is_own && words.iter().any(|word| word == "wrap") {
            let wrapped = &words[self.words_in_front()..];
            return if wrapped.is_empty() { Launch::Unknown } else { Launch::Wrapped(wrapped.to_vec()) };
        }
        Launch::Command(words.clone())
    }

    /// The number of words before the command of a wrapped server: all up to `--`.
    pub fn words_in_front(&self) -> usize {
        let words = self.words.as_deref().unwrap_or_default();
        words.iter().position(|word| word == "--").map_or(words.len(), |at| at + 1)
    }
}

#[cfg(test)]
mod tests;
