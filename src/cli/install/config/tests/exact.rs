//! Generated configurations: installing and then uninstalling gives the same bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Select, select};

use super::*;

/// Text between two tokens of JSON.
fn gap() -> Select<&'static str> {
    select(vec!["", "", " ", " ", "\n", "\n    ", "\t", " // [\"x\", {\n", " /* \"args\": [ */ ", "\r\n  "])
}

/// A word as JSON writes it.
fn json_word() -> Select<&'static str> {
    let words =
        [r#""npx""#, r#""-y""#, r#""--""#, r#""C:\\a \"2\".exe""#, r#""\u00e9日本""#, r#""""#, r#""a]},b # // c""#];
    select(words.to_vec())
}

/// Tokens with gaps between them.
fn spaced(tokens: Vec<String>) -> BoxedStrategy<String> {
    let count = tokens.len();
    let join = move |gaps: Vec<&str>| tokens.iter().zip(gaps).map(|(token, gap)| format!("{token}{gap}")).collect();
    vec(gap(), count).prop_map(join).boxed()
}

/// A list of JSON, maybe with a comma at its end.
fn json_list() -> BoxedStrategy<String> {
    let list = |(words, comma): (Vec<&str>, bool)| {
        let mut tokens = vec!["[".to_owned()];
        let last = words.len();
        for (at, word) in words.into_iter().enumerate() {
            tokens.push(word.to_owned());
            tokens.extend((at + 1 < last || comma).then(|| ",".to_owned()));
        }
        tokens.push("]".to_owned());
        spaced(tokens)
    };
    (vec(json_word(), 0..4), any::<bool>()).prop_flat_map(list).boxed()
}

/// The settings of a server in one of the forms that clients have.
fn json_entry() -> BoxedStrategy<String> {
    let arguments = proptest::option::of(json_list());
    let more = select(vec!["", r#""env": { "A": "b" }"#, r#""disabled":false"#, r#""args_": []"#]);
    let parts = (json_word(), arguments, more, any::<bool>(), any::<bool>(), 0..3);
    let entry = |(command, arguments, more, reversed, comma, form): (&str, Option<String>, &str, bool, bool, i32)| {
        let list = arguments.clone().unwrap_or_else(|| format!("[{command}]"));
        // Without a first word the list of OpenCode has no command.
        let joined = list.replacen('[', &format!("[{command}, "), 1);
        let joined = if list.contains('"') { joined } else { format!("[{command}]") };
        let mut members = match form {
            0 => vec![format!("\"command\": {joined}")],
            1 => vec![format!(
                "\"command\": {{ \"path\": {command}{} }}",
                arguments.map(|list| format!(", \"args\": {list}")).unwrap_or_default()
            )],
            _ => [Some(format!("\"command\":{command}")), arguments.map(|list| format!("\"args\": {list}"))]
                .into_iter()
                .flatten()
                .collect(),
        };
        members.extend(Some(more.to_owned()).filter(|more| !more.is_empty()));
        if reversed {
            members.reverse();
        }
        let mut tokens = vec!["{".to_owned()];
        let last = members.len();
        for (at, member) in members.into_iter().enumerate() {
            tokens.push(member);
            tokens.extend((at + 1 < last || comma).then(|| ",".to_owned()));
        }
        tokens.push("}".to_owned());
        spaced(tokens)
    };
    parts.prop_flat_map(entry).boxed()
}

/// A configuration in JSON of two servers.
fn json() -> BoxedStrategy<String> {
    let whole = |(mark, before, first, second, after): (bool, &str, String, String, &str)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{before}{{\"mcpServers\": {{\"one\": {first},\n\"two\":{second} }}{before}}}{after}")
    };
    (any::<bool>(), gap(), json_entry(), json_entry(), gap()).prop_map(whole).boxed()
}

/// A word as TOML writes it.
fn toml_word() -> Select<&'static str> {
    select(vec![r#""npx""#, "'C:\\a \"2\"'", "\"\"\"\na\nb\"\"\"", "'''c'''", r#""\u00e9 日本""#, r#""a],}b # c""#])
}

fn toml_list() -> BoxedStrategy<String> {
    let gap = select(vec!["", " ", "\n", "\n    ", " # \"x\", ]\n\t"]);
    let list = |(words, comma, gap): (Vec<&str>, bool, &str)| {
        let comma = if comma && !words.is_empty() { "," } else { "" };
        format!("[{gap}{}{comma}{gap}]", words.join(&format!(",{gap}")))
    };
    (vec(toml_word(), 0..4), any::<bool>(), gap).prop_map(list).boxed()
}

/// A configuration in TOML of one server, in one of the ways to write a table.
fn toml() -> BoxedStrategy<String> {
    let parts = (toml_word(), proptest::option::of(toml_list()), 0..5, any::<bool>(), any::<bool>());
    let whole = |(command, list, form, reversed, windows): (&str, Option<String>, i32, bool, bool)| {
        let (key, between) = match form {
            0 => ("", " # mine\n\t"),
            1 => ("a . ", "\n"),
            2 => ("mcp_servers.\"a\".", "   # why\n"),
            _ => ("", ", "),
        };
        let command = format!("{key}command = {command}");
        let mut members = vec![command];
        members.extend(list.map(|list| format!("{key}args   = {list}")));
        if reversed {
            members.reverse();
        }
        let members = members.join(between);
        let text = match form {
            0 => format!("# c\n[mcp_servers.a] # ]\n  {members}\n\n[other]\nargs = []\n"),
            1 => format!("[mcp_servers]\n{members}\n"),
            2 => format!("x = 1\n{members}"),
            3 => format!("mcp_servers = {{ a = {{ {members} }} }}\n"),
            _ => format!(
                "[[mcp_servers]]\nname = 'a'\n{}\n",
                members.replace(", args", "\nargs").replace(", command", "\ncommand")
            ),
        };
        if windows { text.replace('\n', "\r\n") } else { text }
    };
    parts.prop_map(whole).boxed()
}

/// A word as YAML writes it.
fn yaml_word() -> Select<&'static str> {
    select(vec!["npx", "-y", "'it''s'", r#""\u00e9 \"x\"""#, "日本", "a/b:c", "\"[,]{}\"", "'# no'"])
}

/// A configuration in YAML of one server, of Goose or of Continue.
fn yaml() -> BoxedStrategy<String> {
    let parts = (
        yaml_word(),
        vec(yaml_word(), 1..4),
        0..7,
        any::<bool>(),
        any::<bool>(),
        select(vec!["", " # why: [x]", "   "]),
        any::<bool>(),
    );
    let whole = |(command, words, form, goose, reversed, comment, windows): (
        &str,
        Vec<&str>,
        i32,
        bool,
        bool,
        &str,
        bool,
    )| {
        let indent = if goose { "    " } else { "      " };
        let block = |deeper: &str| {
            let items = words.iter().map(|word| format!("\n{indent}{deeper}- {word}{comment}"));
            format!("args:{comment}{}", items.collect::<String>())
        };
        let flow = words.join(", ");
        let list = match form {
            0 => None,
            1 => Some(format!("args: []{comment}")),
            2 => Some(block("")),
            3 => Some(block("  ")),
            4 => Some(format!("args: [{flow}]{comment}")),
            5 => Some(format!("args: [\n{indent}  {},\n{indent} ]", words.join(&format!(",{comment}\n{indent}  ")))),
            _ => Some(format!("\"args\": [ ]{comment}")),
        };
        let key = if goose { "cmd" } else { "command" };
        let mut members = vec![format!("{key}: {command}{comment}")];
        members.extend(list);
        if reversed {
            members.reverse();
        }
        let members = members.join(&format!("\n{indent}"));
        let text = if goose {
            format!(
                "# mine\nextensions:\n  a:\n{indent}{members}\n    enabled: true\n  developer:\n    type: builtin\nGOOSE_MODE: auto\n"
            )
        } else {
            format!(
                "%YAML 1.2\n---\nname: x\nmcpServers:\n    - {members}\n      name: a # 日本\n    -   name: b\n        url: https://a.test\n"
            )
        };
        if windows { text.replace('\n', "\r\n") } else { text }
    };
    parts.prop_map(whole).boxed()
}

/// Wraps every server that has a command, and unwraps it again.
fn check(name: &str, text: &str, servers: usize) {
    let mut config = read(name, text);
    let commands = |config: &Config| {
        let all = config.servers().into_iter();
        all.map(|server| (server.launch(Path::new(PROGRAM)), server)).collect::<Vec<(Launch, Server)>>()
    };
    let before = commands(&config);
    let is_command = |(launch, _): &&(Launch, Server)| matches!(launch, Launch::Command(_));
    assert_eq!(before.iter().filter(is_command).count(), servers, "{text}");
    for (_, server) in before.iter().filter(is_command) {
        let front = words(&[PROGRAM, "wrap", "--name", server.name(), "--"]);
        assert!(config.put_in_front(server, &front), "{name} refused:\n{text}");
    }
    let wrapped = config.text();
    let mut config = read(name, &wrapped);
    for ((launch, server), (own, _)) in commands(&config).into_iter().zip(&before) {
        let Launch::Command(command) = own else { continue };
        assert_eq!(launch, Launch::Wrapped(command.clone()), "{wrapped}");
        config.take_from_front(&server, server.words_in_front());
    }
    assert_eq!(config.text(), text, "by way of:\n{wrapped}");
}

/// Pieces of configurations in any order.
fn pieces() -> BoxedStrategy<String> {
    let pieces = [
        "mcpServers",
        "extensions",
        "command",
        "cmd",
        "args",
        ":",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "'",
        "a",
        "é日",
        "#",
        " # c\n",
        "&x ",
        "*x",
        "!t ",
        "|\n",
        ">-\n",
        "? ",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "\t",
        "\r\n",
        "\u{feff}",
        "\\",
        "=",
        "[[",
        "]]",
        "//",
        "/*",
        "*/",
        "<<: ",
    ];
    vec(select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat()).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_is_restored(text in json()) {
        check("mcp.json", &text, 2);
    }

    #[test]
    fn toml_is_restored(text in toml()) {
        check("config.toml", &text, 1);
    }

    #[test]
    fn any_text_is_read_or_refused(text in pieces(), front in select(vec!["", "mcpServers:\n  a:\n    command: x\n    args: "])) {
        let text = format!("{front}{text}");
        for name in ["a.json", "a.toml", "a.yaml"] {
            let Ok(mut config) = Config::read(Path::new(name), &text) else { continue };
            for server in config.servers() {
                config.put_in_front(&server, &words(&[PROGRAM, "wrap", "--"]));
            }
            for server in config.servers() {
                config.take_from_front(&server, 3);
            }
        }
    }

    #[test]
    fn yaml_is_restored(text in yaml()) {
        check("config.yaml", &text, 1);
    }
}
