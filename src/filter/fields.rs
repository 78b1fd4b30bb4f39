//! The fields of the language: one table for the parser, completion, both evaluators
//! and the manual.

use std::fmt;

use super::path::Path;

mcptap_core::words! {
    /// The type of a field's values, with its name in messages and in the manual.
    pub enum Type {
        /// A whole number.
        Number = "number",
        /// A number of bytes.
        Size = "size",
        /// A duration in nanoseconds. A filter writes it with a unit.
        Duration = "duration",
        /// A point in time.
        Time = "time",
        /// Text without a fixed list of words.
        Text = "text",
        /// One of a fixed list of words.
        Word = "word",
        /// `true` or `false`.
        Flag = "yes or no",
        /// A JSON-RPC id: `1`, `1.0` and `"1"` are three different ids.
        Id = "id",
        /// Any JSON value.
        Json = "JSON value",
    }
}

impl Type {
    /// The operators that this type has.
    pub fn operators(self) -> &'static [&'static str] {
        match self {
            Type::Number | Type::Size | Type::Duration | Type::Time => &["=", "!=", "<", "<=", ">", ">=", "in"],
            Type::Text | Type::Id | Type::Json => &["=", "!=", "<", "<=", ">", ">=", "in", "contains", "matches"],
            Type::Word => &["=", "!=", "in", "contains", "matches"],
            Type::Flag => &["=", "!="],
        }
    }
}

/// The moment from which on the value of a field is final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settled {
    /// With the message itself.
    #[default]
    WithMessage,
    /// When the HTTP exchange of the message is over.
    WithExchange,
    /// When the capture is over: until then later messages may change the value.
    AtEnd,
}

/// The definition of a field: a row of the table [`FIELDS`].
#[derive(PartialEq, Eq)]
pub struct FieldDefinition {
    /// Identifies the field.
    pub key: FieldId,
    /// The name in a filter.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Type,
    /// All values that the field can have ([`Type::Word`]), or frequent ones to offer.
    pub values: &'static [&'static str],
    /// The moment from which on its value is final.
    pub settled: Settled,
    /// An explanation in one line, for the manual and for completion.
    pub help: &'static str,
    /// A filter that uses the field.
    pub example: &'static str,
}

impl fmt::Debug for FieldDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn field(
    key: FieldId,
    name: &'static str,
    kind: Type,
    help: &'static str,
    example: &'static str,
) -> FieldDefinition {
    FieldDefinition { key, name, kind, values: &[], settled: Settled::WithMessage, help, example }
}

impl FieldDefinition {
    const fn values(mut self, values: &'static [&'static str]) -> FieldDefinition {
        self.values = values;
        self
    }

    const fn settled(mut self, settled: Settled) -> FieldDefinition {
        self.settled = settled;
        self
    }
}

/// Methods to offer. A filter can name any other method as well.
const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "server/discover",
    "subscriptions/listen",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/resources/updated",
    "notifications/resources/list_changed",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/roots/list_changed",
];

/// Revisions to offer.
const REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

macro_rules! fields {
    ($($field:ident($($definition:expr),*) $(.$property:ident($value:expr))*;)*) => {
        /// Identifies a field of the table [`FIELDS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the table FIELDS describes each field")]
        pub enum FieldId { $($field,)* }

        /// All fields, the most useful ones first.
        pub static FIELDS: &[FieldDefinition] = &[
            $(field(FieldId::$field, $($definition),*) $(.$property($value))*,)*
        ];
    };
}

fields! {
    Method("method", Type::Text, "the method; for a response the method of its request", "method = tools/call").values(METHODS);
    Tool("tool", Type::Text, "the tool of a call, for the request and its response", "tool = get_weather");
    Kind("kind", Type::Word, "the kind of message", "kind = request").values(&["request", "notification", "response", "error", "invalid"]);
    Id("id", Type::Id, "the JSON-RPC id with its JSON type: 1 is a number, \"1\" a string", "id = 7");
    Status("status", Type::Word, "the outcome of a call, for its response; negative: the tool worked, but its data reports a failure, for example `found: false`", "status != ok").values(&["ok", "error", "tool-error", "negative"]);
    Latency("latency", Type::Duration, "the time from request to response, for the response", "latency > 200ms");
    Direction("direction", Type::Word, "the direction; c2s and s2c for short", "direction = s2c").values(&["client-to-server", "server-to-client"]);
    Number("number", Type::Number, "the message's number in the capture", "number <= 100");
    Time("time", Type::Time, "the time when its last byte was captured", "time >= 2025-11-25T14:03:20Z");
    Elapsed("elapsed", Type::Duration, "the time since the first message of the session", "elapsed < 2.5s");
    Size("size", Type::Size, "the length of its text in bytes", "size > 4KB");
    Session("session", Type::Number, "the session's number", "session = 2");
    SessionId("session_id", Type::Text, "the Mcp-Session-Id, or the session id in the URL of the SSE endpoint", "session_id contains 8b56").settled(Settled::AtEnd);
    Server("server", Type::Text, "the server's name: its own, or the one given by --name", "server = files").settled(Settled::AtEnd);
    Client("client", Type::Text, "the client's name", "client matches claude").settled(Settled::AtEnd);
    Revision("revision", Type::Text, "the protocol revision in force in the session", "revision >= 2025-06-18").values(REVISIONS).settled(Settled::AtEnd);
    Transport("transport", Type::Word, "the transport of the session", "transport = stdio").values(&["stdio", "http-sse", "streamable-http", "http", "websocket"]);
    Carrier("carrier", Type::Word, "what carried the message", "carrier = sse-event").values(&["request-body", "response-body", "sse-event", "line", "websocket-message"]);
    Host("host", Type::Text, "the server's name on the network (DNS, Host, SNI)", "host = mcp.example.com").settled(Settled::AtEnd);
    Process("process", Type::Number, "the process id of a wrapped server", "process = 4711");
    Packet("packet", Type::Number, "a packet that carried bytes of the message", "packet = 52");
    Batch("batch", Type::Number, "the number of the batch that contains it", "batch");
    Operation("operation", Type::Number, "the number of the first request of its operation, if several calls belong together", "operation = 12").settled(Settled::AtEnd);
    Answers("answers", Type::Number, "the number of the request that it responds to", "answers = 12");
    Answered("answered", Type::Flag, "whether a response was captured, for requests", "answered = false").values(&["true", "false"]).settled(Settled::AtEnd);
    Redelivered("redelivered", Type::Flag, "whether it is a second delivery, by a resumed SSE stream", "not redelivered").values(&["true", "false"]);
    Finding("finding", Type::Text, "the id of a rule that it breaks", "finding contains jsonrpc").settled(Settled::AtEnd);
    Severity("severity", Type::Word, "the severity of a finding about it", "severity = error").values(&["error", "warning", "info"]).settled(Settled::AtEnd);
    Line("line", Type::Number, "the number of its line on the pipe", "line = 3");
    SseId("sse_id", Type::Text, "the id of its server-sent event", "sse_id");
    Exchange("exchange", Type::Number, "the number of its HTTP exchange", "exchange = 5");
    HttpMethod("http.method", Type::Text, "the method of its HTTP request", "http.method = GET").values(&["POST", "GET", "DELETE"]).settled(Settled::WithExchange);
    HttpTarget("http.target", Type::Text, "the target of its HTTP request", "http.target contains /mcp").settled(Settled::WithExchange);
    HttpStatus("http.status", Type::Number, "the status of its HTTP response", "http.status >= 400").settled(Settled::WithExchange);
    IpAddr("ip.addr", Type::Text, "the client's or the server's address", "ip.addr = 127.0.0.1");
    TcpPort("tcp.port", Type::Number, "the client's or the server's port", "tcp.port = 8080");
    TcpConnection("tcp.connection", Type::Number, "the number of the TCP connection that carried its exchange", "tcp.connection = 3").settled(Settled::WithExchange);
}

/// A word that stands for a filter.
#[derive(Debug)]
pub struct Shorthand {
    /// The word in a filter.
    pub name: &'static str,
    /// The filter that it stands for.
    pub filter: &'static str,
    /// An explanation in one line, for the manual and for completion.
    pub help: &'static str,
}

/// All words that stand for filters. To search for such a word, a filter has it in quotes.
pub static SHORTHANDS: &[Shorthand] = &[
    Shorthand {
        name: "failed",
        filter: "status in {error, tool-error} or method = notifications/cancelled \
                 or (kind = request and answered = false and http.status >= 400)",
        help: "errors, tool errors, requests that HTTP refused, and cancellations",
    },
    Shorthand {
        name: "unanswered",
        filter: "kind = request and answered = false and not http.status >= 400",
        help: "requests without a response, cancelled ones too",
    },
    Shorthand {
        name: "open",
        filter: "kind = request and answered = false and not http.status >= 400",
        help: "the same as unanswered: a request is open while its session lives",
    },
    Shorthand { name: "slow", filter: "latency > 1s", help: "responses that took longer than a second" },
];

/// The beginning of the name of every header field.
pub const HEADER: &str = "http.header.";

/// A field of a message: everything that a filter can test.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A field of the table [`FIELDS`].
    Known(&'static FieldDefinition),
    /// A header field of the HTTP exchange, of the request or of the response. The name is
    /// in lower case.
    Header(String),
    /// A value inside the JSON of the message.
    Path(Path),
}

impl Field {
    /// The type of the field's values.
    pub fn kind(&self) -> Type {
        match self {
            Field::Known(definition) => definition.kind,
            Field::Header(_) => Type::Text,
            Field::Path(_) => Type::Json,
        }
    }

    /// The moment from which on the field's value is final.
    pub fn settled(&self) -> Settled {
        match self {
            Field::Known(definition) => definition.settled,
            Field::Header(_) => Settled::WithExchange,
            Field::Path(_) => Settled::WithMessage,
        }
    }

    /// All values that the field can have, or frequent ones to offer.
    pub fn values(&self) -> &'static [&'static str] {
        match self {
            Field::Known(definition) => definition.values,
            Field::Header(_) | Field::Path(_) => &[],
        }
    }

    /// An explanation in one line; empty for header fields and paths.
    pub fn help(&self) -> &'static str {
        match self {
            Field::Known(definition) => definition.help,
            Field::Header(_) | Field::Path(_) => "",
        }
    }

    /// The field of the table with this name.
    pub fn known(name: &str) -> Option<Field> {
        FIELDS.iter().find(|definition| definition.name == name).map(Field::Known)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Known(definition) => f.write_str(definition.name),
            Field::Header(name) => write!(f, "{HEADER}{name}"),
            Field::Path(path) => path.fmt(f),
        }
    }
}
