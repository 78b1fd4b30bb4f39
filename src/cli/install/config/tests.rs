//! Servers are found in each format, and every edit can be undone.

mod added;
mod exact;

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
            Launch::Wrapped(_) if !wrap => config.take_from_front(&server, server.words_in_front()),
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
        ("a.toml", "[[mcp_servers]]\nname = 'a'", 1),
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
        assert_eq!(restored, text);
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
        let text =
            format!("{{ \"servers\": {{ \"a\": {{\"command\":\"x\"}}, // ü\n  \"b\": {entry}\n, \"c\": {entry} }} }}");
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
    let in_toml = config.servers().into_iter().find(|server| server.name() == "remote").unwrap();
    assert!(!config.replace_url(&in_toml, &words(&[PROGRAM])));
    assert_eq!(config.text(), TOML);
    let remote = remote(entries[2]);
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
    let one_line = r#"{ "command": "/usr/local/bin/mcptap", "args": ["wrap", "--name", "files", "--", "npx", "-y", "#;
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

/// The form of each client that has one of its own, before and after.
#[test]
fn every_client_is_written_in_its_own_form() {
    let own = r#""/usr/local/bin/mcptap""#;
    let front = r#""wrap", "--name", "a", "--", "#;
    let items = "- \"wrap\"\n      - \"--name\"\n      - \"a\"\n      - \"--\"\n      - npx\n      ";
    for (name, before, after) in [
        (
            "opencode.jsonc",
            r#"{"mcp": {"a": {"type": "local", "command": ["npx", "-y"]}, "off": {"enabled": false}}}"#.to_owned(),
            format!(
                r#"{{"mcp": {{"a": {{"type": "local", "command": [{own}, {front}"npx", "-y"]}}, "off": {{"enabled": false}}}}}}"#
            ),
        ),
        (
            "zed.json",
            r#"{"context_servers": {"a": {"command": {"path": "npx", "args": [], "env": null}, "settings": {}}}}"#
                .to_owned(),
            format!(
                r#"{{"context_servers": {{"a": {{"command": {{"path": {own}, "args": [ {front}"npx"], "env": null}}, "settings": {{}}}}}}}}"#
            ),
        ),
        (
            "goose.yaml",
            "extensions:\n  a:\n    # mine\n    cmd: npx\n    args:\n      - -y # yes\n    type: stdio\n".to_owned(),
            format!(
                "extensions:\n  a:\n    # mine\n    cmd: {own}\n    args:\n      {items}- -y # yes\n    type: stdio\n"
            ),
        ),
        (
            "continue.yaml",
            "mcpServers:\n  - name: a\n    command: npx # now\n".to_owned(),
            format!("mcpServers:\n  - name: a\n    command: {own}\n    args: [{front}npx] # now\n"),
        ),
    ] {
        let changed = changed(name, &before, true);
        assert_eq!(changed, after);
        assert_eq!(self::changed(name, &changed, false), before);
    }
}

/// YAML can take a value from elsewhere, and can mean something else than a text.
#[test]
fn what_yaml_takes_from_elsewhere_is_left_alone() {
    for settings in [
        "command: &c npx\n    args: []",
        "command: npx\n    args: &a [x]",
        "command: npx\n    args: *x",
        "command: npx\n    <<: *x",
        "command: 12",
        "command: npx\n    args: [true]",
        "command: npx\n    args:\n    - !!str 1",
        "command: npx\n    args:\n    - 0x1f",
    ] {
        let text = format!("x: &x {{args: [y]}}\nmcpServers:\n  - name: a\n    {settings}\n");
        let config = read("a.yaml", &text);
        let servers = config.servers();
        assert_eq!((servers.len(), servers[0].launch(Path::new(PROGRAM))), (1, Launch::Unknown), "{text}");
    }
    // A comma ends a text in a list, but not the command itself.
    let text = "mcpServers:\n  - name: a\n    command: a,b\n    args: [x]\n";
    let mut config = read("a.yaml", text);
    let server = config.servers().remove(0);
    assert!(!config.put_in_front(&server, &words(&[PROGRAM, "wrap", "--"])));
    assert_eq!(config.text(), text);
    let deep = |count: usize| format!("a: {}{}", "[".repeat(count), "]".repeat(count));
    assert!(Config::read(Path::new("a.yaml"), &deep(50)).is_ok());
    for text in [deep(5_000), "- a\nb: c".to_owned(), "a: [".to_owned(), "\u{0}".to_owned()] {
        assert!(Config::read(Path::new("a.yaml"), &text).is_err());
    }
    assert!(read("a.yaml", "").servers().is_empty());
}

/// The user, or the client itself, may change the entry between the two commands.
#[test]
fn what_was_changed_since_stays() {
    let front = format!(r#""{PROGRAM}", "args": ["wrap", "--name", "a", "--", "#);
    for (wrapped, after) in [
        (
            format!(r#"{{"command": {front}"npx", "-y", "new"], "env": {{"A": "b"}}}}"#),
            r#"{"command": "npx", "args": ["-y", "new"], "env": {"A": "b"}}"#,
        ),
        (format!(r#"{{"command": {front}"npx",]}}"#), r#"{"command": "npx"}"#),
        (format!(r#"{{"x": 1, "command": {front}"other"]}}"#), r#"{"x": 1, "command": "other"}"#),
        (
            format!(
                "{{\n  \"args\": [\n    \"wrap\",\n    \"--\",\n    \"npx\",\n  ],\n  \"command\": \"{PROGRAM}\"\n}}"
            ),
            "{\n  \"args\": [\n  ],\n  \"command\": \"npx\"\n}",
        ),
    ] {
        let whole = |entry: &str| format!("{{\"mcpServers\": {{\"a\": {entry}}}}}");
        assert_eq!(changed("a.json", &whole(&wrapped), false), whole(after));
    }
    // A member that was added to a bridge belongs to the server.
    let mut config = read("a.json", r#"{"servers": {"a": {"type": "remote", "url": "https://a.test"}}}"#);
    assert!(config.replace_url(&config.servers()[0].clone(), &words(&[PROGRAM, "proxy"])));
    let text = config.text();
    let [command, environment] =
        [r#""command": ["/usr/local/bin/mcptap","proxy"]"#, r#""environment": {"MCPTAP_REPLACED""#];
    assert!(text.contains(r#""type": "local""#) && text.contains(command) && text.contains(environment), "{text}");
    let mut config = read("a.json", &text.replacen(r#""type""#, r#""enabled": false, "type""#, 1));
    config.restore_url(&config.servers()[0].clone());
    assert_eq!(config.text(), r#"{"servers": {"a": { "enabled": false,"type": "remote", "url": "https://a.test"}}}"#);
}

#[test]
fn a_name_that_occurs_twice_names_nothing() {
    let text =
        r#"{"mcpServers": {"a": {"command": "x", "command": "y"}, "b": {"command": "x", "args": [], "args": []}}}"#;
    let all = read("a.json", text).servers();
    assert!(all.iter().all(|server| server.launch(Path::new(PROGRAM)) == Launch::Unknown));
}
