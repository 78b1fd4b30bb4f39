//! A server that is added and removed.

use super::*;

fn words() -> Vec<String> {
    ["/usr/bin/mcptap", "--db", "/x y.db", "mcp"].map(str::to_owned).to_vec()
}

fn added(path: &str, text: &str, list: &str) -> Config {
    let mut config = Config::read(Path::new(path), text).unwrap();
    assert!(config.add(&Addition { name: "mcptap", words: &words(), list }), "{text}");
    config
}

#[test]
fn a_server_is_added_and_removed_without_a_trace() {
    let json = [
        "",
        "{}",
        "{ \"theme\": \"dark\" }\n",
        "{\n  \"mcpServers\": {}\n}\n",
        "{\r\n  // mine\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": { // all\r\n    \"a\": { \"command\": \"x\" } // last\r\n  }\r\n}\r\n",
        "{ \"servers\": { \"a\": { \"command\": \"x\", \"args\": [] } } }",
        "{ \"mcpServers\": { \"a\": { \"command\": \"x\" }, } }",
        "{\n\t\"context_servers\": {\n\t\t\"b\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t},\n\t\"z\": 1\n}",
        "{ \"mcp\": { \"a\": { \"type\": \"local\", \"command\": [\"x\"] } } }",
    ];
    let toml = [
        "",
        "# mine",
        "# mine\ntheme = \"dark\"\n\n[mcp_servers.a]\ncommand = \"x\"\n",
        "a = 1\r\n[mcp_servers.a]\r\ncommand = \"x\"\r\n\r\n[other]\r\n",
        "mcp_servers = { a = { command = \"x\" } }\n",
    ];
    let goose =
        ["", "# mine\nGOOSE_MODE: auto\n", "extensions:\n  a: # one\n    cmd: x\n    args: []\n", "extensions: {}\n"];
    let assistant = ["name: mine", "mcpServers:\n  - name: a\n    command: x\nmodels: []\n", "mcpServers: []\n"];
    let all = json.map(|text| ("a.json", text, "mcpServers")).into_iter();
    let all = all.chain(toml.map(|text| ("a.toml", text, "mcp_servers")));
    let all = all.chain(goose.map(|text| ("a.yaml", text, "extensions")));
    for (path, text, list) in all.chain(assistant.map(|text| ("a.yaml", text, "mcpServers"))) {
        let mut config = added(path, text, list);
        assert!(config.text().contains("/x y.db"), "{}", config.text());
        let before = config.text();
        assert!(config.remove("mcptap"), "{before}");
        assert_eq!(config.text(), text, "{before}");
        assert!(!config.remove("mcptap"));
    }
}

/// A removal that would take something else with it is refused.
#[test]
fn what_stands_between_the_parts_of_a_server_stays() {
    let own = "command = \"/usr/bin/mcptap\"\nargs = [\"mcp\"]\n";
    for text in [
        format!("[mcp_servers.mcptap]\n{own}\n[profiles.work]\nmodel = \"m\"\n\n[mcp_servers.mcptap.env]\nA = \"b\"\n"),
        "mcp_servers.mcptap = { command = \"mcptap\", args = [\"mcp\"] }\nother = 1\nmcp_servers.a = { command = \"x\" }\n".to_owned(),
    ] {
        let mut config = Config::read(Path::new("a.toml"), &text).unwrap();
        assert!(config.server("mcptap").is_some() && !config.remove("mcptap"), "{}", config.text());
        assert_eq!(config.text(), text);
    }
}

#[test]
fn each_client_gets_its_own_form() {
    let text = |path, before, list| added(path, before, list).text();
    let command = r#""command": "/usr/bin/mcptap", "args": ["--db", "/x y.db", "mcp"]"#;
    assert_eq!(
        text("a.json", "", "servers"),
        format!("{{\n  \"servers\": {{\n    \"mcptap\": {{ {command} }}\n  }}\n}}\n")
    );
    assert_eq!(
        text("opencode.json", "{}", "mcp"),
        r#"{ "mcp": { "mcptap": { "type": "local", "command": ["/usr/bin/mcptap", "--db", "/x y.db", "mcp"] } }}"#
    );
    assert_eq!(text("a.yaml", "", "mcpServers"), format!("mcpServers:\n  - {{ \"name\": \"mcptap\", {command} }}\n"));
    assert!(
        text("a.yaml", "", "extensions")
            .starts_with("extensions:\n  mcptap: { \"name\": \"mcptap\", \"type\": \"stdio\", \"cmd\":")
    );
}

/// Clients write their configuration anew, and people edit it.
#[test]
fn an_entry_that_was_changed_is_removed() {
    for (path, text, expected) in [
        (
            "a.json",
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" },\n    \"mcptap\": {\n      \"command\": \"mcptap\"\n    }\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }\n  }\n}\n",
        ),
        (
            "a.toml",
            "[mcp_servers.mcptap]\ncommand = \"mcptap\" # this\ntimeout = 3\n[mcp_servers.mcptap.env]\nA = \"b\"\n[mcp_servers.a]\ncommand = \"x\"\n",
            "[mcp_servers.a]\ncommand = \"x\"\n",
        ),
        (
            "a.yaml",
            "extensions:\n  a:\n    cmd: x\n  mcptap:\n    cmd: mcptap\n    enabled: true\nother: 1\n",
            "extensions:\n  a:\n    cmd: x\nother: 1\n",
        ),
    ] {
        let mut config = Config::read(Path::new(path), text).unwrap();
        assert!(config.remove("mcptap"), "{text}");
        assert_eq!(config.text(), expected);
    }
    let list = r#"{ "mcpServers": "none" }"#;
    let mut config = Config::read(Path::new("a.json"), list).unwrap();
    assert!(!config.add(&Addition { name: "mcptap", words: &words(), list: "mcpServers" }));
    assert_eq!(config.text(), list);
}
