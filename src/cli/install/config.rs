//! The servers in a client's configuration. They are changed in place: comments, blanks and
//! everything else stay as they are.

mod json;
mod toml;

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use self::json::Json;
use self::toml::Toml;

/// Names of the members that list servers: of most clients, of VS Code, of Zed, and of Codex.
const LISTS: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// Maximum depth of such a list. Claude Code has one for each project, below `projects`.
const DEPTH: usize = 3;

/// Names of the members with the URL of a server over HTTP.
const URLS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// The variable with the settings that a bridge replaces.
const REPLACED: &str = "MCPTAP_REPLACED";

/// The URL and the header fields in the settings that this program replaces, if a client started
/// it in place of a URL. The client has replaced variables in them.
#[cfg(feature = "http")]
pub fn replaced_settings() -> Option<(String, Vec<(String, String)>)> {
    json::remote(&std::env::var(REPLACED).ok()?)
}

/// The configuration of a client, as text that can be changed.
pub struct Config(Box<dyn Document>);

/// A configuration in one format. A server is identified by its position in [`Document::servers`].
trait Document {
    /// The servers, in order.
    fn servers(&self) -> Vec<ServerSettings>;

    /// Replaces the command of a server.
    fn replace_command(&mut self, server: usize, command: &str);

    /// Inserts words before the arguments of a server. Creates the list of arguments if
    /// there is none.
    fn add_arguments(&mut self, server: usize, words: &[String]);

    /// Removes the first `count` arguments of a server. Removes the list if it becomes empty.
    fn remove_arguments(&mut self, server: usize, count: usize);

    /// The text of the settings of a server: an object. `None` if the format has no such text.
    fn entry(&self, server: usize) -> Option<String>;

    /// Replaces that text.
    fn replace_entry(&mut self, server: usize, entry: &str);

    /// The current text.
    fn text(&self) -> String;
}

/// The settings of a server in a configuration.
struct ServerSettings {
    name: String,
    /// The program that the client starts.
    command: Option<String>,
    /// The arguments; `None` where they are not strings.
    arguments: Option<Vec<String>>,
    /// The URL of a server over HTTP.
    url: Option<String>,
    /// The text of the settings that a bridge replaces.
    replaced: Option<String>,
    /// Whether the settings name the kind of transport.
    has_type: bool,
    /// Whether the settings are a URL with header fields and nothing else, which a bridge keeps.
    is_plain: bool,
}

/// A server in a configuration.
pub struct Server {
    /// The position in [`Document::servers`].
    at: usize,
    settings: ServerSettings,
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
    /// Parses TOML if the file's name ends in `.toml`, else JSON with or without comments. An
    /// empty file has no servers.
    ///
    /// # Errors
    /// The text is not valid in that format.
    pub fn read(path: &Path, text: &str) -> Result<Config> {
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        Ok(Config(if is_toml { Box::new(Toml::read(text)?) } else { Box::new(Json::read(text)?) }))
    }

    /// The servers, in order.
    pub fn servers(&self) -> Vec<Server> {
        self.0.servers().into_iter().enumerate().map(|(at, settings)| Server { at, settings }).collect()
    }

    /// The current text.
    pub fn text(&self) -> String {
        self.0.text()
    }

    /// Inserts words before the command of a server. The first of them becomes its command.
    pub fn put_in_front(&mut self, server: &Server, words: &[String]) {
        let (Some((first, others)), Some(command)) = (words.split_first(), &server.settings.command) else { return };
        let mut added = others.to_vec();
        added.push(command.clone());
        self.0.replace_command(server.at, first);
        self.0.add_arguments(server.at, &added);
    }

    /// Replaces the URL of a server by a command that reaches it. The settings stay, as text in
    /// the environment of that command. Returns whether the format allows that, and nothing that
    /// the client needs would be lost.
    pub fn replace_url(&mut self, server: &Server, words: &[String]) -> bool {
        if !server.settings.is_plain {
            return false;
        }
        let (Some(entry), Some((command, arguments))) = (self.0.entry(server.at), words.split_first()) else {
            return false;
        };
        let kind = if server.settings.has_type { Some(("type", Value::from("stdio"))) } else { None };
        let members = kind.into_iter().chain([
            ("command", Value::from(command.as_str())),
            ("args", Value::from(arguments)),
            ("env", Value::from_iter([(REPLACED, entry.as_str())])),
        ]);
        let members: Vec<String> = members.map(|(name, value)| format!("\"{name}\": {value}")).collect();
        // As the text before: on one line, or on several.
        let (open, between, close) = match entry.rfind('\n') {
            Some(at) => {
                let close = &entry[at..entry.len() - 1];
                (format!("{close}  "), format!(",{close}  "), close.to_owned())
            }
            None => (" ".to_owned(), ", ".to_owned(), " ".to_owned()),
        };
        self.0.replace_entry(server.at, &format!("{{{open}{}{close}}}", members.join(&between)));
        true
    }

    /// Puts the settings back that [`Config::replace_url`] replaced.
    pub fn restore_url(&mut self, server: &Server) {
        if let Some(entry) = &server.settings.replaced {
            self.0.replace_entry(server.at, entry);
        }
    }

    /// Removes everything up to the first `--` before the command of a server.
    pub fn take_from_front(&mut self, server: &Server) {
        let words = server.settings.arguments.as_deref().unwrap_or_default();
        let Some(at) = words.iter().position(|word| word == "--") else { return };
        let Some(command) = words.get(at + 1) else { return };
        self.0.replace_command(server.at, command);
        self.0.remove_arguments(server.at, at + 2);
    }
}

impl Server {
    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The way in which the client reaches the server. `program` is the path of this program.
    pub fn launch(&self, program: &Path) -> Launch {
        let ServerSettings { command, arguments, url, replaced, .. } = &self.settings;
        let Some(command) = command else { return url.clone().map_or(Launch::Unknown, Launch::Url) };
        let Some(arguments) = arguments else { return Launch::Unknown };
        let own = Path::new(command) == program || Path::new(command).file_name() == Some("mcptap".as_ref());
        if own && replaced.is_some() {
            return Launch::Bridged(replaced.as_deref().and_then(json::url).unwrap_or_default());
        }
        if own && arguments.iter().any(|word| word == "wrap") {
            let wrapped = arguments.iter().position(|word| word == "--").map_or(&[][..], |at| &arguments[at + 1..]);
            return if wrapped.is_empty() { Launch::Unknown } else { Launch::Wrapped(wrapped.to_vec()) };
        }
        Launch::Command([vec![command.clone()], arguments.clone()].concat())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PROGRAM: &str = "/usr/local/bin/mcptap";

    /// Comments, blanks and commas as people write them.
    const JSON: &str = r#"{
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

    /// The same configuration in TOML.
    const TOML: &str = r#"# what the assistant may use
theme = "dark"

[mcp_servers.files] # mine
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]

[mcp_servers.notes]
args = [ # how it is started
    "--verbose", # for now
    "--root=/home",
]
command = 'C:\notes "2".exe' # an old one
env = { TOKEN = "secret" }

[mcp_servers]
bare = { command = "server" }
remote = { url = "https://example.com/mcp" }

[mcp_servers.odd]
command = "server"
args = [1]

[projects."/home/me/work".mcp_servers.own]
command = "python"
args = ["own.py"]
"#;

    fn read(name: &str, text: &str) -> Config {
        Config::read(Path::new(name), text).unwrap()
    }

    /// The servers by name: tables of TOML have no order.
    fn launches(config: &Config) -> BTreeMap<String, Launch> {
        let servers = config.servers().into_iter();
        servers.map(|server| (server.name().to_owned(), server.launch(Path::new(PROGRAM)))).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// The configuration after wrapping or unwrapping all servers for which that is possible.
    fn changed(name: &str, text: &str, wrap: bool) -> String {
        let mut config = read(name, text);
        for server in config.servers() {
            match server.launch(Path::new(PROGRAM)) {
                Launch::Command(_) if wrap => {
                    config.put_in_front(&server, &words(&[PROGRAM, "wrap", "--name", server.name(), "--"]));
                }
                Launch::Wrapped(_) if !wrap => config.take_from_front(&server),
                _ => {}
            }
        }
        config.text()
    }

    #[test]
    fn servers_are_found_wherever_they_are_listed() {
        let own = |command: &[&str]| Launch::Command(words(command));
        let expected = [
            ("files", own(&["npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp"])),
            ("notes", own(&["C:\\notes \"2\".exe", "--verbose", "--root=/home"])),
            ("bare", own(&["server"])),
            ("remote", Launch::Url("https://example.com/mcp".to_owned())),
            ("odd", Launch::Unknown),
            ("own", own(&["python", "own.py"])),
        ];
        let expected: BTreeMap<_, _> = expected.map(|(name, launch)| (name.to_owned(), launch)).into();
        assert_eq!(launches(&read("mcp.json", JSON)), expected);
        assert_eq!(launches(&read("config.toml", TOML)), expected);
        for (name, text, count) in [
            ("a", "", 0),
            ("a", "[]", 0),
            ("a", r#"{"mcp":{"servers":{"a":{}}}}"#, 1),
            ("a", r#"{"context_servers":{"a":{}}}"#, 1),
            ("a.toml", "", 0),
            ("a.toml", "[[mcp_servers]]\nname = 'a'", 0),
            ("a.toml", "mcp_servers.a.command = 'b'", 1),
        ] {
            assert_eq!(read(name, text).servers().len(), count, "{text}");
        }
        for (name, text) in [("a.json", "{"), ("a.toml", "{}"), ("a.toml", "[a\n")] {
            assert!(Config::read(Path::new(name), text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrapped_configuration_can_be_unwrapped_without_traces() {
        // In JSON a server without arguments gets a line for them. That line
        // stays after unwrapping.
        let bare = "\"bare\": {\n      \"command\": \"server\"\n    },";
        for (name, text) in [("mcp.json", JSON), ("config.toml", TOML)] {
            let wrapped = changed(name, text, true);
            let (before, after) = (launches(&read(name, text)), launches(&read(name, &wrapped)));
            for ((name, before), after) in before.iter().zip(after.values()) {
                match (after, before) {
                    (Launch::Wrapped(inner), Launch::Command(command)) => assert_eq!(inner, command, "{name}"),
                    (after, before) => assert_eq!(after, before, "{name}"),
                }
            }
            let restored = changed(name, &wrapped, false);
            assert_eq!(restored.replace(bare, r#""bare": { "command": "server" },"#), text);
        }
    }

    #[test]
    fn a_url_is_replaced_by_a_command_and_restored_byte_for_byte() {
        let entries = [
            r#"{ "type": "http", "url": "https://a.test/mcp" }"#,
            r#"{"serverUrl":"https://a.test/mcp"}"#,
            "{\n    // why\n\t\"httpUrl\" : \"https://a.test/mcp\", /* and */\n    \"headers\": { \"A\": \"\\u0041 \\\"\" },\n  }",
        ];
        for entry in entries {
            let text = format!(
                "{{ \"servers\": {{ \"a\": {{\"command\":\"x\"}}, // ü\n  \"b\": {entry}\n, \"c\": {entry} }} }}"
            );
            let mut config = read("mcp.json", &text);
            for at in [1, 2] {
                let server = config.servers().remove(at);
                assert_eq!(server.launch(Path::new(PROGRAM)), Launch::Url("https://a.test/mcp".to_owned()));
                let words = words(&[PROGRAM, "proxy", "--stdio"]);
                assert!(config.replace_url(&server, &words));
            }
            let mut config = read("mcp.json", &config.text());
            assert_eq!(config.text().contains("\"type\": \"stdio\""), entry.contains("type"));
            for at in [2, 1] {
                let server = config.servers().remove(at);
                assert_eq!(server.launch(Path::new(PROGRAM)), Launch::Bridged("https://a.test/mcp".to_owned()));
                config.restore_url(&server);
            }
            assert_eq!(config.text(), text);
        }
        let mut config = read("config.toml", TOML);
        let remote = config.servers().into_iter().find(|server| server.name() == "remote").unwrap();
        assert!(!config.replace_url(&remote, &words(&[PROGRAM])));
        assert_eq!(config.text(), TOML);
        let remote = json::remote(entries[2]);
        assert_eq!(remote, Some(("https://a.test/mcp".to_owned(), vec![("A".to_owned(), "A \"".to_owned())])));
    }

    /// The client would no longer have them.
    #[test]
    fn settings_that_a_bridge_would_lose_stay() {
        for more in [r#""disabled": true"#, r#""excludeTools": ["x"]"#, r#""timeout": 5"#] {
            let text = format!(r#"{{ "mcpServers": {{ "a": {{ "url": "https://a.test/mcp", {more} }} }} }}"#);
            let mut config = read("mcp.json", &text);
            let server = config.servers().remove(0);
            assert!(!config.replace_url(&server, &words(&[PROGRAM])), "{more}");
            assert_eq!(config.text(), text);
        }
    }

    #[test]
    fn a_changed_configuration_looks_as_a_person_would_have_written_it() {
        let json = changed("mcp.json", JSON, true);
        let one_line =
            r#"{ "command": "/usr/local/bin/mcptap", "args": ["wrap", "--name", "files", "--", "npx", "-y", "#;
        assert!(json.contains(one_line), "{json}");
        assert!(json.contains(r#""C:\\notes \"2\".exe","#) && json.contains("// for now"), "{json}");
        let toml = changed("config.toml", TOML, true);
        for part in [
            r#"args = ["wrap", "--name", "files", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp"]"#,
            "args = [ # how it is started\n    \"wrap\",\n    \"--name\",\n    \"notes\",\n    \"--\",\n    'C:\\notes \"2\".exe',\n    \"--verbose\", # for now\n",
            "command = \"/usr/local/bin/mcptap\" # an old one\n",
            r#"bare = { command = "/usr/local/bin/mcptap", args = ["wrap", "--name", "bare", "--", "server"] }"#,
        ] {
            assert!(toml.contains(part), "{part}\n{toml}");
        }
    }
}
