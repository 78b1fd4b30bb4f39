//! Gathering: a short pause while readers are still busy with earlier chunks.
//!
//! Peers that send without waiting for responses write small pieces, and each piece wakes mcptap.
//! Passing a piece to a reader that has not read the pieces before it makes nothing faster. It only
//! takes processor time from the peers when they want all processors. So mcptap pauses for a moment
//! and then passes more bytes at once.

use std::thread;
use std::time::Duration;

use super::lane::Lane;

/// The length of the pause, to which the kernel may add as much again (prctl(2), timer slack). It
/// is about the time in which a busy reader reads its unread messages.
const MOMENT: Duration = Duration::from_micros(50);

/// Decides whether to pause before reading.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// The lanes that had something to read the last time.
    before: [bool; 3],
}

impl Gather {
    /// Pauses if every lane that is ready may gather more bytes.
    pub(super) fn pause(&mut self, lanes: &[Lane; 3], ready: [bool; 3]) {
        if self.may_pause(lanes, ready) {
            thread::sleep(MOMENT);
        }
    }

    fn may_pause(&mut self, lanes: &[Lane; 3], ready: [bool; 3]) -> bool {
        // If each message waits for a response, the lanes take turns. Then the readers need
        // not be examined.
        let again = self.before.iter().zip(ready).any(|(before, ready)| *before && ready);
        self.before = ready;
        again && lanes.iter().zip(ready).all(|(lane, ready)| !ready || lane.may_gather())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

    use super::*;
    use crate::capture::pipe::Pipe;

    const STDIN: [bool; 3] = [true, false, false];
    const STDOUT: [bool; 3] = [false, true, false];
    const STDERR: [bool; 3] = [false, false, true];
    const BOTH: [bool; 3] = [true, true, false];

    /// A lane between two pipes, and their other ends: the writer's and the reader's. The reader
    /// has `unread` bytes to read.
    fn lane(unread: usize) -> (Lane, PipeWriter, PipeReader) {
        let ((from, writer), (reader, mut to)) = (pipe().unwrap(), pipe().unwrap());
        to.write_all(&vec![b'x'; unread]).unwrap();
        (Lane::new(Pipe::Stdin, from.into(), to.into()), writer, reader)
    }

    #[test]
    fn peers_that_send_on_while_readers_are_busy_are_left_alone() {
        let lanes = [20_000, 100, 20_000].map(lane);
        let [(stdin, mut writer, _reader), (stdout, ..), (stderr, _writer, mut reader)] = lanes;
        let (lanes, mut gather) = ([stdin, stdout, stderr], Gather::default());
        let mut may_pause = |ready| gather.may_pause(&lanes, ready);
        writer.write_all(b"a message\n").unwrap();
        assert!(!may_pause(STDIN), "the first");
        assert!(may_pause(STDIN), "it sends on");
        assert!(!may_pause(BOTH), "the reader of the other would wait");
        assert!(!may_pause(STDOUT), "the same");
        assert!(!may_pause(STDIN) && !may_pause(STDOUT) && !may_pause(STDIN), "they take turns");
        assert!(may_pause(STDIN));
        writer.write_all(&[b'x'; 32 << 10]).unwrap();
        assert!(!may_pause(STDIN), "the writer might soon have no room");
        assert!(!may_pause(STDERR) && may_pause(STDERR));
        reader.read_exact(&mut [0; 4_000]).unwrap();
        assert!(!may_pause(STDERR), "the reader may soon have nothing");
    }
}
