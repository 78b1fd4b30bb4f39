//! Made-up connections for exchanges.
//!
//! Sessions without an id are told apart by their connections. So exchanges of the same connection
//! share one here too, if they follow one another. HTTP/1.1 has no others: those that overlap, as
//! over HTTP/2, get a connection each.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::SentPiece;
use crate::capture::Time;
use crate::source::imports::ImportBuilder;
use crate::source::tape::{ACK, CLOSING, Flow, OPENING, PSH, SEGMENT};

/// The first port of clients (RFC 6335 section 6: dynamic ports).
const FIRST_PORT: u16 = 49_152;

/// A connection, and the time of its last byte.
type MadeConnection = (Flow, Time);

/// The connections that are open, by their names in the archive and their servers.
#[derive(Default)]
pub(super) struct MadeConnections {
    open: BTreeMap<(String, SocketAddr), MadeConnection>,
    opened: usize,
}

impl MadeConnections {
    /// Adds an exchange: what each side sent. `is_last` ends its connection.
    pub(super) fn exchange(
        &mut self,
        name: Option<&str>,
        server: SocketAddr,
        sent: &[SentPiece],
        is_last: bool,
        builder: &mut ImportBuilder,
    ) {
        let (Some((first, ..)), Some((last, ..))) = (sent.first(), sent.last()) else { return };
        let key = name.map(|name| (name.to_owned(), server));
        let mut flow = match key.as_ref().and_then(|key| self.open.remove(key)) {
            Some((flow, until)) if until <= *first => flow,
            other => {
                if let Some(connection) = other {
                    close(connection, builder);
                }
                self.opened(server, *first, builder)
            }
        };
        for (time, is_client, bytes) in sent {
            for chunk in bytes.chunks(SEGMENT) {
                builder.segment(&mut flow, *time, usize::from(!is_client), PSH | ACK, chunk);
            }
        }
        match key.filter(|_| !is_last) {
            Some(key) => _ = self.open.insert(key, (flow, *last)),
            None => close((flow, *last), builder),
        }
    }

    fn opened(&mut self, server: SocketAddr, time: Time, builder: &mut ImportBuilder) -> Flow {
        let ports = usize::from(u16::MAX - FIRST_PORT) + 1;
        let port = FIRST_PORT + (self.opened % ports) as u16;
        self.opened += 1;
        let address: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let mut flow = Flow::new(SocketAddr::new(address, port), server);
        for (sender, flags) in OPENING {
            builder.segment(&mut flow, time, sender, flags, b"");
        }
        flow
    }

    /// Ends all connections.
    pub(super) fn close(self, builder: &mut ImportBuilder) {
        self.open.into_values().for_each(|connection| close(connection, builder));
    }
}

fn close((mut flow, time): MadeConnection, builder: &mut ImportBuilder) {
    for (sender, flags) in CLOSING {
        builder.segment(&mut flow, time, sender, flags, b"");
    }
}
