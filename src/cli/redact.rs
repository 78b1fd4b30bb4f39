//! Redaction: its rules, from options and files, and a redacted copy of what was recorded before.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use regex::bytes::Regex;

use super::args::{Decoding, Redact};
use super::{stop, target};
use crate::decode::redact::{JsonPath, Redaction, RedactionRules};
use crate::mcp::SessionNumber;
use crate::store::{CaptureId, CaptureInfo, Page, Selection, StoreReader, StoredPackets};
use crate::view::secrets;

impl Redact {
    /// The rules with the key of this run; `None` if there are no rules. They last as long as the
    /// program, because every part of it has them.
    pub fn redaction(&self, keep_secrets: bool) -> Result<Option<&'static Redaction>> {
        let mut rules = RedactionRules { tokens: self.redact_tokens, ..RedactionRules::default() };
        for (kind, texts) in [("key", &self.redact_key), ("path", &self.redact_path), ("regex", &self.redact_regex)] {
            for text in texts {
                add(&mut rules, kind, text)
                    .map_err(|(column, reason)| anyhow!("--redact-{kind} {text:?}, column {column}: {reason}"))?;
            }
        }
        for file in &self.redact_file {
            add_file(&mut rules, file)?;
        }
        if rules.names.is_empty() && rules.paths.is_empty() && rules.patterns.is_empty() && !rules.tokens {
            return Ok(None);
        }
        if keep_secrets {
            bail!("--keep-secrets keeps what redaction removes: leave one of them out");
        }
        Ok(Some(Box::leak(Box::new(Redaction::new(rules, secrets::key())))))
    }
}

#[cfg(all(feature = "attach", target_os = "linux"))]
impl Redact {
    /// The options as words of a command line, valid in any working directory.
    pub fn words(&self) -> Result<Vec<std::ffi::OsString>> {
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        for (kind, texts) in [("key", &self.redact_key), ("path", &self.redact_path), ("regex", &self.redact_regex)] {
            words.extend(texts.iter().map(|text| format!("--redact-{kind}={text}").into()));
        }
        for file in &self.redact_file {
            words.extend(["--redact-file".into(), std::path::absolute(file)?.into()]);
        }
        words.extend(self.redact_tokens.then(|| "--redact-tokens".into()));
        Ok(words)
    }
}

/// Decodes stored packets again, with redaction, into a temporary store. Returns its reader, and
/// the session there that was chosen.
pub fn copy(
    reader: &StoreReader,
    session: Option<SessionNumber>,
    decoding: &Decoding,
    redaction: &'static Redaction,
) -> Result<(StoreReader, Option<SessionNumber>)> {
    let captures: Vec<CaptureId> = match session {
        Some(session) => reader.capture_of(session)?.into_iter().collect(),
        None => reader.captures(Page::first(usize::MAX >> 1))?.iter().map(|capture| capture.id).collect(),
    };
    let place = target::temporary()?;
    let mut chosen = None;
    for capture in captures {
        let sessions = reader.sessions_of(capture)?;
        let Some(info) = reader.capture(capture)?.map(|capture| capture.info) else { continue };
        let info = CaptureInfo { source: redaction.masked(&info.source).into_owned(), ..info };
        let stored = StoredPackets::open(reader.place().clone(), Selection::Capture(capture))?;
        let stopped = "a signal ended the redaction";
        let copied = target::copy(stored, place.clone(), &info, decoding, Some(redaction), stopped)?;
        let new = StoreReader::open(place.clone())?;
        let others = new.sessions_of(copied)?;
        for (at, before) in sessions.iter().enumerate() {
            let messages = |reader: &StoreReader, number: SessionNumber| -> Result<u64> {
                Ok(reader.session(number)?.map_or(0, |session| session.messages))
            };
            let is_whole = match others.get(at) {
                Some(other) => messages(&new, *other)? == messages(reader, *before)?,
                None => false,
            };
            if !is_whole {
                bail!(
                    "session {} cannot be redacted now: its stored packets do not have all of its messages, as where TLS carried them (then give --keylog FILE); redact when it is recorded",
                    before.0
                );
            }
            if session == Some(*before) {
                chosen = others.get(at).copied();
            }
        }
    }
    let reader = StoreReader::open(place)?.until(stop::before_cleaning()?)?;
    Ok((reader, chosen))
}

/// A mistake: its column, from 1, and what is wrong.
type Mistake = (usize, String);

/// Adds the rules of a file.
fn add_file(rules: &mut RedactionRules, file: &Path) -> Result<()> {
    let shown = file.display();
    let bytes = fs::read(file).with_context(|| format!("cannot read the rules of redaction in {shown}"))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        anyhow!("{shown}, line {line}: this is not UTF-8")
    })?;
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let rule = line.trim();
        if rule.is_empty() || rule.starts_with('#') {
            continue;
        }
        count += 1;
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let (kind, argument) = rule.split_once(char::is_whitespace).unwrap_or((rule, ""));
        let before = kind.chars().count() + argument.chars().take_while(|c| c.is_whitespace()).count();
        let start = indent + before + usize::from(!argument.is_empty());
        add(rules, kind, argument.trim_start()).map_err(|(column, reason)| {
            let column = if column == 0 { indent + 1 } else { start + column };
            anyhow!("{shown}, line {}, column {column}: {reason}", number + 1)
        })?;
    }
    match count {
        0 => bail!("{shown} has no rule: write key NAME, path PATH, regex REGEX or tokens, one on a line"),
        _ => Ok(()),
    }
}

/// Adds a rule. The column of a mistake counts from the argument's first character; 0 is the kind.
fn add(rules: &mut RedactionRules, kind: &str, argument: &str) -> Result<(), Mistake> {
    match kind {
        "key" | "path" | "regex" if argument.is_empty() => {
            return Err((0, format!("{kind} needs a value: {kind} {}", kind.to_uppercase())));
        }
        "key" => rules.names.push(argument.to_owned()),
        "path" => {
            let path = JsonPath::parse(argument).map_err(|error| (error.column, error.to_string()))?;
            rules.paths.push(path);
        }
        "regex" => {
            let pattern = Regex::new(argument).map_err(|error| mistake(&error))?;
            if pattern.is_match(b"") {
                return Err((1, "the expression matches the empty text, so it matches everywhere".to_owned()));
            }
            rules.patterns.push(pattern);
        }
        "tokens" if argument.is_empty() => rules.tokens = true,
        "tokens" => return Err((1, "tokens has no value".to_owned())),
        _ => return Err((0, format!("unknown rule {kind:?}: a rule is key, path, regex or tokens"))),
    }
    Ok(())
}

/// The place and the reason of a mistake in a regular expression. The library shows the place with
/// a mark below the expression, which it indents by four.
fn mistake(error: &regex::Error) -> Mistake {
    let text = error.to_string();
    let column = text.lines().find_map(|line| line.find('^').filter(|at| line[..*at].trim().is_empty()));
    let reason = text.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
    (column.map_or(1, |at| at.saturating_sub(4) + 1), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &[u8]) -> Result<Option<&'static Redaction>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rules");
        fs::write(&path, text).expect("written");
        Redact { redact_file: vec![path], ..Redact::default() }.redaction(false)
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        for (text, place) in [
            (&b"key a\n  path $.a[\n"[..], "line 2, column 12: expected *, a number or a name in quotes here"),
            (b"# x\n\nregex  (ab", "line 3, column 8: unclosed group"),
            (b"regex a|[b", "line 1, column 9: unclosed character class"),
            (b"word x", "line 1, column 1: unknown rule \"word\""),
            (b"key", "line 1, column 1: key needs a value"),
            (b" tokens x", "line 1, column 9: tokens has no value"),
            (b"regex x*", "line 1, column 7: the expression matches the empty text"),
            (b"key a\nkey \xff", "line 2: this is not UTF-8"),
            (b"# nothing", "has no rule"),
        ] {
            let error = format!("{:#}", file(text).expect_err("a mistake"));
            assert!(error.contains(place), "{error}");
        }
        assert!(file(b"key a\n#\n path $..b\r\nregex a+ b\ntokens\n").expect("rules").is_some());
    }

    #[test]
    fn options_are_rules_too() {
        let with = |rule: fn(&mut Redact)| {
            let mut redact = Redact::default();
            rule(&mut redact);
            redact
        };
        assert!(Redact::default().redaction(true).expect("no rules").is_none());
        let bad = with(|redact| redact.redact_path = vec!["a".to_owned()]).redaction(false);
        assert!(format!("{:#}", bad.expect_err("a mistake")).contains("--redact-path \"a\", column 1"));
        assert!(with(|redact| redact.redact_tokens = true).redaction(true).is_err(), "secrets are kept");
    }
}
