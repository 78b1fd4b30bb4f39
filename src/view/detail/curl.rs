//! A curl command that sends a message again.

use crate::decode::Direction;
use crate::decode::exchange::Exchange;
use crate::mcp::{Message, Peers, Session};
use crate::view::command_line::in_quotes;

/// Header fields that curl writes itself, or that belong to the old connection.
const LEFT_OUT: [&str; 6] =
    ["host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent"];

/// The command, for a message that a client sent over HTTP. Secrets stay masked, because the
/// exchange stores them only so.
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
    let mut line = format!(
        "curl -sS -N -X {} {}",
        in_quotes(exchange.method.as_deref()?),
        in_quotes(&format!("http://{host}{target}"))
    );
    for (name, value) in exchange.request.fields.iter() {
        // The pseudo-fields of HTTP/2 are in the method and the URL.
        if !name.starts_with(':') && !LEFT_OUT.iter().any(|left_out| left_out.eq_ignore_ascii_case(name)) {
            line.push_str(&format!(" -H {}", in_quotes(&format!("{name}: {value}"))));
        }
    }
    line.push_str(&format!(" --data-raw {}", in_quotes(&String::from_utf8_lossy(&message.raw))));
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_hostile_words_as_they_are() {
        assert_eq!(in_quotes("a'; rm -rf ~ #"), r"'a'\''; rm -rf ~ #'");
        assert_eq!(in_quotes("$(id) `id` \\"), r"'$(id) `id` \'");
    }
}
