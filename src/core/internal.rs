//! Names that the `mcptap` program, its tests, benches and fuzz targets use beyond the façade.
//! Semantic versioning does not cover them.
//!
//! Each name is listed, so the compiler reports unused ones. `tests/it/internal.txt` holds the same
//! list: a test fails when the two differ.

/// Packets, provenance, limits.
pub mod capture {
    pub use crate::capture::{
        Damage, Dropped, Limits, LinkType, Origin, Packet, PacketNumber, PacketRange, Provenance, Span, StreamId,
        StreamPart, Time,
    };
    pub mod above_tls {
        pub use crate::capture::above_tls::{ends, process};
    }
    pub mod pipe {
        pub use crate::capture::pipe::{Exit, FIRST_IMPORTED, HEAD, Pipe, PipeEvent, Start, decode, encode};
    }
    pub mod pipe_record {
        pub use crate::capture::pipe_record::{ENTERPRISE, LinePiece, LinesRecord, MOST_PIECES, PacketRecord};
    }
    pub mod provenance {
        pub use crate::capture::provenance::clip;
    }
}

/// Decoders, one protocol a module.
pub mod decode {
    pub use crate::decode::{Anomaly, ConnectionId, Direction, Ending, Endpoints, Piece, Side};
    pub mod coding {
        pub use crate::decode::coding::{Coding, names};
    }
    pub mod exchange {
        pub use crate::decode::exchange::{Exchange, ExchangeNumber, Fields, Half};
    }
    pub mod http {
        pub use crate::decode::http::{Head, HttpEvent, StartLine, is_secret, secrets_of_field, secrets_of_target};
    }
    pub mod http1 {
        pub use crate::decode::http1::Http1;
    }
    pub mod http2 {
        pub use crate::decode::http2::Http2;
    }
    pub mod json {
        pub use crate::decode::json::{
            BLANK, Index, Object, array, closing_quote, elements, is_json, locate, member, members, string,
            string_equals,
        };
    }
    pub mod jsonrpc {
        pub use crate::decode::jsonrpc::{Envelope, InvalidText, JsonRpcText, Kind, parse, parse_raw};
    }
    pub mod lines {
        pub use crate::decode::lines::Lines;
    }
    pub mod mask {
        pub use crate::decode::mask::{MASK, Mask, MaskKey, is_masked};
    }
    pub mod packet {
        pub use crate::decode::packet::{Decoded, Header, Packets, headers};
    }
    pub mod raw {
        pub use crate::decode::raw::Raw;
    }
    pub mod redact {
        pub use crate::decode::redact::{JsonPath, Redaction, RedactionRules, START, has_replacement};
    }
    pub mod secrets {
        pub use crate::decode::secrets::{in_text, in_uri, masked, masked_uri, union};
    }
    pub mod sse {
        pub use crate::decode::sse::{Sse, SseEvent};
    }
    pub mod stack {
        pub use crate::decode::stack::{StackOptions, Stacks};
    }
    pub mod stream {
        pub use crate::decode::stream::StreamKind;
    }
    pub mod tcp {
        pub use crate::decode::tcp::{
            Analysis, Delivery, End, Facts, Flags, HandshakePacket, Segment, SegmentFact, Sink, SynOptions, Tcp,
        };
    }
    pub mod tls {
        pub use crate::decode::tls::{Agreed, RecordGroup, RecordGroupKind};
        pub mod keylog {
            pub use crate::decode::tls::keylog::KeyLog;
        }
    }
    pub mod uri {
        pub use crate::decode::uri::{authority, host_name, origin_form, resolved, split_scheme};
    }
}

/// Events of the pipeline.
pub mod event {
    pub use crate::event::{Connection, ConnectionKind, Detail, Event, Segment, Stream, StreamKind};
}

/// Rules and what breaks them.
pub mod findings {
    pub use crate::findings::{Finding, Rule, Severity, all, rule};
    pub mod baseline {
        pub use crate::findings::baseline::{Drift, compare};
    }
    pub mod manual {
        pub use crate::findings::manual::revisions;
    }
    pub mod transport {
        pub use crate::findings::transport::not_kept;
    }
}

/// Messages, sessions, and what the specification says of them.
pub mod mcp {
    pub use crate::mcp::{
        Carrier, Message, MessageNumber, Note, Outcomes, Party, Peers, Revision, Session, SessionNumber, Transport,
    };
    pub mod capability {
        pub use crate::mcp::capability::{Capabilities, Capability, Declarer};
    }
    pub mod contract {
        pub use crate::mcp::contract::{SchemaChecker, TOOLS, Verdict};
    }
    pub mod content {
        pub use crate::mcp::content::{Status, body, part, status, tool};
    }
    pub mod link {
        pub use crate::mcp::link::{Link, Why};
    }
    pub mod meta {
        pub use crate::mcp::meta::{
            CAPABILITIES, CLIENT, LOG_LEVEL, PREFIX, RELATED_TASK, SERVER, SUBSCRIPTION, VERSION,
        };
    }
    pub mod method {
        pub use crate::mcp::method::Method;
    }
    pub mod note {
        pub use crate::mcp::note::{Failure, HttpNote, NoteKind, WaitEnd};
    }
    pub mod revision {
        pub use crate::mcp::revision::{Revision, Revisions};
    }
    pub mod shape {
        pub use crate::mcp::shape::{Mismatch, MismatchKind, Role, check, check_definition, defines_method};
    }
    pub mod trace {
        pub use crate::mcp::trace::TraceParent;
    }
}

/// Packets to events.
pub mod pipeline {
    pub use crate::pipeline::{
        BLANKED, Connections, Counts, Input, Judge, Observation, Pipeline, PipelineConfig, Sessions, Tracked,
    };
}

/// Bodies of the fuzz targets.
pub mod fuzz {
    pub use crate::decode::coding::fuzz_coding;
    pub use crate::decode::dns::fuzz_dns;
    pub use crate::decode::http1::fuzz_http1;
    pub use crate::decode::http2::{fuzz_hpack, fuzz_http2};
    pub use crate::decode::jsonrpc::fuzz_jsonrpc;
    pub use crate::decode::lines::fuzz_lines;
    pub use crate::decode::packet::fuzz_packet;
    pub use crate::decode::sse::fuzz_sse;
    pub use crate::decode::tcp::fuzz_tcp;
    pub use crate::decode::tls::{fuzz_keylog, fuzz_tls};
    pub use crate::decode::websocket::fuzz_websocket;
    pub use crate::mcp::shape::fuzz_shape;
    pub use crate::pipeline::{Observed, fuzz_packets, fuzz_schema, fuzz_stack, scripted};
}
