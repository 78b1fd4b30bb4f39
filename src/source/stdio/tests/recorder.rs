//! Recorders that lag, fail, crash or hang affect the record, never the traffic.

use super::*;

/// Runs a recorder that begins only after 64 MB have passed in each direction. The server ends when
/// the recorder has taken `awaited` bytes. Returns its record and the report.
fn lag(folder: &Path, awaited: u64) -> (WrapReport, Vec<OwnedContent>) {
    let (caught_up, wait) = channel::<()>();
    let taken = Arc::<AtomicU64>::default();
    let mut server = start_beside(folder, cat(), |result| {
        let taken = Arc::clone(&taken);
        move |observations| {
            let _ = wait.recv_timeout(PATIENCE);
            keep_all_counted(result, &taken)(observations)
        }
    });
    let mut stdin = server.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let piece = [b'x'; 1 << 16];
        (0..LAG / piece.len()).for_each(|_| stdin.write_all(&piece).unwrap());
        stdin.write_all(b"\n").unwrap();
        stdin
    });
    assert_eq!(server.read(LAG + 1).last(), Some(&b'\n'), "one line of 64 MB");
    let mut stdin = joined(writer, "a line to be written");
    drop(caught_up);
    // After a loss the recorder makes room again at some time. Bytes that pass then are recorded
    // after the gap.
    for _ in 0..LATER {
        stdin.write_all(b"later\n").unwrap();
        server.read(6);
    }
    until("the recorder to catch up", || taken.load(Ordering::Relaxed) >= awaited);
    drop(stdin);
    server.finish()
}

const LAG: usize = 64 << 20;
const LATER: usize = 1_000;

#[test]
fn a_recorder_that_lags_loses_nothing_where_there_is_a_disk() {
    let (outcome, record) = lag(&std::env::temp_dir(), 2 * (LAG + 1 + 6 * LATER) as u64);
    assert_eq!(outcome, WrapReport { exit: exited(0), unrecorded: None });
    for of in [Pipe::Stdin, Pipe::Stdout] {
        let bytes = bytes_of(&record, of);
        assert_eq!(bytes.len(), LAG + 1 + 6 * LATER, "{of:?}");
        assert!(bytes[LAG + 1..] == *b"later\n".repeat(LATER), "{of:?}");
    }
}

#[test]
fn a_recorder_that_lags_without_a_disk_loses_bytes_of_the_record_only_and_the_record_says_so() {
    let (outcome, record) = lag(Path::new("/nowhere"), 0);
    assert_eq!(outcome.exit, exited(0));
    assert!(outcome.unrecorded.unwrap().starts_with("recording: the recorder did not keep up; "));
    for of in [Pipe::Stdin, Pipe::Stdout] {
        let lost: u64 = record
            .iter()
            .map(
                |seen| {
                    if let OwnedContent::Lost(pipe, bytes) = seen { if *pipe == of { *bytes } else { 0 } } else { 0 }
                },
            )
            .sum();
        assert!(lost > 0);
        let recorded = bytes_of(&record, of).len() as u64;
        assert_eq!(recorded + lost, (LAG + 1 + 6 * LATER) as u64, "{of:?}");
    }
}

#[test]
fn a_recorder_that_fails_crashes_or_hangs_costs_only_the_record() {
    /// Returns the line on stderr that came during the life of the server, if one is expected then,
    /// and the report at the end.
    fn outcome<R>(at_once: bool, record: R) -> (String, Option<String>)
    where
        R: FnOnce(Observations) -> anyhow::Result<()> + Send + 'static,
    {
        let mut server = start_with(shell("cat; exit 7"), |_| record);
        for _ in 0..3 {
            server.write(b"hello\n");
            assert_eq!(server.read(6), b"hello\n");
        }
        let mut line = String::new();
        if at_once {
            BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        }
        server.stdin = None;
        let outcome = server.outcome();
        assert_eq!(outcome.exit, exited(7));
        (line, outcome.unrecorded)
    }
    let (line, unrecorded) = outcome(true, |_| anyhow::bail!("disk full"));
    assert_eq!((line.as_str(), unrecorded), ("mcptap: recording: disk full; nothing is recorded\n", None));
    // Like a panic, but without the backtrace, which would take time to print.
    let (line, unrecorded) = outcome(true, |_| std::panic::resume_unwind(Box::new(format!("boom {}", 1))));
    let crashed = "mcptap: recording: the recorder crashed (boom 1); nothing is recorded\n";
    assert_eq!((line.as_str(), unrecorded), (crashed, None));
    let (_, unrecorded) = outcome(false, |mut observations| {
        while observations.next()?.is_some() {}
        anyhow::bail!("disk full")
    });
    assert_eq!(unrecorded.as_deref(), Some("recording: disk full; 36 bytes passed unrecorded"));
    let (_, unrecorded) = outcome(false, |_| {
        loop {
            thread::park();
        }
    });
    assert_eq!(unrecorded.as_deref(), Some("recording: the recorder did not end; 36 bytes passed unrecorded"));
}
