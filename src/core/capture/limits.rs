//! The bounds that hold over a whole capture or differ between uses, each with its reason.
//!
//! Bounds that only one file needs are constants in that file. Lost traffic is counted and shown.
//! No input can make the program hold more in memory than the bounds allow.

/// Bounds on memory and waiting times. The default suits a workstation. Tests lower them
/// to reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// TCP connections tracked at once. Above, the one that was idle longest is closed. A busy
    /// proxy has thousands. With an open request each takes some eight kilobytes.
    pub connections: usize,
    /// Bytes buffered after a hole, for one direction of a connection. A full window at 10 Gbit/s
    /// and 20 ms is 25 MB, but a hole is rarely filled after more than a few megabytes.
    pub reassembly_per_direction: usize,
    /// Bytes buffered after holes, over all connections.
    pub reassembly_total: usize,
    /// Packets of a connection after which missing bytes count as lost, if the other side
    /// acknowledged them. Links and capture tools reorder packets over far shorter distances.
    pub loss_packets: u32,
    /// Nanoseconds of capture time after which such bytes count as lost, if `loss_segments`
    /// segments arrived since.
    pub loss_time: i64,
    /// Segments of all connections that have to arrive before `loss_time` applies. Packets in a
    /// file may be out of order across a pause, and a tool drops packets because there are many.
    pub loss_segments: u32,
    /// Nanoseconds of capture time after which such bytes count as lost, however
    /// few segments arrive.
    pub loss_quiet: i64,
    /// Nanoseconds of capture time for which a connection waits for a direction that was not
    /// captured so far. Another clock may have stamped it, or another file may hold its packets.
    ///
    /// For a file there is no bound in time. In a live capture a person waits for the output.
    pub unseen_time: i64,
    /// Nanoseconds of capture time for which a closed connection is remembered, to
    /// recognise late retransmissions.
    pub linger_time: i64,
    /// Closed connections remembered at once; above, the oldest is forgotten. A busy client closes
    /// hundreds a second, and late segments arrive within a few round trips.
    pub lingering: usize,
    /// IP datagrams reassembled at once. An IPv4 datagram has at most 65,535 bytes.
    pub datagrams: usize,
    /// Bytes of an HTTP head. Servers refuse heads above 8 to 64 KiB.
    pub head: usize,
    /// Requests of one HTTP connection without a response. Clients that pipeline send tens.
    pub pipelined: usize,
    /// Bytes of one JSON-RPC message, decompressed. Images and files are sent as base64
    /// in one message.
    pub message: usize,
    /// Bytes of incomplete messages, over all connections.
    pub messages_total: usize,
    /// Decompressed bytes for each byte of a compressed body, after the first mebibyte. zlib itself
    /// cannot exceed 1,032.
    pub inflate_ratio: u64,
    /// Nesting of JSON. A deeper message is called invalid and not parsed.
    pub json_depth: usize,
    /// Members of one JSON-RPC batch.
    pub batch: usize,
    /// Requests without a response, for one session. Above, the oldest is evicted.
    pub unanswered: usize,
    /// Ids of answered requests, for one session. They distinguish a second response from one
    /// without a request.
    pub answered: usize,
    /// Ids of server-sent events, for one session. They show which events a resumed stream
    /// delivers a second time.
    pub event_ids: usize,
    /// Packet numbers listed for one exchange. A stream may stay open for days.
    pub packets_listed: usize,
    /// Connections listed for one session. A client without keep-alive opens one for each call.
    pub connections_listed: usize,
    /// Host names remembered from DNS responses.
    pub names: usize,
    /// Bytes of TLS records buffered for a connection whose secrets may still come: the bytes that
    /// a fast link transmits between two reads of the key log.
    pub sealed_per_connection: usize,
    /// Bytes of TLS records buffered over all connections. Above, the oldest
    /// connection discards its records.
    pub sealed_total: usize,
    /// Bytes of TLS records that may be decrypted in vain, over all connections, to find the
    /// secrets of connections whose ClientHello was not captured. This is some seconds of work.
    pub secrets_tried: u64,
    /// Bytes of packets buffered in memory for a connection until it is known whether it carries
    /// MCP. A store moves more of them to disk. The same bound holds for what TLS carried.
    pub undecided: usize,
    /// Stream parts that a [`Decoder`](crate::Decoder) retains for queries after decoding. Above,
    /// the oldest are discarded. A part takes about 50 bytes; a TCP segment makes about one.
    pub retained_parts: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
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
            undecided: 4 << 20,
            retained_parts: 1 << 20,
        }
    }
}

impl Limits {
    /// Bounds for a live capture: one clock stamps all packets, they are nearly in order, and a
    /// person waits for the output.
    pub fn live() -> Limits {
        let limits = Limits::default();
        Limits { unseen_time: limits.loss_time, loss_packets: 256, loss_segments: 64, ..limits }
    }

    /// Whether these are bounds for a live capture.
    pub fn is_live(&self) -> bool {
        self.unseen_time <= self.loss_time
    }
}
