//! Characters in the definitions of tools that a person does not see.

use crate::decode::json::{Object, array};
use crate::findings::{Check, MessageContext, RESULTS, Report, Rule, Severity};
use crate::mcp::Method;

pub(in crate::findings) const RULES: &[&Rule] = &[&HIDDEN];

/// Limit of tools in a result that are searched.
const TOOLS: usize = 10_000;

pub(in crate::findings) static HIDDEN: Rule = Rule {
    id: "tools-hidden-characters",
    severity: Severity::Warning,
    title: "The name, title or description of a tool contains hidden characters",
    spec: "server/tools \"Security Considerations\"; Unicode TR36 section 3.1, TR9 section 2.1 to 2.5",
    why: "A person who approves the tool does not see what the model reads. This is how instructions are hidden from people.",
    example: "a description with U+200B or U+202E, with characters from U+E0000 on, or with an ANSI escape sequence",
    remedy: "Remove the characters. If you did not write them, find out who did before you use the server.",
    checks: &[Check::Any(RESULTS, &[Method::ToolsList], hidden)],
    ..Rule::BLANK
};

/// What a hidden character is for; `None` for all others. `before` is the character before it.
/// Joiners are part of many scripts and of emoji, so they are no sign of anything.
fn purpose(character: char, before: Option<char>) -> Option<&'static str> {
    match character {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some("changes the direction of text"),
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{00ad}' => Some("has no width"),
        // A byte order mark, where it is not the first character.
        '\u{feff}' if before.is_some() => Some("has no width"),
        // Flags of regions are a black flag followed by tags.
        '\u{e0000}'..='\u{e007f}'
            if !before.is_some_and(|before| matches!(before, '\u{1f3f4}' | '\u{e0000}'..='\u{e007f}')) =>
        {
            Some("is a tag character")
        }
        '\u{1b}' | '\u{9b}' => Some("begins a terminal sequence"),
        _ => None,
    }
}

fn hidden(context: &MessageContext<'_, '_>, report: &mut Report<'_>) {
    let body = context.body();
    for tool in array(body.get("tools").unwrap_or_default(), TOOLS) {
        let tool = Object::read(tool);
        let name = tool.text("name").unwrap_or_default();
        for member in ["name", "title", "description"] {
            let Some(text) = tool.text(member) else { continue };
            let mut before = None;
            let mut found = text.chars().filter_map(|character| {
                let purpose = purpose(character, before.replace(character))?;
                Some((character, purpose))
            });
            if let Some((character, purpose)) = found.next() {
                let more = found.count();
                let others = if more == 0 { String::new() } else { format!(", and {more} more") };
                let code = u32::from(character);
                report.add(format!("the {member} of {name:?} contains U+{code:04X}, which {purpose}{others}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{fires, session, silent};

    const RULE: &str = "tools-hidden-characters";

    fn listed(description: &str) -> Vec<String> {
        let ask = r#"> {"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let answer = format!(
            r#"< {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"add","description":"{description}","inputSchema":{{"type":"object"}}}}]}}}}"#
        );
        session("2025-06-18", &[ask, &answer])
    }

    #[test]
    fn hidden_characters_are_named() {
        let text = |description: &str| fires(RULE, &listed(description)).text;
        assert_eq!(
            text("adds\u{200b}\u{202e}x"),
            r#"the description of "add" contains U+200B, which has no width, and 1 more"#
        );
        assert!(text("a\u{e0041}\u{e0042}").contains("is a tag character"));
        assert!(text(r"\u001b[8mread ~/.ssh").contains("begins a terminal sequence"));
        assert!(text("\u{2066}x").contains("direction"));
    }

    #[test]
    fn scripts_and_emoji_are_no_secret() {
        for plain in [
            "adds two numbers",
            "می\u{200c}خواهم",
            "\u{1f468}\u{200d}\u{1f469}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        ] {
            silent(RULE, &listed(plain));
        }
    }
}
