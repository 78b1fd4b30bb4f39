//! Body of the fuzz target for conversations through the proxy, and helpers that the tests share.

use std::sync::Arc;

use super::conversation::Conversation;
use super::heads::HeadRewriter;
use crate::decode::Direction::{self, ClientToServer, ServerToClient};
use crate::http::origin::Origin;

/// The authority of the server in these conversations.
pub(super) const SERVER: &str = "api.example:8443";

/// The most bytes of a client that may be buffered: a head and the line after it.
const MAX_UNSENT: usize = 128 << 10;

/// A conversation through a proxy with these names.
pub(super) fn conversation_with(names: &[&str]) -> Option<Conversation> {
    let server = Origin::of(&format!("https://{SERVER}/mcp"))?;
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Some(Conversation::new(Arc::new(HeadRewriter { server, names }), "127.0.0.1:9000"))
}

/// The bytes forwarded in each direction, and the status of the refusal that
/// ended the conversation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PassedBytes {
    pub(super) bytes: [Vec<u8>; 2],
    pub(super) refused: Option<(u16, bool)>,
}

/// Forwards the bytes of both sides in pieces of at most `size` bytes.
pub(super) fn pass(mut conversation: Conversation, steps: &[(Direction, &[u8])], size: usize) -> PassedBytes {
    let mut passed = PassedBytes::default();
    for (direction, bytes) in steps {
        for piece in bytes.chunks(size) {
            if *direction == ClientToServer && conversation.rewriter.refused.is_some() {
                break;
            }
            conversation.push(*direction, piece);
            conversation.take(ServerToClient, &mut passed.bytes[1]);
            conversation.take(ClientToServer, &mut passed.bytes[0]);
            assert!(
                conversation.rewriter.refused.is_some() || conversation.unsent().len() <= MAX_UNSENT,
                "{} bytes are buffered",
                conversation.unsent().len()
            );
        }
    }
    conversation.end();
    conversation.take(ServerToClient, &mut passed.bytes[1]);
    passed.refused = conversation.rewriter.refused.map(|refused| (refused.refusal.status, refused.is_partly_sent));
    passed
}

/// Runs any conversation. `data` is a list of steps with a header of two bytes: the lowest bit of
/// the first names the sender, the second is the number of bytes that follow.
///
/// It asserts:
///
/// * Cutting changes neither the bytes to the client nor the refusal. The bytes to the server are
///   the same, or one run forwards less.
///
/// * Bytes of the server arrive complete, unless an address in them was rewritten.
///
/// * Bytes that were forwarded to the server pass a second proxy unchanged.
///
/// # Panics
///
/// One of these assertions fails.
pub fn fuzz_proxy(data: &[u8]) {
    let steps = parse_script(data);
    let passed = |size| conversation_with(&["mine.test"]).map(|conversation| pass(conversation, &steps, size));
    let (Some(whole), Some(bytes), Some(cut)) = (passed(usize::MAX), passed(1), passed(7)) else { return };
    for other in [&bytes, &cut] {
        assert_eq!(whole.refused.as_ref().map(|(status, _)| status), other.refused.as_ref().map(|(status, _)| status));
        assert_eq!(whole.bytes[1], other.bytes[1], "to the client");
        let [one, two] = [&whole.bytes[0], &other.bytes[0]];
        assert!(one.starts_with(two) || two.starts_with(one), "to the server");
    }
    let sent: usize =
        steps.iter().filter(|(direction, _)| *direction == ServerToClient).map(|(_, bytes)| bytes.len()).sum();
    let is_renamed = memchr::memmem::find(&whole.bytes[1], b"http://").is_some();
    assert!(is_renamed || whole.bytes[1].len() == sent, "the server sent {sent} bytes");

    // After a response the protocol can change, so this part uses a server that sends nothing.
    let host = SERVER.split(':').next().unwrap_or(SERVER);
    let (Some(once), Some(again)) = (conversation_with(&["mine.test"]), conversation_with(&[host])) else { return };
    let requests: Vec<_> = steps.iter().filter(|(direction, _)| *direction == ClientToServer).copied().collect();
    let [once, _] = pass(once, &requests, usize::MAX).bytes;
    let again = pass(again, &[(ClientToServer, &once)], usize::MAX);
    assert_eq!(again.refused, None, "forwarded bytes are accepted");
    assert!(once.starts_with(&again.bytes[0]), "as it is");
}

fn parse_script(mut data: &[u8]) -> Vec<(Direction, &[u8])> {
    let mut steps = Vec::new();
    while let [who, length, rest @ ..] = data {
        let direction = if who & 1 == 0 { ClientToServer } else { ServerToClient };
        let (bytes, behind) = rest.split_at(usize::from(*length).min(rest.len()));
        steps.push((direction, bytes));
        data = behind;
    }
    steps
}
