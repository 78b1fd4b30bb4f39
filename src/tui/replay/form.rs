//! The form of a replay. Keys go in, a submission comes out. It uses neither the store
//! nor a server.

use std::fmt;

use super::super::editor::{self, Editor};
use super::options::ReplayOptions;
use super::{Call, CallDraft, Consent, Draft, Submission};
use crate::decode::json::locate;
use crate::mcp::SessionNumber;
use crate::mcp::contract::{SchemaChecker, Verdict};
use crate::mcp::revision::Revision;
use crate::replay::edit::{with_member, without_members};
use crate::replay::safety::masked;
use crate::view::command_line;
use crate::view::json_tree::{compact, pretty};

/// A field of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormField {
    /// One call, or the whole session.
    Scope,
    Target,
    /// Header fields, for a server at a URL.
    Headers,
    /// Further options, in the syntax of the command line.
    Options,
    /// The arguments of one call.
    Arguments,
}

/// The form with its texts, before it is submitted.
#[derive(Debug)]
pub struct Form {
    pub session: SessionNumber,
    /// The values that it began with.
    pub draft: Draft,
    /// Whether only the selected call is sent.
    pub one_call: bool,
    /// The field that receives the keys.
    pub field: FormField,
    /// A URL or a command line.
    pub target: Editor,
    /// Header fields, one per line.
    pub headers: Editor,
    /// Further options, in the syntax of the command line.
    pub options: Editor,
    /// The arguments as JSON text.
    pub arguments: Editor,
    /// The result of checking the arguments.
    pub remark: Remark,
    /// Questions that are open before anything is sent. While there are any, the keys answer them.
    pub questions: Vec<String>,
    /// Reasons why the last replay of the session skipped requests. They become questions when this
    /// form is submitted.
    pub late_refusals: Vec<String>,
    checker: SchemaChecker,
    /// The arguments as they were shown first.
    unchanged: String,
}

/// The result of checking the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Remark {
    /// There is nothing to report.
    #[default]
    None,
    /// The arguments match the schema of the tool.
    Matches,
    /// The arguments are sent as they are, with this warning.
    Warning(String),
    /// The arguments cannot be sent, for this reason.
    Invalid(String),
}

impl Form {
    /// Opens the form with a draft. `target` is the last one of the session; `headers` and
    /// `options` are the last ones of any.
    pub fn new(session: SessionNumber, draft: Draft, target: Option<&str>, headers: &str, options: &str) -> Form {
        let one_call = draft.call.is_some();
        let shown = draft.call.as_ref().map(formatted).unwrap_or_default();
        let mut form = Form {
            session,
            one_call,
            field: FormField::Target,
            target: Editor::line(target.unwrap_or(&draft.target)),
            headers: Editor::lines(headers).with_cursor_at_end(),
            options: Editor::line(options),
            arguments: Editor::lines(&shown),
            remark: Remark::None,
            questions: Vec::new(),
            late_refusals: Vec::new(),
            checker: SchemaChecker::default(),
            unchanged: shown,
            draft,
        };
        form.check();
        form
    }

    /// Restores the arguments of the last submission if it sent the same request.
    pub fn restore_arguments(&mut self, submission: Option<&Submission>) {
        let (Some(call), Some(sent)) = (&self.draft.call, submission.and_then(|submission| submission.call.as_ref()))
        else {
            return;
        };
        if let Some(params) = sent.params.clone().filter(|_| sent.message.0 == call.message) {
            self.arguments = Editor::lines(&formatted(&CallDraft { params, ..call.clone() }));
            self.check();
        }
    }

    /// Whether the server is at a URL.
    pub fn is_url(&self) -> bool {
        is_url(self.target.text())
    }

    /// The visible fields, in order.
    pub fn visible_fields(&self) -> Vec<FormField> {
        let arguments = self.one_call.then_some(FormField::Arguments);
        let headers = self.is_url().then_some(FormField::Headers);
        let scope = self.draft.call.is_some().then_some(FormField::Scope);
        scope
            .into_iter()
            .chain([FormField::Target])
            .chain(headers)
            .chain([FormField::Options])
            .chain(arguments)
            .collect()
    }

    /// Goes to the next field (1) or the previous one (-1).
    pub fn next_field(&mut self, by: isize) {
        let shown = self.visible_fields();
        let at = shown.iter().position(|field| *field == self.field).unwrap_or(0) as isize;
        self.field = shown[(at + by).rem_euclid(shown.len() as isize) as usize];
    }

    /// Handles a key. Returns true if it submits the form.
    pub fn key(&mut self, key: &str) -> bool {
        match (key, self.field) {
            ("tab", _) => self.next_field(1),
            ("backtab", _) => self.next_field(-1),
            ("ctrl-r", _) | ("enter", FormField::Target | FormField::Scope | FormField::Options) => return true,
            ("up" | "down", FormField::Target | FormField::Scope | FormField::Options) => {
                self.next_field(if key == "up" { -1 } else { 1 })
            }
            ("left" | "right" | "space", FormField::Scope) => self.one_call = !self.one_call,
            (key, _) => {
                if self.editor().is_some_and(|editor| editor.key(key)) {
                    self.check();
                }
            }
        }
        false
    }

    /// Inserts pasted text into the current field.
    pub fn paste(&mut self, text: &str) {
        let is_line = matches!(self.field, FormField::Target | FormField::Options);
        if let Some(editor) = self.editor() {
            editor.insert(if is_line { text.trim() } else { text });
            self.check();
        }
    }

    /// The text of the current field.
    fn editor(&mut self) -> Option<&mut Editor> {
        match self.field {
            FormField::Scope => None,
            FormField::Target => Some(&mut self.target),
            FormField::Headers => Some(&mut self.headers),
            FormField::Options => Some(&mut self.options),
            FormField::Arguments => Some(&mut self.arguments),
        }
    }

    /// Makes the submission from the texts of the form.
    ///
    /// # Errors
    ///
    /// A value is missing or cannot be sent. The error is a sentence.
    pub fn submission(&self, number: u64, consent: Consent) -> Result<Submission, String> {
        let target = self.target.text().trim().to_owned();
        match command_line::words(&target) {
            _ if target.is_empty() => {
                return Err("no server is given: write a URL or the command line of a server".to_owned());
            }
            None if !is_url(&target) => return Err("a quote is not closed in the command line".to_owned()),
            _ => {}
        }
        let call = match &self.draft.call {
            Some(call) if self.one_call => {
                if let Remark::Invalid(why) = &self.remark {
                    return Err(why.clone());
                }
                Some(Call { message: crate::mcp::MessageNumber(call.message), params: self.params(call) })
            }
            _ => None,
        };
        let headers = if self.is_url() { self.headers.text().to_owned() } else { String::new() };
        let options = self.options.text().trim().to_owned();
        ReplayOptions::read(&options).map_err(|why| format!("{why:#}"))?;
        Ok(Submission { number, session: self.session, call, target, headers, options, consent })
    }

    /// The edited `params`; `None` if nothing was changed.
    fn params(&self, call: &CallDraft) -> Option<String> {
        if self.arguments.text() == self.unchanged {
            return None;
        }
        let written = compact(self.arguments.text());
        Some(match call.member {
            Some(member) if written.is_empty() => without_members(&call.params, &|name| name == member),
            Some(member) => with_member(&call.params, member, &written),
            None => written,
        })
    }

    /// Checks the arguments again.
    fn check(&mut self) {
        self.remark = match &self.draft.call {
            Some(call) => remark(call, self.arguments.text(), &mut self.checker),
            None => Remark::None,
        };
    }
}

/// Whether a target is a URL, and not a command.
pub fn is_url(target: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| target.trim_start().starts_with(scheme))
}

/// The edited part, formatted; empty if it is too long to edit.
fn formatted(call: &CallDraft) -> String {
    let text = edited_part(call);
    let laid_out = pretty(text);
    if laid_out.len() > editor::LONGEST { String::new() } else { laid_out }
}

/// The edited part as it was recorded.
fn edited_part(call: &CallDraft) -> &str {
    match call.member {
        Some(member) => {
            locate(&call.params, &format!("/{member}")).and_then(|at| call.params.get(at)).unwrap_or_default()
        }
        None => &call.params,
    }
}

fn remark(call: &CallDraft, written: &str, checker: &mut SchemaChecker) -> Remark {
    let written = written.trim_end();
    if written.is_empty() && !edited_part(call).is_empty() && formatted(call).is_empty() {
        return Remark::Warning("too long to edit here: sent as recorded unless you write new arguments".to_owned());
    }
    if !written.is_empty() {
        match serde_json::from_str::<serde_json::Value>(written) {
            Ok(value) if value.is_object() => {}
            Ok(_) => return Remark::Invalid("arguments must be an object: { … }".to_owned()),
            Err(error) => return Remark::Invalid(format!("not valid JSON: {error}")),
        }
    }
    if let Some(path) = masked(written) {
        return Remark::Invalid(format!("the recording does not have {path}: write its value here"));
    }
    let (Some(schema), Some(revision)) = (&call.schema, Revision::named(&call.revision)) else {
        return Remark::None;
    };
    match checker.check(revision, schema, if written.is_empty() { "{}" } else { written }) {
        Verdict::Holds => Remark::Matches,
        // A violation may be intended, so it is only reported.
        Verdict::Broken(violations) => {
            let first = violations.first().map(ToString::to_string).unwrap_or_default();
            let more = violations.len().saturating_sub(1);
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            Remark::Warning(format!("does not match the tool's schema: {first}{more}"))
        }
        Verdict::NoSchema(_) | Verdict::Unchecked(_) => Remark::None,
    }
}

impl fmt::Display for FormField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FormField::Scope => "send",
            FormField::Target => "to",
            FormField::Headers => "headers",
            FormField::Options => "options",
            FormField::Arguments => "arguments",
        })
    }
}
