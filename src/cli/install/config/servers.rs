//! The servers in a configuration, wherever a client lists them.

use super::tree::{Map, Member, Node, NodeValue};
use super::{REPLACED, Syntax};

/// Names of the members that list servers: of most clients, of VS Code, of Zed, and of Codex.
const LISTS: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// The same in Goose's configuration. In JSON, other things have this name.
pub(super) const YAML_LIST: &str = "extensions";

/// The same in OpenCode's configuration, where its entries have one of these types. Other clients
/// have other settings below this name.
pub(super) const OPENCODE_LIST: &str = "mcp";
const OPENCODE_TYPES: [&str; 2] = ["local", "remote"];

/// Maximum depth of such a list. Claude Code has one for each project, below `projects`.
const DEPTH: usize = 3;

/// Names of the members with the URL of a server over HTTP.
const URLS: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];

/// Names of the members with the environment of a server.
const ENVIRONMENTS: [&str; 3] = ["env", "environment", "envs"];

/// Members of a server's settings that a bridge keeps, beside its URL.
const PLAIN: [&str; 2] = ["type", "headers"];

/// A server and its settings.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// The place of the settings.
    pub(super) node: &'a Node,
    pub(super) settings: &'a Map,
}

/// The words that start a server.
#[derive(Clone, Copy)]
pub(super) enum CommandWords<'a> {
    /// A program, mostly with a list of its arguments.
    Apart { map: &'a Map, program: &'a Member, arguments: Option<&'a Node> },
    /// One list, whose first item is the program.
    Joined(&'a Node),
}

/// The servers, in order.
pub(super) fn entries(root: &Node, format: Syntax) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    if let Some(map) = root.map() {
        collect(map, format, DEPTH, &mut found);
    }
    found
}

/// The list of servers at the top of a configuration.
pub(super) fn top_list(root: &Node, format: Syntax) -> Option<&Member> {
    let is_list = |member: &&Member| match member.name.as_str() {
        YAML_LIST => format == Syntax::Yaml,
        OPENCODE_LIST => listed(&member.value).iter().any(Entry::is_opencode),
        name => LISTS.contains(&name),
    };
    root.map()?.members.iter().find(is_list)
}

fn collect<'a>(map: &'a Map, format: Syntax, depth: usize, found: &mut Vec<Entry<'a>>) {
    for member in &map.members {
        let name = member.name.as_str();
        if LISTS.contains(&name) || (name == YAML_LIST && format == Syntax::Yaml) {
            found.extend(listed(&member.value));
        } else if name == OPENCODE_LIST && listed(&member.value).iter().any(Entry::is_opencode) {
            found.extend(listed(&member.value).into_iter().filter(Entry::is_opencode));
        } else if let (NodeValue::Map(inner), true) = (&member.value.value, depth > 1) {
            collect(inner, format, depth - 1, found);
        }
    }
}

/// The entries of a list of servers. A map has their names, else each has a name of its own.
pub(super) fn listed(list: &Node) -> Vec<Entry<'_>> {
    match &list.value {
        NodeValue::Map(map) => map.members.iter().filter_map(|member| entry(&member.name, &member.value)).collect(),
        NodeValue::Sequence(list) => {
            list.items.iter().filter_map(|item| entry(item.map()?.text("name")?, item)).collect()
        }
        _ => Vec::new(),
    }
}

fn entry<'a>(name: &'a str, node: &'a Node) -> Option<Entry<'a>> {
    Some(Entry { name, node, settings: node.map()? })
}

impl<'a> Entry<'a> {
    /// The words that start the server. In Zed's older form they are one level deeper.
    pub(super) fn start(&self) -> Option<CommandWords<'a>> {
        let settings = self.settings;
        let program = settings.get("command").or_else(|| settings.get("cmd"))?;
        let (map, program) = match &program.value.value {
            NodeValue::Text(_) => (settings, program),
            NodeValue::Sequence(_) => return Some(CommandWords::Joined(&program.value)),
            NodeValue::Map(inner) => (inner, inner.get("path").filter(|path| path.value.text().is_some())?),
            NodeValue::Other => return None,
        };
        Some(CommandWords::Apart { map, program, arguments: map.get("args").map(|arguments| &arguments.value) })
    }

    /// The URL of a server over HTTP.
    pub(super) fn url(&self) -> Option<&'a str> {
        url(self.settings)
    }

    /// The text of the settings that a bridge replaces.
    pub(super) fn replaced(&self) -> Option<&'a str> {
        ENVIRONMENTS.iter().find_map(|name| self.settings.get(name)?.value.map()?.text(REPLACED))
    }

    /// Whether these are settings of OpenCode.
    pub(super) fn is_opencode(&self) -> bool {
        self.settings.text("type").is_some_and(|kind| OPENCODE_TYPES.contains(&kind))
    }

    /// Whether the settings are a URL with header fields and nothing else, which a bridge keeps.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain = |member: &Member| PLAIN.contains(&&*member.name) || URLS.contains(&&*member.name);
        self.settings.members.iter().all(is_plain)
    }
}

impl CommandWords<'_> {
    /// The program and its arguments. `None` if they are not texts, or if they are not all here.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        match self {
            CommandWords::Joined(list) => list.words().filter(|words| !words.is_empty()),
            CommandWords::Apart { map, program, arguments } => {
                let arguments = match arguments {
                    Some(arguments) => arguments.words()?,
                    // YAML merges the members of another map, and a name can occur twice.
                    None if map.members.iter().any(|member| ["args", "<<"].contains(&&*member.name)) => return None,
                    None => Vec::new(),
                };
                Some([vec![program.value.text()?.to_owned()], arguments].concat())
            }
        }
    }
}

/// The URL in the settings of a server.
pub(super) fn url(settings: &Map) -> Option<&str> {
    URLS.iter().find_map(|name| settings.text(name))
}
