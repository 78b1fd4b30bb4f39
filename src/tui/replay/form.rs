//! The form in which a replay is ordered. Keys in, an order out; nothing here asks a store or a server.

use std::fmt;

use super::super::editor::{self, Editor};
use super::options::Options;
use super::{Call, CallDraft, Consent, Draft, Order};
use crate::decode::json::locate;
use crate::mcp::SessionNumber;
use crate::mcp::contract::{SchemaChecker, Verdict};
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
    /// Header fields, of a server at a URL.
    Fields,
    /// What else there is to say.
    Options,
    /// The arguments, of one call.
    Arguments,
}

/// The form.
#[derive(Debug)]
pub struct Form {
    /// The session.
    pub session: SessionNumber,
    /// What is known of it.
    pub draft: Draft,
    /// Whether the selected call is sent, and not the whole session.
    pub one_call: bool,
    /// The field that has the keys.
    pub field: Field,
    /// The server: a URL or a command line.
    pub target: Editor,
    /// Header fields, one a line.
    pub fields: Editor,
    /// What else there is to say, in the words of the command line.
    pub options: Editor,
    /// The arguments as JSON text.
    pub arguments: Editor,
    /// What is to be said about the arguments.
    pub remark: Remark,
    /// What has to be asked before anything is sent; the keys are its answer.
    pub asks: Vec<String>,
    /// What the last replay of the session left out, to be asked when this one is ordered.
    pub warned: Vec<String>,
    checker: SchemaChecker,
    /// The arguments as they were shown first.
    unchanged: String,
}

/// What the arguments are worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Remark {
    /// Nothing is known against them.
    #[default]
    None,
    /// They fit the schema of the tool.
    Fits,
    /// They are sent as they are, but this is to be known.
    Notice(String),
    /// They cannot be sent.
    Wrong(String),
}

impl Form {
    /// Of a session as far as it is known; `target` where it was sent somewhere before, `fields` and `options` as they were given last.
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
            checker: SchemaChecker::default(),
            unchanged: shown,
            draft,
        };
        form.check();
        form
    }

    /// Begins with the arguments that were sent last, where the same request was.
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

    /// The fields that are there, in order.
    pub fn shown(&self) -> Vec<Field> {
        let arguments = self.one_call.then_some(Field::Arguments);
        let fields = self.is_url().then_some(Field::Fields);
        let what = self.draft.call.is_some().then_some(Field::What);
        what.into_iter().chain([Field::Target]).chain(fields).chain([Field::Options]).chain(arguments).collect()
    }

    /// The field after this one, or the one before.
    pub fn turn(&mut self, by: isize) {
        let shown = self.shown();
        let at = shown.iter().position(|field| *field == self.field).unwrap_or(0) as isize;
        self.field = shown[(at + by).rem_euclid(shown.len() as isize) as usize];
    }

    /// A key, in the field that has them; true where it means that the form is done.
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

    /// Pasted text.
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

    /// The order.
    ///
    /// # Errors
    /// Something is missing or cannot be sent: what, in a sentence.
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

    /// The `params` that were made of the recorded ones; nothing where nothing was changed.
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

    /// Looks at the arguments again.
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

/// What is edited, laid out; nothing where it is too long to be.
fn shown(call: &CallDraft) -> String {
    let text = edited(call);
    let laid_out = pretty(text);
    if laid_out.len() > editor::LONGEST { String::new() } else { laid_out }
}

/// What is edited, as it was recorded.
fn edited(call: &CallDraft) -> &str {
    match call.member {
        Some(member) => {
            locate(&call.params, &format!("/{member}")).and_then(|at| call.params.get(at)).unwrap_or_default()
        }
        None => &call.params,
    }
}

fn remark(call: &CallDraft, written: &str, checker: &mut SchemaChecker) -> Remark {
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
        // It may be what somebody wants to try: it is said, and sent all the same.
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
