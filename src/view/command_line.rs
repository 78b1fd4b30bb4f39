//! The command line of a server as it is recorded and shown, with its secrets masked.
//!
//! Servers receive keys and tokens in many ways. A value counts as a secret if the name before it
//! is that of a secret, as for header fields. So does a token that is known by its shape.
//!
//! ```text
//!  --api-key abc          the word behind an option
//!  --token=abc  KEY=abc   the rest of a word
//!  -H "Authorization: Bearer abc"
//!  --config {"apiKey":"abc","depth":3}
//!  http://host/mcp?token=abc&depth=3
//!  postgres://user:abc@host/db
//! ```

use std::ffi::OsStr;
use std::ops::Range;

use super::secrets::{self as view_secrets, password_of_uri};
use crate::decode::mask::{Mask, MaskKey};
use crate::decode::{http, secrets};

/// The words with each byte of a secret replaced.
pub fn masked(words: &[impl AsRef<OsStr>]) -> Vec<String> {
    masked_with(view_secrets::key(), words)
}

fn masked_with(key: Option<MaskKey>, words: &[impl AsRef<OsStr>]) -> Vec<String> {
    let mut value_of_secret = false;
    let mut shown = Vec::with_capacity(words.len());
    for word in words {
        let mut word = word.as_ref().to_string_lossy().into_owned();
        // In `--token --verbose` the option `--token` has no value.
        if value_of_secret && !word.starts_with("--") {
            word = mask(key, &word, 0..word.len());
        } else {
            let tokens = secrets::in_text(word.as_bytes());
            for secret in secrets::union(named_secrets(&word), tokens) {
                word = mask(key, &word, secret);
            }
        }
        value_of_secret = word.strip_prefix('-').is_some_and(is_secret);
        shown.push(word);
    }
    shown
}

/// Splits a command line into words as a shell does (POSIX Shell Command Language section 2.2).
///
/// It interprets both kinds of quotes and the backslash, but no other feature of a shell. `None`
/// where a quote is not closed.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            _ if c.is_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '\\' if c == '"' => match chars.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// The words as one line. [`words`] and a shell split it into the same words again.
pub fn quoted(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => in_quotes(word),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A word between single quotes, where no character is special to a shell (POSIX Shell Command
/// Language section 2.2.2).
pub fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The word with this range masked. It keeps its length, so that other ranges stay correct.
fn mask(key: Option<MaskKey>, word: &str, secret: Range<usize>) -> String {
    secrets::masked(word, vec![secret], |value| Mask::of(key, value)).into_owned()
}

/// Whether an option or a variable with this name has a secret value: `--api-key`, `API_KEY`.
fn is_secret(name: &str) -> bool {
    name.bytes().all(is_of_name) && http::is_secret(name.as_bytes())
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// The ranges of the values in a word that their names mark as secrets, in order.
fn named_secrets(word: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = password_of_uri(word).into_iter().collect();
    for (at, _) in word.match_indices(['=', ':']) {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let before = word[..at].trim_end();
        let before = before.strip_suffix(['"', '\'']).unwrap_or(before);
        let name = &before[before.len() - before.bytes().rev().take_while(|byte| is_of_name(*byte)).count()..];
        if is_secret(name) {
            let secret = value(word, at + 1, before.len() == name.len());
            found.push(secret);
        }
    }
    found
}

/// The range of the value that begins at or behind `start`. In quotes it is what they enclose.
/// Where its name began the word it is the rest of the word. Otherwise it ends at a character that
/// ends a value in a URL or a list.
fn value(word: &str, start: usize, named_the_word: bool) -> Range<usize> {
    let rest = &word[start..];
    let start = start + rest.len() - rest.trim_start().len();
    let rest = &word[start..];
    let quoted = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''));
    let (start, end) = match quoted {
        Some(quote) => (start + 1, word[start + 1..].find(quote).map(|length| start + 1 + length)),
        None if named_the_word => (start, None),
        None => (start, rest.find(['&', '#', ',', ';', '}', '"', '\'', ' ']).map(|length| start + length)),
    };
    start..end.unwrap_or(word.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(words: &[&str]) -> String {
        masked_with(None, words).join(" ")
    }

    #[test]
    fn values_are_secret_by_the_name_before_them() {
        for (words, expected) in [
            (&["server", "--api-key", "abc", "--depth", "3"][..], "server --api-key *** --depth 3"),
            (&["--token=abc", "x"], "--token=*** x"),
            (&["env", "OPENAI_API_KEY=a b", "PATH=/bin", "server"], "env OPENAI_API_KEY=*** PATH=/bin server"),
            (
                &["mcp-remote", "http://h/mcp", "--header", "Authorization: Bearer abc"],
                "mcp-remote http://h/mcp --header Authorization: **********",
            ),
            (&["--config", r#"{"apiKey": "abc","depth":3}"#], r#"--config {"apiKey": "***","depth":3}"#),
            (&["http://h/mcp?depth=3&token=abc&x=1"], "http://h/mcp?depth=3&token=***&x=1"),
            (&["postgres://me:a:b@h/db"], "postgres://me:***@h/db"),
            (&["http://me:a@h/?token=b#c"], "http://me:*@h/?token=*#c"),
            (&["--no-token", "--verbose"], "--no-token --verbose"),
            (&["--token"], "--token"),
            (&["--password", ""], "--password "),
            (&["-password=schlüssel"], "-password=**********"),
            (
                &["server", "--github-pat", "abc", "--auth", "d", "--bearer", "e"],
                "server --github-pat *** --auth * --bearer *",
            ),
            (
                &["server", "--db-pass", "abc", "--key", "d", "--author", "me"],
                "server --db-pass *** --key * --author me",
            ),
            (&["npx", "-p", "server", "--max-tokens", "3"], "npx -p server --max-tokens 3"),
            (&["http://h/mcp?tavilyApiKey=abc&x=1"], "http://h/mcp?tavilyApiKey=***&x=1"),
            (&["python", "-m", "tokenizer", "a=b", "c:d"], "python -m tokenizer a=b c:d"),
        ] {
            assert_eq!(shown(words), expected);
        }
    }

    #[test]
    fn tokens_are_masked_wherever_they_are() {
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let words = ["server", token, &format!("--api-key={token}"), &format!("http://h/{token}/mcp")];
        let shown = masked(&words);
        let hidden = shown[1].as_str();
        assert!(hidden.starts_with("********") && !hidden.ends_with('*') && hidden.len() == token.len());
        // Equal tokens have equal tags.
        assert_eq!(shown[1..], [hidden, &format!("--api-key={hidden}"), &format!("http://h/{hidden}/mcp")]);
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |line: &str| words(line).unwrap_or_else(|| vec!["(open)".to_owned()]).join("|");
        assert_eq!(words(r#" npx -y 'a b'  "c \" \d" e\ f '' "#), r#"npx|-y|a b|c " \d|e f|"#);
        assert_eq!(words("a'b"), "(open)");
        assert_eq!(words(" "), "");
    }

    proptest! {
        /// A line made of words is split into the same words.
        #[test]
        fn quoting_is_undone_by_reading(given in prop::collection::vec("([a-z]|'|\"|\\\\| |\n|\\$|é){0,6}", 0..4)) {
            prop_assert_eq!(words(&quoted(&given)), Some(given));
        }

        /// Only values change, and no word becomes longer or shorter.
        #[test]
        fn any_words_are_shown(words in prop::collection::vec("(token|a|=|:|--|\"|'|&| |é|://|@){0,8}", 0..4)) {
            let shown = masked_with(None, &words);
            prop_assert_eq!(shown.len(), words.len());
            for (shown, word) in shown.iter().zip(&words) {
                prop_assert_eq!(shown.len(), word.len());
                prop_assert!(shown.bytes().zip(word.bytes()).all(|(shown, byte)| shown == byte || shown == b'*'));
            }
        }
    }
}
