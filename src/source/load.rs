//! The load of the processors: whether one is free for mcptap.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which the load of the processors is read.
const ASK: Duration = Duration::from_millis(10);

/// The number of processors, and the number of threads that want one.
#[derive(Debug)]
pub(super) struct Load {
    file: File,
    processors: usize,
    /// The last result and its time.
    spare: Option<(Instant, bool)>,
}

impl Load {
    /// `None` if no processor can be spared: there is only one, or the load is unknown.
    pub(super) fn new() -> Option<Load> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let file = (processors > 1).then(|| File::open("/proc/loadavg").ok()).flatten()?;
        Some(Load { file, processors, spare: None })
    }

    /// The load of this many processors, from a file like `/proc/loadavg`.
    #[cfg(test)]
    pub(super) fn with(file: File, processors: usize) -> Load {
        Load { file, processors, spare: None }
    }

    /// Whether every thread that wants to run has a processor, this one included.
    pub(super) fn has_idle_processor(&mut self, now: Instant) -> bool {
        if let Some((asked, spare)) = self.spare
            && now.duration_since(asked) < ASK
        {
            return spare;
        }
        let spare = self.running().is_some_and(|running| running <= self.processors);
        self.spare = Some((now, spare));
        spare
    }

    /// Threads that run or could run: the number before the slash in the fourth word (proc(5)).
    fn running(&self) -> Option<usize> {
        let mut text = [0; 64];
        let length = self.file.read_at(&mut text, 0).ok()?;
        let word = str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(3)?;
        word.split_once('/')?.0.parse().ok()
    }
}
