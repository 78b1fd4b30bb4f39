//! A command line that sends a message again.

use crate::decode::Direction;
use crate::decode::exchange::Exchange;
use crate::mcp::{Message, Peers, Session};

/// Fields that curl makes itself, or that belong to the old connection.
const LEFT_OUT: [&str; 6] =
    ["host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent"];

/// The line, for a message that a client sent over HTTP. Secrets stay masked: the exchange has them no other way.
pub(super) fn line(message: &Message, exchange: &Exchange, session: &Session) -> Option<String> {
    if message.direction != Direction::ClientToServer {
        return None;
    }
    let host = match (exchange.request.fields.get("host").or(exchange.request.fields.get(":authority")), &session.peers)
    {
        (Some(host), _) => host.to_owned(),
        (None, Peers::Network { server, .. }) => server.to_string(),
        (None, Peers::Process { .. }) => return None,
    };
    let target = exchange.target.as_deref()?;
    let mut line =
        format!("curl -sS -N -X {} {}", quoted(exchange.method.as_deref()?), quoted(&format!("http://{host}{target}")));
    for (name, value) in exchange.request.fields.iter() {
        // Those of HTTP/2 that begin with a colon are said by the method and the address.
        if !name.starts_with(':') && !LEFT_OUT.iter().any(|left_out| left_out.eq_ignore_ascii_case(name)) {
            line.push_str(&format!(" -H {}", quoted(&format!("{name}: {value}"))));
        }
    }
    line.push_str(&format!(" --data-raw {}", quoted(&String::from_utf8_lossy(&message.raw))));
    Some(line)
}

/// One word for a shell, whatever is in it: nothing has a meaning between single quotes (POSIX Shell Command Language, 2.2.2).
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_hostile_words_as_they_are() {
        assert_eq!(quoted("a'; rm -rf ~ #"), r"'a'\''; rm -rf ~ #'");
        assert_eq!(quoted("$(id) `id` \\"), r"'$(id) `id` \'");
    }
}
