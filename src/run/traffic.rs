//! The traffic of a client as one source: the pipes of its STDIO servers, and its packets.

use anyhow::Result;

use super::connections::Connections;
use crate::capture::{Packet, PacketNumber};
use crate::source::attach::{ClientConnection, Counts, Taken, WatchedClient};
use crate::source::batch::Batch;
use crate::source::live::{Live, Statistics};
use crate::source::{Item, Source, now};

/// Packets of the interface that are read between two looks at the pipes.
const PACKETS: usize = 256;

/// The traffic of one client.
pub struct ClientTraffic {
    client: WatchedClient,
    live: Option<Live>,
    connections: Connections,
    ready: Batch,
    delivered: usize,
    /// Packets that were delivered.
    count: u64,
    /// The interface had nothing: look at the pipes once more before the pause is reported.
    is_idle: bool,
}

impl ClientTraffic {
    /// Joins a client and an interface. Without an interface only its pipes are recorded.
    pub fn new(client: WatchedClient, live: Option<Live>) -> ClientTraffic {
        ClientTraffic {
            client,
            live,
            connections: Connections::new(),
            ready: Batch::default(),
            delivered: 0,
            count: 0,
            is_idle: false,
        }
    }

    /// The bytes of pipes that were recorded and lost, and the counters of the interface.
    pub fn finish(mut self) -> Result<(Counts, Option<Statistics>)> {
        let statistics = self.live.as_mut().map(Live::statistics).transpose()?;
        Ok((self.client.counts(), statistics))
    }

    /// Gathers what is there, or waits for a moment.
    fn gather(&mut self) -> Result<()> {
        let ClientTraffic { client, live, connections, ready, is_idle, .. } = self;
        let read = now();
        let Taken { packets, connections: reports, is_all } = client.take();
        packets.packets().for_each(|packet| ready.push(&packet));
        for ClientConnection { time, local, remote } in reports {
            connections.claim(local, remote, time, ready);
        }
        if is_all {
            connections.expire(read);
        }
        if *is_idle {
            return Ok(());
        }
        let Some(live) = live else {
            if ready.is_empty() {
                client.wait();
                *is_idle = true;
            }
            return Ok(());
        };
        // Pipes are not to wait for the interface.
        if !ready.is_empty() && !live.has_packets() {
            return Ok(());
        }
        for _ in 0..PACKETS {
            match live.next()? {
                Some(Item::Packet(packet)) => connections.push(&packet, ready),
                _ => {
                    *is_idle = true;
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Source for ClientTraffic {
    fn next(&mut self) -> Result<Option<Item<'_>>> {
        if self.delivered == self.ready.len() {
            self.ready.clear();
            self.delivered = 0;
            self.is_idle = false;
            while self.ready.is_empty() && !self.is_idle {
                self.gather()?;
            }
            if self.ready.is_empty() {
                self.gather()?;
            }
        }
        let Some(packet) = self.ready.get(self.delivered) else { return Ok(Some(Item::Idle)) };
        self.delivered += 1;
        self.count += 1;
        Ok(Some(Item::Packet(Packet { number: PacketNumber(self.count), ..packet })))
    }

    /// Its interface never ends.
    fn stop(&mut self) -> bool {
        self.client.stop();
        false
    }
}
