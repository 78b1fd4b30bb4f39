//! Mermaid sequence diagrams, which code hosts draw in issues and documents
//! (<https://mermaid.js.org/syntax/sequenceDiagram.html>).

use std::fmt::Write;

use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::content;
use crate::mcp::{Message, Session};
use crate::view::outcome::look;
use crate::view::text::about;
use crate::view::{parties, safe, units};

/// Maximum length of a diagram in characters by Mermaid's default (`maxTextSize`).
pub const DRAWN: usize = 50_000;

/// Maximum width of a message's summary in columns. An arrow is as long as its text.
const ABOUT: usize = 60;

/// The first line and the participants: a client and a server for each session.
pub fn head(sessions: &[Session]) -> String {
    let mut text = "sequenceDiagram\n".to_owned();
    for session in sessions {
        let number = session.number.0;
        let client = parties::party(&session.client).unwrap_or_else(|| "client".to_owned());
        for (letter, name) in [('C', client), ('S', parties::server(session))] {
            let _ = writeln!(text, "    participant {letter}{number} as {}", escaped(&safe::fit(&name, ABOUT)));
        }
    }
    text
}

/// An arrow for a message and, below it, the rules that the message breaks.
pub fn message(message: &Message) -> String {
    let number = message.session.0;
    let (from, to) = match message.direction {
        Direction::ClientToServer => ('C', 'S'),
        Direction::ServerToClient => ('S', 'C'),
    };
    let status = content::status(message);
    // Requests are solid and responses dashed. An open head expects no response, and a cross
    // means an error.
    let arrow = match message.kind {
        Kind::Request => "->>",
        Kind::Notification => "-)",
        Kind::Response => "-->>",
        Kind::Error => "--x",
        Kind::Invalid => "-x",
    };
    let id = message.id.as_deref().map(|id| format!("id {id}"));
    let words = [
        Some(message.number.0.to_string()),
        message.method.as_deref().map(str::to_owned),
        Some(safe::fit(&about(message), ABOUT)),
        id,
        message.latency.filter(|_| message.answers.is_some()).map(units::duration),
        Some(look(status).mark.to_owned()),
    ];
    let words: Vec<String> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let mut text = format!("    {from}{number}{arrow}{to}{number}: {}\n", escaped(&words.join(" ")));
    if !message.findings.is_empty() {
        let _ = writeln!(text, "    Note over C{number},S{number}: ! {}", escaped(&message.findings.join(" ")));
    }
    text
}

/// Escapes a text so that nothing in it acts on a terminal or in Mermaid.
///
/// In Mermaid `#` and `;` enclose the code of a character, `;` and the end of a line end a
/// statement, `%%` begins a comment, and `<` begins an HTML element.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in safe::visible(text).chars() {
        match character {
            '#' | ';' | '<' | '>' | '&' | '%' | '"' => {
                let _ = write!(escaped, "#{};", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Party;
    use crate::test_messages;

    #[test]
    fn a_conversation_is_arrows_between_its_parties() {
        let mut messages = test_messages::read(
            r#"
            -> {"jsonrpc":"2.0","id":"a;b","method":"tools/call","params":{"name":"add","arguments":{"a":"%%{init}%%\n<b>#1"}}}
            -> {"jsonrpc":"2.0","method":"notifications/initialized"}
            <- {"jsonrpc":"2.0","id":"a;b","error":{"code":-32602,"message":"no"}}
            <- {"jsonrpc":"2.0","id":2,"result":{}}
            <- {
            "#,
        );
        messages[1].findings = vec!["lifecycle-order"];
        let client = Some(Party { name: "host; end".into(), version: "1".into() });
        let session = Session { client, ..test_messages::session(&messages) };
        let session = Session { server: Some(Party { name: "server".into(), version: String::new() }), ..session };
        let diagram: String = std::iter::once(head(&[session])).chain(messages.iter().map(super::message)).collect();
        let expected = "\
sequenceDiagram
    participant C1 as host#59; end 1
    participant S1 as server
    C1->>S1: 1 tools/call add a=#37;#37;{init}#37;#37;\u{240a}#60;b#62;#35;1 id #34;a#59;b#34;
    C1-)S1: 2 notifications/initialized
    Note over C1,S1: ! lifecycle-order
    S1--xC1: 3 tools/call error -32602 no id #34;a#59;b#34; 2.0 ms ✗
    S1-->>C1: 4 ok id 2
    S1-xC1: 5 {
";
        assert_eq!(diagram, expected);
    }
}
