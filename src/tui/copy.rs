//! Copies to the clipboard through the terminal (OSC 52). It works over SSH and needs
//! no window system.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::app::DetailView;
use super::data::Detail;
use super::keys::Command;

/// Limit of a copied text in bytes: xterm and tmux discard longer sequences silently.
pub const LONGEST: usize = 74_994;

/// The name and the text of what a command copies; `None` if there is nothing to copy.
pub fn text(detail: &Detail, view: &DetailView, command: Command) -> Option<(&'static str, String)> {
    let node = || view.tree.node(view.json.selected);
    let (what, text) = match command {
        Command::CopyMessage => ("the message", String::from_utf8_lossy(detail.text()).into_owned()),
        Command::CopyPath => ("the path", node().map(|_| view.tree.path(detail.text(), view.json.selected))?),
        Command::CopyValue => ("the value", value(detail, view)?),
        Command::CopyCurl => ("a curl command", detail.curl.clone()?),
        _ => return None,
    };
    Some((what, text))
}

/// The value of the selected field: a string without quotes and escapes, anything else
/// as JSON text.
pub fn value(detail: &Detail, view: &DetailView) -> Option<String> {
    let value = detail.text().get(view.tree.node(view.json.selected)?.value.clone())?;
    let plain = serde_json::from_slice::<String>(value);
    Some(plain.unwrap_or_else(|_| String::from_utf8_lossy(value).into_owned()))
}

/// Writes the escape sequence that puts `text` on the clipboard.
pub fn send(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    write!(out, "\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clipboard_text_is_sent_in_base64() {
        let mut out = Vec::new();
        send(&mut out, "añb").unwrap();
        assert_eq!(out, b"\x1b]52;c;YcOxYg==\x07");
    }
}
