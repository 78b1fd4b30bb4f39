//! Every bound on what the program keeps, each with its reason.
//!
//! What a limit drops is counted and shown; no input can make the program hold more than these allow.

/// Bounds on memory. `Limits::default()` suits a workstation; tests lower them to see them work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections followed at once; the one idle longest is given up for a new one. A busy proxy holds thousands.
    pub connections: usize,
    /// Bytes received ahead of a hole, for one direction. A full window at 10 Gbit/s and 20 ms is 25 MB; a hole is
    /// rarely filled after more than a few megabytes.
    pub reassembly_per_direction: usize,
    /// Bytes received ahead of holes, over all connections.
    pub reassembly_total: usize,
    /// Further packets of a connection after which bytes that the peer has acknowledged and nobody has seen count as lost.
    /// Reordering by links and capture tools stays far below.
    pub loss_packets: u32,
    /// Capture time, in nanoseconds, after which such bytes count as lost, where `loss_segments` were seen since.
    pub loss_time: i64,
    /// Segments of all connections without which time alone makes no loss before `loss_quiet`: packets that change places in a file may do so
    /// across a pause, and a tool that drops packets does so because there are many.
    pub loss_segments: u32,
    /// Capture time, in nanoseconds, after which such bytes count as lost however quiet it is.
    pub loss_quiet: i64,
    /// Capture time, in nanoseconds, for which a side of a connection is waited for of which nothing was seen: another clock may have told its times, or
    /// another file hold its packets. In a file as long as memory lasts; where packets come as they are captured, somebody waits for what the other
    /// side says.
    pub unseen_time: i64,
    /// Capture time, in nanoseconds, for which a closed connection is remembered, for late retransmissions.
    pub linger_time: i64,
    /// Closed connections remembered at once, those closed first forgotten first: a busy client closes hundreds a second, and
    /// what comes late comes within a round trip or a few.
    pub lingering: usize,
    /// IP datagrams being put together at once, and bytes of each: an IPv4 datagram has at most 65,535.
    pub datagrams: usize,
    /// Bytes of an HTTP head. Servers refuse between 8 and 64 KiB.
    pub head: usize,
    /// Requests of one connection that wait for their answer. Pipelining clients send tens.
    pub pipelined: usize,
    /// Bytes of one JSON-RPC message, as decoded. Images and files travel as base64 in one message.
    pub message: usize,
    /// Bytes of messages being collected, over all connections.
    pub messages_total: usize,
    /// Decoded bytes for each byte of a compressed body beyond the first mebibyte: zlib itself cannot pass 1,032.
    pub inflate_ratio: u64,
    /// Nesting of JSON: deeper is kept, called invalid and not looked into.
    pub json_depth: usize,
    /// Members of one batch.
    pub batch: usize,
    /// Unanswered requests remembered for one session, oldest forgotten first.
    pub unanswered: usize,
    /// Ids of answered requests remembered for one session, to tell a second answer from one that nobody asked for.
    pub answered: usize,
    /// Event ids remembered for one session, to recognise what a resumed stream delivers again.
    pub event_ids: usize,
    /// Packet numbers listed for one exchange: a stream may stay open for days.
    pub packets_listed: usize,
    /// Connections listed for one session: a client without keep-alive opens one for every call.
    pub connections_listed: usize,
    /// Names of servers remembered from DNS answers.
    pub names: usize,
    /// Bytes of TLS records held for a connection whose secrets may still come: what a fast link brings in the time in which a
    /// key log is looked at again.
    pub sealed_per_connection: usize,
    /// Bytes of TLS records held over all connections; the connection that was seen first gives its own up.
    pub sealed_total: usize,
    /// Bytes of TLS records that may be read in vain, over all connections, to find by trying the secrets of those whose ClientHello was not
    /// captured: some seconds of work.
    pub secrets_tried: u64,
    /// Bytes of packets held for a connection until it is known whether it carries MCP.
    pub undecided: usize,
    /// Parts of streams that a [`Decoder`](crate::Decoder) retains for queries when decoding needs them no longer, the oldest forgotten first. A part takes
    /// some 50 bytes; a TCP segment makes about one.
    pub retained_parts: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 65_536,
            reassembly_per_direction: 16 << 20,
            reassembly_total: 64 << 20,
            loss_packets: 1_024,
            loss_time: 1_000_000_000,
            loss_segments: 1_024,
            loss_quiet: 64_000_000_000,
            unseen_time: i64::MAX,
            linger_time: 10_000_000_000,
            lingering: 1_024,
            datagrams: 256,
            head: 64 << 10,
            pipelined: 4_096,
            message: 128 << 20,
            messages_total: 512 << 20,
            inflate_ratio: 2_048,
            json_depth: 512,
            batch: 16_384,
            unanswered: 65_536,
            answered: 1_024,
            event_ids: 16_384,
            packets_listed: 65_536,
            connections_listed: 65_536,
            names: 4_096,
            sealed_per_connection: 4 << 20,
            sealed_total: 64 << 20,
            secrets_tried: 4 << 30,
            undecided: 256 << 10,
            retained_parts: 1 << 20,
        }
    }
}

impl Limits {
    /// Bounds for packets that come as they are captured: one clock stamps them, they change places little, and somebody waits for what they say.
    pub fn live() -> Limits {
        let limits = Limits::default();
        Limits { unseen_time: limits.loss_time, loss_packets: 256, loss_segments: 64, ..limits }
    }

    /// Whether nothing is waited for longer than somebody who watches would.
    pub fn is_live(&self) -> bool {
        self.unseen_time <= self.loss_time
    }
}
