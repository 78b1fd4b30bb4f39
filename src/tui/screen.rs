//! The screens of the terminal UI.

mcptap_core::words! {
    /// A screen: one of the tabs, in their order, or the details of one message.
    #[derive(Default)]
    pub enum Screen {
        #[default]
        Sessions = "sessions",
        /// Messages of one session, as a list.
        Messages = "messages",
        /// The same messages as arrows.
        Sequence = "sequence",
        /// The step table: what happened on each layer.
        Layers = "layers",
        Findings = "findings",
        Statistics = "stats",
        Packets = "packets",
        Tools = "tools",
        Stderr = "stderr",
        /// A replay and its answers.
        Replay = "replay",
        /// One message in detail.
        Detail = "message",
    }
}

/// A pane of a screen that has several: the one that receives the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// The list of messages or packets.
    #[default]
    List,
    /// The connections whose packets are listed.
    Connections,
    /// The layers of a message, or the headers of a packet.
    Layers,
    Json,
    Bytes,
}

impl Focus {
    /// The panes of one message, in the order of the tab key.
    pub const DETAIL: [Focus; 4] = [Focus::List, Focus::Layers, Focus::Json, Focus::Bytes];

    /// The panes of the packets screen, in the order of the tab key.
    pub const PACKETS: [Focus; 4] = [Focus::Connections, Focus::List, Focus::Layers, Focus::Bytes];

    /// The pane that is `by` panes further in this order.
    pub fn moved(self, order: &[Focus], by: i8) -> Focus {
        let at = order.iter().position(|pane| *pane == self).unwrap_or_default() as isize;
        order[(at + by as isize).rem_euclid(order.len() as isize) as usize]
    }
}
