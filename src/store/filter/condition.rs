//! A filter as an SQL condition.
//!
//! The condition is about one table, `message`, and reaches the others through subqueries. So it
//! can be part of any query over that table. Comparisons that SQLite can make are made by SQLite,
//! with its indexes. Everything else (regular expressions, paths, ids, searches) is a call of the
//! function [`FUNCTION`] with two arguments: a value, and the term of the filter as text. The
//! function parses and evaluates the term with the same code as a filter on a stream.

use rusqlite::types::Value as Parameter;

use crate::filter::fields::{Field, FieldId, Type};
use crate::filter::{Comparison, Expr, Filter, Test, Value};

/// The name of the SQL function: `mcptap_filter(value, term)`.
pub(super) const FUNCTION: &str = "mcptap_filter";

/// The name of the same function for a `message_text.text`, which may be
/// compressed: `mcptap_text(text, term)`.
pub(super) const TEXT_FUNCTION: &str = "mcptap_text";

/// A condition for `WHERE`.
pub(in crate::store) struct Condition {
    /// The SQL text. It is true, false or NULL for a message, and NULL means false. Its parameters
    /// are numbered (`?1`), so that it can be combined with others.
    pub sql: String,
    /// The number of the first parameter.
    first: usize,
    /// The parameters in order of their numbers.
    pub parameters: Vec<Parameter>,
}

/// The location of a field in the store.
enum Column {
    /// An expression with one value, or NULL.
    One(&'static str),
    /// An expression: the position of one of the field's words, counted from this number.
    Word(&'static str, usize),
    /// A query of one column called `value`, with any number of rows.
    Many(&'static str),
    /// The same, where the field is a part of each value. The SQL function extracts it.
    Inside(&'static str),
}

/// The message's text as it is stored. Most texts are short, and copying each would cost more
/// than searching it.
const TEXT: &str = "(SELECT text FROM message_text WHERE message_text.id = message.id)";

/// Header fields of one name. The name, in lower case, follows as a parameter. SQLite's `lower`
/// folds only ASCII, which is right for header names.
const HEADERS: &str = "SELECT value ->> 1 AS value FROM (\
     SELECT value FROM exchange, json_each(request_fields) \
     WHERE exchange.id = message.capture << 40 | message.exchange \
     UNION ALL \
     SELECT value FROM exchange, json_each(response_fields) \
     WHERE exchange.id = message.capture << 40 | message.exchange) \
     WHERE lower(value ->> 0) =";

/// Both addresses of a session, each with its port.
const ADDRESSES: &str = "SELECT client_address AS value FROM session WHERE id = message.session \
     UNION ALL SELECT server_address FROM session WHERE id = message.session";

/// The location of each field: the only function that refers to the tables.
fn column(key: FieldId) -> Column {
    match key {
        FieldId::Method => Column::One("message.method"),
        FieldId::Tool => Column::One("CASE message.method WHEN 'tools/call' THEN message.subject END"),
        FieldId::Kind => Column::Word("message.kind", 0),
        FieldId::Id => Column::One("message.json_id"),
        // The store notes a response's status and latency on its request too. A stream
        // cannot do that.
        FieldId::Status => Column::Word("CASE WHEN message.kind IN (2, 3) THEN message.status END", 1),
        FieldId::Latency => Column::One("CASE WHEN message.kind IN (2, 3) THEN message.latency END"),
        FieldId::Direction => Column::Word("message.direction", 0),
        FieldId::Number => Column::One("message.number"),
        FieldId::Time => Column::One("message.time"),
        FieldId::Elapsed => Column::One("message.time - (SELECT started FROM session WHERE id = message.session)"),
        FieldId::Size => Column::One("message.size"),
        FieldId::Session => Column::One("message.session"),
        FieldId::SessionId => Column::One("(SELECT session_id FROM session WHERE id = message.session)"),
        FieldId::Server => Column::Many(
            "SELECT server_name AS value FROM session WHERE id = message.session \
             UNION ALL SELECT process_name FROM session WHERE id = message.session",
        ),
        FieldId::Client => Column::One("(SELECT client_name FROM session WHERE id = message.session)"),
        FieldId::Revision => Column::One("(SELECT protocol_version FROM session WHERE id = message.session)"),
        FieldId::Transport => Column::Word("message.transport", 0),
        FieldId::Carrier => Column::Word("message.carrier", 0),
        FieldId::Host => Column::One("(SELECT host FROM session WHERE id = message.session)"),
        FieldId::Process => Column::One("(SELECT process FROM session WHERE id = message.session)"),
        FieldId::Packet => Column::Many("SELECT value FROM json_each(numbers(message.packets))"),
        FieldId::Batch => Column::One("message.batch"),
        // The first request of an operation is not linked, and neither is its response.
        FieldId::Operation => Column::One(
            "(coalesce((SELECT operation FROM link WHERE link.message = message.id), \
             (SELECT operation FROM link WHERE link.operation = message.id), \
             (SELECT operation FROM link WHERE link.operation = message.capture << 40 | message.answers)) & 0xFFFFFFFFFF)",
        ),
        FieldId::Answers => Column::One("message.answers"),
        FieldId::Answered => Column::One("CASE message.kind WHEN 0 THEN message.answered_by IS NOT NULL END"),
        FieldId::Redelivered => Column::One("message.redelivered"),
        FieldId::Finding => Column::Many(
            "SELECT rule AS value FROM finding_message JOIN finding ON finding.id = finding_message.finding \
             WHERE finding_message.message = message.id",
        ),
        FieldId::Severity => Column::Many(
            "SELECT CASE finding_message.severity WHEN 0 THEN 'info' WHEN 1 THEN 'warning' ELSE 'error' END AS value \
             FROM finding_message WHERE finding_message.message = message.id",
        ),
        FieldId::Line => Column::One("message.line"),
        FieldId::SseId => Column::One("message.sse_id"),
        FieldId::Exchange => Column::One("message.exchange"),
        FieldId::HttpMethod => {
            Column::One("(SELECT method FROM exchange WHERE id = message.capture << 40 | message.exchange)")
        }
        FieldId::HttpTarget => {
            Column::One("(SELECT target FROM exchange WHERE id = message.capture << 40 | message.exchange)")
        }
        FieldId::HttpStatus => {
            Column::One("(SELECT status FROM exchange WHERE id = message.capture << 40 | message.exchange)")
        }
        FieldId::TcpConnection => Column::One(
            "(SELECT connection & 0xFFFFFFFFFF FROM exchange WHERE id = message.capture << 40 | message.exchange)",
        ),
        FieldId::IpAddr | FieldId::TcpPort => Column::Inside(ADDRESSES),
    }
}

impl Condition {
    /// The condition that is true for exactly the messages that match the filter. Its parameters
    /// are numbered from `first` on.
    pub fn new(filter: &Filter, first: usize) -> Condition {
        let mut condition = Condition { sql: String::new(), first, parameters: Vec::new() };
        condition.expression(filter.expression());
        condition
    }

    /// A condition on `message_text` that every matching message fulfils: one of the words that the
    /// filter searches for. With it the texts are searched first, and the rest of the filter is
    /// evaluated for the few messages with that word.
    pub fn of_text(filter: &Filter, first: usize) -> Option<Condition> {
        let expression = filter.expression();
        let word = match expression {
            Expr::Text(_) => expression,
            Expr::All(terms) => terms.iter().find(|term| matches!(term, Expr::Text(_)))?,
            _ => return None,
        };
        let mut condition = Condition { sql: String::new(), first, parameters: Vec::new() };
        condition.function(TEXT_FUNCTION, "message_text.text", word);
        Some(condition)
    }

    fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    fn bind(&mut self, value: Parameter) {
        let number = self.first + self.parameters.len();
        self.push(&format!("?{number}"));
        self.parameters.push(value);
    }

    /// NULL has to act as false. Under AND, OR and in WHERE it does so by itself, under NOT by
    /// means of `IS NOT TRUE`.
    fn expression(&mut self, expression: &Expr) {
        match expression {
            Expr::All(terms) if terms.is_empty() => self.push("TRUE"),
            Expr::Any(terms) if terms.is_empty() => self.push("FALSE"),
            Expr::All(terms) => self.joined(terms, " AND "),
            Expr::Any(terms) => self.joined(terms, " OR "),
            Expr::Not(term) => {
                self.push("(");
                self.expression(term);
                self.push(") IS NOT TRUE");
            }
            Expr::Text(_) | Expr::Has(Field::Path(_)) | Expr::Test(Field::Path(_), _) => {
                self.function(TEXT_FUNCTION, TEXT, expression)
            }
            Expr::Has(Field::Header(name)) => self.exists(HEADERS, Some(name), Condition::present),
            Expr::Has(Field::Known(entry)) => match column(entry.key) {
                Column::One(value) | Column::Word(value, _) => self.push(&format!("{value} IS NOT NULL")),
                Column::Many(query) | Column::Inside(query) => self.exists(query, None, Condition::present),
            },
            Expr::Test(field @ Field::Header(name), test) => self.any(HEADERS, Some(name), field, test, false),
            Expr::Test(field @ Field::Known(entry), test) => match column(entry.key) {
                Column::One(value) => self.test(value, field, test, entry.kind == Type::Id),
                Column::Word(value, first) => {
                    let words = entry.values.iter().enumerate();
                    let passing = words.filter(|(_, word)| test.passes_word(word));
                    let codes: Vec<String> = passing.map(|(position, _)| (position + first).to_string()).collect();
                    self.push(&format!("{value} IN ({})", codes.join(", ")));
                }
                Column::Many(query) => self.any(query, None, field, test, false),
                Column::Inside(query) => self.any(query, None, field, test, true),
            },
        }
    }

    fn joined(&mut self, terms: &[Expr], word: &str) {
        self.push("(");
        for (position, term) in terms.iter().enumerate() {
            if position > 0 {
                self.push(word);
            }
            self.expression(term);
        }
        self.push(")");
    }

    fn exists(&mut self, query: &str, name: Option<&String>, test: impl FnOnce(&mut Condition)) {
        self.push(&format!("EXISTS (SELECT 1 FROM ({query} "));
        if let Some(name) = name {
            self.bind(Parameter::Text(name.clone()));
        }
        self.push(") WHERE ");
        test(self);
        self.push(")");
    }

    fn present(&mut self) {
        self.push("value IS NOT NULL");
    }

    /// At least one of many values passes. The test "differs" means: there is a value, and none
    /// equals this one.
    fn any(&mut self, query: &str, name: Option<&String>, field: &Field, test: &Test, inside: bool) {
        if let Test::Compare(Comparison::NotEqual, other) = test {
            let equal = Test::Compare(Comparison::Equal, other.clone());
            self.push("(");
            self.exists(query, name, Condition::present);
            self.push(" AND NOT ");
            self.exists(query, name, |condition| condition.test("value", field, &equal, inside));
            self.push(")");
        } else {
            self.exists(query, name, |condition| condition.test("value", field, test, inside));
        }
    }

    /// One value passes. SQL makes the test if it can and need not look `inside` the value.
    fn test(&mut self, value: &str, field: &Field, test: &Test, inside: bool) {
        match test {
            Test::Compare(comparison, other) if !inside => {
                self.push(&format!("{value} {} ", comparison.name()));
                self.value(other);
            }
            Test::In(others) if !inside => {
                self.push(&format!("{value} IN ("));
                for (position, other) in others.iter().enumerate() {
                    self.push(if position == 0 { "" } else { ", " });
                    self.value(other);
                }
                self.push(")");
            }
            Test::Contains(part) if !inside => {
                self.push(&format!("instr({value}, "));
                self.bind(Parameter::Text(part.clone()));
                self.push(") > 0");
            }
            _ => self.function(FUNCTION, value, &Expr::Test(field.clone(), test.clone())),
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Integer(number) => self.bind(Parameter::Integer(*number)),
            Value::Flag(flag) => self.bind(Parameter::Integer((*flag).into())),
            Value::Text(text) => self.bind(Parameter::Text(text.clone())),
            // Ids and paths are tested by the function.
            Value::Json(_) => self.push("NULL"),
        }
    }

    fn function(&mut self, name: &str, value: &str, term: &Expr) {
        self.push(&format!("{name}({value}, "));
        self.bind(Parameter::Text(term.to_string()));
        self.push(")");
    }
}
