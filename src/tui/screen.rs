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
