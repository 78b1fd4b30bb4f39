//! What the `mcptap` program uses of this crate, beyond its façade. Not covered by semantic versioning.
//!
//! The list is explicit, so that the compiler reports what nobody uses. `internal.txt` beside this file counts it: a test fails when it grows.

/// Packets, provenance, limits.
pub mod capture {
    pub use crate::capture::{
        Damage, Dropped, Limits, LinkType, Origin, Packet, PacketNumber, PacketRange, Part, Provenance, Span, StreamId,
        Time,
    };
    pub mod pipe {
        pub use crate::capture::pipe::*;
    }
    pub mod provenance {
        pub use crate::capture::provenance::*;
    }
}

/// Decoders.
pub mod decode {
    pub use crate::decode::{Anomaly, ConnectionId, Direction, Ending, Endpoints, Piece, Side};
    pub mod coding {
        pub use crate::decode::coding::*;
    }
    pub mod dns {
        pub use crate::decode::dns::*;
    }
    pub mod exchange {
        pub use crate::decode::exchange::*;
    }
    pub mod http {
        pub use crate::decode::http::*;
    }
    pub mod http1 {
        pub use crate::decode::http1::*;
    }
    pub mod http2 {
        pub use crate::decode::http2::*;
    }
    pub mod json {
        pub use crate::decode::json::*;
    }
    pub mod jsonrpc {
        pub use crate::decode::jsonrpc::*;
    }
    pub mod lines {
        pub use crate::decode::lines::*;
    }
    pub mod packet {
        pub use crate::decode::packet::*;
    }
    pub mod quic {
        pub use crate::decode::quic::*;
    }
    pub mod raw {
        pub use crate::decode::raw::*;
    }
    pub mod sse {
        pub use crate::decode::sse::*;
    }
    pub mod stack {
        pub use crate::decode::stack::*;
    }
    pub mod stream {
        pub use crate::decode::stream::*;
    }
    pub mod tcp {
        pub use crate::decode::tcp::*;
    }
    pub mod tls {
        pub use crate::decode::tls::*;
    }
    pub mod uri {
        pub use crate::decode::uri::*;
    }
    pub mod websocket {
        pub use crate::decode::websocket::*;
    }
}
pub mod event {
    pub use crate::event::*;
}
pub mod findings {
    pub use crate::findings::*;
}
pub mod mcp {
    pub use crate::mcp::*;
}
pub mod pipeline {
    pub use crate::pipeline::*;
}
