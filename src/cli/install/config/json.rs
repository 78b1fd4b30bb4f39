//! A configuration in JSON, with or without comments.

use anyhow::{Result, anyhow};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstNode, CstObject, CstObjectProp, CstRootNode};

use super::{DEPTH, Document, LISTS, REPLACED, ServerSettings, URLS};

/// Members of a server's settings that a bridge keeps, beside its URL.
const PLAIN: [&str; 2] = ["type", "headers"];

/// The document and its servers.
pub(super) struct Json {
    root: CstRootNode,
    servers: Vec<(String, CstObject)>,
}

impl Json {
    /// Parses the text.
    ///
    /// # Errors
    /// It is not JSON.
    pub(super) fn read(text: &str) -> Result<Json> {
        let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| anyhow!("{error}"))?;
        let mut servers = Vec::new();
        if let Some(object) = root.object_value() {
            collect(&object, DEPTH, &mut servers);
        }
        Ok(Json { root, servers })
    }
}

fn collect(object: &CstObject, depth: usize, found: &mut Vec<(String, CstObject)>) {
    for property in object.properties() {
        let (Some(name), Some(value)) = (property.decoded_name(), property.object_value()) else { continue };
        if LISTS.contains(&name.as_str()) {
            let servers = value.properties().into_iter();
            found.extend(servers.filter_map(|server| Some((server.decoded_name()?, server.object_value()?))));
        } else if depth > 1 {
            collect(&value, depth - 1, found);
        }
    }
}

impl Document for Json {
    fn servers(&self) -> Vec<ServerSettings> {
        let settings = |(name, object): &(String, CstObject)| ServerSettings {
            name: name.clone(),
            command: object.get("command").and_then(|command| text(&command.value()?)),
            arguments: match object.get("args") {
                None => Some(Vec::new()),
                Some(arguments) => arguments.array_value().and_then(|array| words(&array)),
            },
            url: url_of(object),
            replaced: object.object_value("env").and_then(|variables| text(&variables.get(REPLACED)?.value()?)),
            has_type: object.get("type").is_some(),
            is_plain: object.properties().iter().all(|member| {
                member.decoded_name().is_some_and(|name| PLAIN.contains(&&*name) || URLS.contains(&&*name))
            }),
        };
        self.servers.iter().map(settings).collect()
    }

    fn replace_command(&mut self, server: usize, command: &str) {
        let value = self.servers.get(server).and_then(|(_, object)| object.get("command")?.value());
        if let Some(literal) = value.and_then(|value| value.as_string_lit()) {
            literal.set_raw_value(serde_json::Value::from(command).to_string());
        }
    }

    fn add_arguments(&mut self, server: usize, added: &[String]) {
        let Some((_, object)) = self.servers.get(server) else { return };
        let arguments = object.array_value_or_set("args");
        if is_one_line(&arguments) {
            let before = words(&arguments).unwrap_or_default();
            arguments.replace_with([added, &before].concat().into());
        } else {
            added.iter().enumerate().for_each(|(at, word)| drop(arguments.insert(at, word.as_str().into())));
        }
    }

    fn remove_arguments(&mut self, server: usize, count: usize) {
        let Some((_, object)) = self.servers.get(server) else { return };
        let Some(arguments) = object.array_value("args") else { return };
        let after: Vec<String> = words(&arguments).unwrap_or_default().into_iter().skip(count).collect();
        if after.is_empty() {
            object.get("args").into_iter().for_each(CstObjectProp::remove);
        } else if is_one_line(&arguments) {
            arguments.replace_with(after.into());
        } else {
            arguments.elements().into_iter().take(count).for_each(CstNode::remove);
        }
    }

    fn entry(&self, server: usize) -> Option<String> {
        self.servers.get(server).map(|(_, object)| object.to_string())
    }

    fn replace_entry(&mut self, server: usize, entry: &str) {
        // The tree cannot take text, so it is read again.
        let Some((_, object)) = self.servers.get(server) else { return };
        let before: usize = preceding(&object.clone().into()).iter().map(|node| node.to_string().len()).sum();
        let mut text = self.root.to_string();
        text.replace_range(before..before + object.to_string().len(), entry);
        if let Ok(json) = Json::read(&text) {
            *self = json;
        }
    }

    fn text(&self) -> String {
        self.root.to_string()
    }
}

/// The nodes whose text precedes that of a node.
fn preceding(node: &CstNode) -> Vec<CstNode> {
    let mut before: Vec<CstNode> = node.previous_siblings().collect();
    if let Some(parent) = node.parent() {
        before.extend(preceding(&parent.into()));
    }
    before
}

/// The URL in the settings of a server.
pub(super) fn url(settings: &str) -> Option<String> {
    let root = CstRootNode::parse(settings, &ParseOptions::default()).ok()?;
    url_of(&root.object_value()?)
}

/// The URL and the header fields in the settings of a server.
#[cfg(feature = "http")]
pub(super) fn remote(settings: &str) -> Option<(String, Vec<(String, String)>)> {
    let root = CstRootNode::parse(settings, &ParseOptions::default()).ok()?;
    let object = root.object_value()?;
    let fields = object.object_value("headers").map(|headers| headers.properties()).unwrap_or_default();
    let field = |field: &CstObjectProp| Some((field.decoded_name()?, text(&field.value()?)?));
    Some((url_of(&object)?, fields.iter().filter_map(field).collect()))
}

fn url_of(object: &CstObject) -> Option<String> {
    URLS.iter().find_map(|name| text(&object.get(name)?.value()?))
}

fn text(node: &CstNode) -> Option<String> {
    node.as_string_lit()?.decoded_value().ok()
}

fn words(array: &CstArray) -> Option<Vec<String>> {
    array.elements().iter().map(text).collect()
}

/// Whether an array is on one line and has no comments. Such an array is written anew, because
/// removing elements would leave blanks.
fn is_one_line(array: &CstArray) -> bool {
    !array.children().iter().any(|child| child.is_newline() || child.is_comment())
}
