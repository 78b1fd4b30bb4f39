//! The screens of the terminal UI.

/// A screen: one of the tabs, or the details of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Screen {
    #[default]
    Sessions,
    /// Messages of one session, as a list.
    Messages,
    /// The same messages as arrows.
    Sequence,
    /// The step table: what happened on each layer.
    Layers,
    Findings,
    Statistics,
    Packets,
    Tools,
    Stderr,
    /// A replay and its answers.
    Replay,
    /// One message in detail.
    Detail,
}

impl Screen {
    /// All screens, in the order of the tabs and of the enum: `index` depends on it.
    pub const ALL: [Screen; 11] = [
        Screen::Sessions,
        Screen::Messages,
        Screen::Sequence,
        Screen::Layers,
        Screen::Findings,
        Screen::Statistics,
        Screen::Packets,
        Screen::Tools,
        Screen::Stderr,
        Screen::Replay,
        Screen::Detail,
    ];

    /// The name that the tabs show.
    pub fn name(self) -> &'static str {
        match self {
            Screen::Statistics => "stats",
            Screen::Detail => "message",
            Screen::Sessions => "sessions",
            Screen::Messages => "messages",
            Screen::Sequence => "sequence",
            Screen::Layers => "layers",
            Screen::Findings => "findings",
            Screen::Packets => "packets",
            Screen::Tools => "tools",
            Screen::Stderr => "stderr",
            Screen::Replay => "replay",
        }
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
