//! The form of a replay. Keys go in, a submission comes out. It uses neither the store nor a
//! server.

use std::fmt;

use super::super::editor::{self, Editor};
use super::options::Options;
use super::{Call, CallDraft, Consent, Draft, Order};
use crate::decode::json::locate;
use crate::mcp::SessionNumber;
use crate::mcp::contract::{Checker, Verdict};
use crate::mcp::revision::Revision;
use crate::replay::edit::with_member;
use crate::replay::safety::masked;
use crate::view::command_line;
use crate::view::json_tree::{compact, pretty};

/// A field of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// One call, or the whole session.
    What,
    /// The server.
    Target,
    /// Header fields, for a server at a URL.
    Fields,
    /// Further options.
    Options,
    /// The arguments of one call.
    Arguments,
}

/// The form.
#[derive(Debug)]
pub struct Form {
    pub session: SessionNumber,
    /// The values that it began with.
    pub draft: Draft,
    /// Whether only the selected call is sent.
    pub one_call: bool,
    /// The field that receives the keys.
    pub field: Field,
    /// A URL or a command line.
    pub target: Editor,
    /// Header fields, one per line.
    pub fields: Editor,
    /// Further options, in the syntax of the command line.
    pub options: Editor,
    /// The arguments as JSON text.
    pub arguments: Editor,
    /// The result of checking the arguments.
    pub remark: Remark,
    /// Questions that are open before anything is sent. While there are any, the keys answer them.
    pub asks: Vec<String>,
    /// Reasons why the last replay of the session skipped requests. They become questions when this
    /// form is submitted.
    pub warned: Vec<String>,
    checker: Checker,
    /// The arguments as they were shown first.
    unchanged: String,
}

/// The result of checking the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Remark {
    /// There is nothing to report.
    #[default]
    None,
    /// They match the schema of the tool.
    Fits,
    /// They are sent as they are, with this warning.
    Notice(String),
    /// They cannot be sent, for this reason.
    Wrong(String),
}

impl Form {
    /// Opens the form with a draft. `target` is the last one of the session; `fields` and `options`
    /// are the last ones of any.
    pub fn new(session: SessionNumber, draft: Draft, target: Option<&str>, fields: &str, options: &str) -> Form {
        let one_call = draft.call.is_some();
        let shown = draft.call.as_ref().map(shown).unwrap_or_default();
        let mut form = Form {
            session,
            one_call,
            field: Field::Target,
            target: Editor::line(target.unwrap_or(&draft.target)),
            fields: Editor::lines(fields).to_end(),
            options: Editor::line(options),
            arguments: Editor::lines(&shown),
            remark: Remark::None,
            asks: Vec::new(),
            warned: Vec::new(),
            checker: Checker::default(),
            unchanged: shown,
            draft,
        };
        form.check();
        form
    }

    /// Restores the arguments of the last submission if it sent the same request.
    pub fn edited_before(&mut self, order: Option<&Order>) {
        let (Some(call), Some(sent)) = (&self.draft.call, order.and_then(|order| order.call.as_ref())) else { return };
        if let Some(params) = sent.params.clone().filter(|_| sent.message.0 == call.message) {
            self.arguments = Editor::lines(&shown(&CallDraft { params, ..call.clone() }));
            self.check();
        }
    }

    /// Whether the server is at a URL.
    pub fn is_url(&self) -> bool {
        is_url(self.target.text())
    }

    /// The visible fields, in order.
    pub fn shown(&self) -> Vec<Field> {
        let arguments = self.one_call.then_some(Field::Arguments);
        let fields = self.is_url().then_some(Field::Fields);
        let what = self.draft.call.is_some().then_some(Field::What);
        what.into_iter().chain([Field::Target]).chain(fields).chain([Field::Options]).chain(arguments).collect()
    }

    /// Goes to the next field (1) or the previous one (-1).
    pub fn turn(&mut self, by: isize) {
        let shown = self.shown();
        let at = shown.iter().position(|field| *field == self.field).unwrap_or(0) as isize;
        self.field = shown[(at + by).rem_euclid(shown.len() as isize) as usize];
    }

    /// Handles a key. Returns true if it submits the form.
    pub fn key(&mut self, key: &str) -> bool {
        match (key, self.field) {
            ("tab", _) => self.turn(1),
            ("backtab", _) => self.turn(-1),
            ("ctrl-r", _) | ("enter", Field::Target | Field::What | Field::Options) => return true,
            ("up" | "down", Field::Target | Field::What | Field::Options) => {
                self.turn(if key == "up" { -1 } else { 1 })
            }
            ("left" | "right" | "space", Field::What) => self.one_call = !self.one_call,
            (_, Field::What) => {}
            (key, Field::Target) => {
                self.target.key(key);
            }
            (key, Field::Fields) => {
                self.fields.key(key);
            }
            (key, Field::Options) => {
                self.options.key(key);
            }
            (key, Field::Arguments) => {
                if self.arguments.key(key) {
                    self.check();
                }
            }
        }
        false
    }

    /// Inserts pasted text into the current field.
    pub fn paste(&mut self, text: &str) {
        match self.field {
            Field::What => {}
            Field::Target => self.target.insert(text.trim()),
            Field::Fields => self.fields.insert(text),
            Field::Options => self.options.insert(text.trim()),
            Field::Arguments => {
                self.arguments.insert(text);
                self.check();
            }
        }
    }

    /// The submission.
    ///
    /// # Errors
    ///
    /// A value is missing or cannot be sent. The error is a sentence.
    pub fn order(&self, number: u64, consent: Consent) -> Result<Order, String> {
        let target = self.target.text().trim().to_owned();
        match command_line::words(&target) {
            _ if target.is_empty() => return Err("where to? a URL, or the command line of a server".to_owned()),
            None if !is_url(&target) => return Err("a quote is not closed in the command line".to_owned()),
            _ => {}
        }
        let call = match &self.draft.call {
            Some(call) if self.one_call => {
                if let Remark::Wrong(why) = &self.remark {
                    return Err(why.clone());
                }
                Some(Call { message: crate::mcp::MessageNumber(call.message), params: self.params(call) })
            }
            _ => None,
        };
        let fields = if self.is_url() { self.fields.text().to_owned() } else { String::new() };
        let options = self.options.text().trim().to_owned();
        Options::read(&options).map_err(|why| format!("{why:#}"))?;
        Ok(Order { number, session: self.session, call, target, fields, options, consent })
    }

    /// The edited `params`; `None` if nothing was changed.
    fn params(&self, call: &CallDraft) -> Option<String> {
        if self.arguments.text() == self.unchanged {
            return None;
        }
        let written = compact(self.arguments.text());
        Some(match call.member {
            Some(member) if written.is_empty() => without(&call.params, member),
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

fn without(params: &str, member: &str) -> String {
    crate::replay::edit::without_members(params, &|name| name == member)
}

/// Whether a target is a URL, and not a command.
pub fn is_url(target: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| target.trim_start().starts_with(scheme))
}

/// The edited part, formatted; empty if it is too long to edit.
fn shown(call: &CallDraft) -> String {
    let text = edited(call);
    let laid_out = pretty(text);
    if laid_out.len() > editor::LONGEST { String::new() } else { laid_out }
}

/// The edited part as it was recorded.
fn edited(call: &CallDraft) -> &str {
    match call.member {
        Some(member) => {
            locate(&call.params, &format!("/{member}")).and_then(|at| call.params.get(at)).unwrap_or_default()
        }
        None => &call.params,
    }
}

fn remark(call: &CallDraft, written: &str, checker: &mut Checker) -> Remark {
    let written = written.trim_end();
    if written.is_empty() && !edited(call).is_empty() && shown(call).is_empty() {
        return Remark::Notice("too long to be edited here: sent as recorded unless something is written".to_owned());
    }
    if !written.is_empty() {
        match serde_json::from_str::<serde_json::Value>(written) {
            Ok(value) if value.is_object() => {}
            Ok(_) => return Remark::Wrong("arguments are an object: { … }".to_owned()),
            Err(error) => return Remark::Wrong(format!("no JSON: {error}")),
        }
    }
    if let Some(path) = masked(written) {
        return Remark::Wrong(format!("{path} was masked when it was recorded: write the value in its place"));
    }
    let (Some(schema), Some(revision)) = (&call.schema, Revision::named(&call.revision)) else {
        return Remark::None;
    };
    match checker.check(revision, schema, if written.is_empty() { "{}" } else { written }) {
        Verdict::Holds => Remark::Fits,
        // A violation may be intended, so it is only reported.
        Verdict::Broken(violations) => {
            let first = violations.first().map(ToString::to_string).unwrap_or_default();
            let more = violations.len().saturating_sub(1);
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            Remark::Notice(format!("against the tool's schema: {first}{more}"))
        }
        Verdict::NoSchema(_) | Verdict::Unchecked(_) => Remark::None,
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::What => "send",
            Field::Target => "to",
            Field::Fields => "headers",
            Field::Options => "options",
            Field::Arguments => "arguments",
        })
    }
}
