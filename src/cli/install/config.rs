//! The servers in a client's configuration. They are changed in place: comments, blanks and everything else stay as they are.

use std::path::Path;

use anyhow::{Result, anyhow};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstNode, CstObject, CstObjectProp, CstRootNode};

/// Names of the members that list servers: of nearly all clients, of VS Code, and of Zed.
const LISTS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// Objects around such a list: Claude Code has one for each project, below `projects`.
const DEPTH: usize = 3;

/// A configuration, as text that can be changed.
pub struct Config(CstRootNode);

/// A server in it.
pub struct Server {
    /// Its name.
    pub name: String,
    entry: CstObject,
}

/// How a client gets at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// It runs this command.
    Command(Vec<String>),
    /// It runs mcptap, which runs this command.
    Wrapped(Vec<String>),
    /// It runs nothing: the server is reached over HTTP.
    Url,
    /// Some other way.
    Unknown,
}

impl Config {
    /// Reads JSON, with comments where there are any. What is nothing yet (an empty file) has no servers.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn read(text: &str) -> Result<Config> {
        let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| anyhow!("{error}"))?;
        Ok(Config(root))
    }

    /// Its servers, in order.
    pub fn servers(&self) -> Vec<Server> {
        let mut found = Vec::new();
        if let Some(object) = self.0.object_value() {
            collect(&object, DEPTH, &mut found);
        }
        found
    }

    /// Its text as it is now.
    pub fn text(&self) -> String {
        self.0.to_string()
    }
}

fn collect(object: &CstObject, depth: usize, found: &mut Vec<Server>) {
    for property in object.properties() {
        let (Some(name), Some(value)) = (property.decoded_name(), property.object_value()) else { continue };
        if LISTS.contains(&name.as_str()) {
            let servers = value.properties().into_iter();
            found.extend(
                servers
                    .filter_map(|server| Some(Server { name: server.decoded_name()?, entry: server.object_value()? })),
            );
        } else if depth > 1 {
            collect(&value, depth - 1, found);
        }
    }
}

impl Server {
    /// How the client gets at it. `program` is where this program is.
    pub fn launch(&self, program: &Path) -> Launch {
        let Some(command) = self.entry.get("command").and_then(|command| text(&command.value()?)) else {
            let is_remote = ["url", "serverUrl", "httpUrl"].iter().any(|name| self.entry.get(name).is_some());
            return if is_remote { Launch::Url } else { Launch::Unknown };
        };
        let Some(arguments) = self.arguments() else { return Launch::Unknown };
        let own = Path::new(&command) == program || Path::new(&command).file_name() == Some("mcptap".as_ref());
        if own && arguments.iter().any(|word| word == "wrap") {
            let wrapped = arguments.iter().position(|word| word == "--").map_or(&[][..], |at| &arguments[at + 1..]);
            return if wrapped.is_empty() { Launch::Unknown } else { Launch::Wrapped(wrapped.to_vec()) };
        }
        Launch::Command([vec![command], arguments].concat())
    }

    /// Its arguments; `None` where they are no strings.
    fn arguments(&self) -> Option<Vec<String>> {
        match self.entry.get("args") {
            None => Some(Vec::new()),
            Some(property) => property.array_value()?.elements().iter().map(text).collect(),
        }
    }

    /// Puts words in front of its command: the first is the command from now on.
    pub fn put_in_front(&self, words: &[String]) {
        let (Some((first, others)), Some(before)) = (words.split_first(), self.arguments()) else { return };
        let Some(command) = self.replace_command(first) else { return };
        let new = [others, &[command], &before].concat();
        let arguments = self.entry.array_value_or_set("args");
        if is_one_line(&arguments) {
            arguments.replace_with(new.into());
        } else {
            let added = new.len() - before.len();
            new.iter().take(added).enumerate().for_each(|(at, word)| drop(arguments.insert(at, word.as_str().into())));
        }
    }

    /// Takes everything up to the first `--` away from in front of its command.
    pub fn take_from_front(&self) {
        let (Some(arguments), Some(before)) = (self.entry.array_value("args"), self.arguments()) else { return };
        let Some(at) = before.iter().position(|word| word == "--") else { return };
        let Some((command, after)) = before[at + 1..].split_first() else { return };
        self.replace_command(command);
        if after.is_empty() {
            self.entry.get("args").into_iter().for_each(CstObjectProp::remove);
        } else if is_one_line(&arguments) {
            arguments.replace_with(after.to_vec().into());
        } else {
            arguments.elements().into_iter().take(at + 2).for_each(CstNode::remove);
        }
    }

    /// Says what it was.
    fn replace_command(&self, command: &str) -> Option<String> {
        let value = self.entry.get("command")?.value()?;
        let before = text(&value)?;
        value.as_string_lit()?.set_raw_value(serde_json::Value::from(command).to_string());
        Some(before)
    }
}

fn text(node: &CstNode) -> Option<String> {
    node.as_string_lit()?.decoded_value().ok()
}

/// Whether an array is a line of words and nothing else. Such a one is written anew: what is taken out of it would leave blanks.
fn is_one_line(array: &CstArray) -> bool {
    !array.children().iter().any(|child| child.is_newline() || child.is_comment())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/usr/local/bin/mcptap";

    /// Comments, blanks and commas as people leave them.
    const TEXT: &str = r#"{
  // what the assistant may use
  "theme": "dark",
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"] }, /* mine */
    "notes": {
      "command": "C:\\notes \"2\".exe",
      "args": [
        "--verbose", // for now
        "--root=/home"
      ],
      "env": { "TOKEN": "secret" },
    },
    "bare": { "command": "server" },
    "remote": { "type": "http", "url": "https://example.com/mcp" },
    "odd": { "command": "server", "args": [1] },
  },
  "projects": { "/home/me/work": { "mcpServers": { "own": { "command": "python", "args": ["own.py"] } } } }
}
"#;

    fn launches(config: &Config) -> Vec<(String, Launch)> {
        config.servers().into_iter().map(|server| (server.name.clone(), server.launch(Path::new(PROGRAM)))).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn servers_are_found_wherever_they_are_listed() {
        let own = |command: &[&str]| Launch::Command(words(command));
        let expected = [
            ("files", own(&["npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp"])),
            ("notes", own(&["C:\\notes \"2\".exe", "--verbose", "--root=/home"])),
            ("bare", own(&["server"])),
            ("remote", Launch::Url),
            ("odd", Launch::Unknown),
            ("own", own(&["python", "own.py"])),
        ];
        let expected = expected.map(|(name, launch)| (name.to_owned(), launch));
        assert_eq!(launches(&Config::read(TEXT).unwrap()), expected);
        for (text, count) in
            [("", 0), ("[]", 0), (r#"{"mcp":{"servers":{"a":{}}}}"#, 1), (r#"{"context_servers":{"a":{}}}"#, 1)]
        {
            assert_eq!(Config::read(text).unwrap().servers().len(), count, "{text}");
        }
        assert!(Config::read("{").is_err());
    }

    #[test]
    fn what_was_put_in_front_can_be_taken_away_and_leaves_no_trace() {
        let config = Config::read(TEXT).unwrap();
        let before = launches(&config);
        let own = |server: &Server| server.launch(Path::new(PROGRAM));
        for server in config.servers() {
            if let Launch::Command(_) = own(&server) {
                server.put_in_front(&words(&[PROGRAM, "wrap", "--name", &server.name, "--"]));
            }
        }
        let wrapped = config.text();
        assert!(
            wrapped.contains(
                r#"{ "command": "/usr/local/bin/mcptap", "args": ["wrap", "--name", "files", "--", "npx", "-y", "#
            ),
            "{wrapped}"
        );
        assert!(wrapped.contains(r#""C:\\notes \"2\".exe","#) && wrapped.contains("// for now"), "{wrapped}");
        let config = Config::read(&wrapped).unwrap();
        for ((name, launch), (_, before)) in launches(&config).into_iter().zip(&before) {
            match (launch, before) {
                (Launch::Wrapped(inner), Launch::Command(command)) => assert_eq!(inner, *command, "{name}"),
                (launch, before) => assert_eq!(launch, *before, "{name}"),
            }
        }
        for server in config.servers() {
            if let Launch::Wrapped(_) = own(&server) {
                server.take_from_front();
            }
        }
        let restored = config.text();
        assert_eq!(launches(&Config::read(&restored).unwrap()), before);
        // Who had no arguments got a line for them.
        let bare = "\"bare\": {\n      \"command\": \"server\"\n    },";
        assert_eq!(restored.replace(bare, r#""bare": { "command": "server" },"#), TEXT);
    }
}
