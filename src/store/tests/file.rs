//! Tests of the file: ownership, access rights, and its content after failures.

use std::time::Duration;

use super::*;
use crate::capture::{Origin, StreamPart};
use crate::findings::Severity;
use crate::support::waits::{Meeting, until, until_some};

fn count(path: &Path) -> u64 {
    StoreReader::open(path).unwrap().message_count(Scope::All).unwrap()
}

fn refusal(path: &Path) -> String {
    let reader = StoreReader::open(path).err().expect("no reader").to_string();
    let writer = Writer::create(path, &info(), WriteOptions::default()).err().expect("no writer").to_string();
    assert_eq!(reader, writer);
    reader
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let directory = directory();
    let text = directory.path().join("text.db");
    std::fs::write(
        &text,
        "not a database, but as long as the head of one would be: one hundred bytes at the very least, or more",
    )
    .unwrap();
    assert!(refusal(&text).contains("is not a database"), "{}", refusal(&text));

    let foreign = directory.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE bookmark (url TEXT)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    assert!(refusal(&foreign).contains("of another program"));
    assert_eq!(std::fs::read(&foreign).unwrap(), before);

    let newer = directory.path().join("newer.db");
    drop(writer(&newer));
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 1_000).unwrap();
    assert!(refusal(&newer).contains("newer mcptap (version 1000, this one knows 7)"), "{}", refusal(&newer));
}

#[test]
fn a_file_of_version_1_is_brought_up_to_date_by_whoever_opens_it() {
    let directory = directory();
    let path = directory.path().join("old.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../schema.sql")).unwrap();
    old.pragma_update(None, "application_id", i32::from_be_bytes(*b"MCPT")).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute_batch(
        "INSERT INTO capture (kind, source, process, started, last_alive) VALUES (0, 'trace.pcapng', 4711, 7, 7);
         INSERT INTO rule VALUES ('tcp-gap', 1, 'bytes are missing', 'RFC 9293 3.4');
         INSERT INTO finding (capture, rule, text, messages, packets) VALUES (1, 'tcp-gap', 'twelve bytes', x'', x'00');
         INSERT INTO stream (id, connection, kind, which) VALUES (1 << 40 | 1, 1 << 40 | 1, 0, 0);
         INSERT INTO part VALUES (1 << 40 | 1, 0, x'000c00');
         INSERT INTO session (capture, number) VALUES (1, 1), (1, 2);
         INSERT INTO session_connection VALUES (1, 1, 1 << 40 | 1), (1, 2, 1 << 40 | 2), (2, 1, 1 << 40 | 2);",
    )
    .unwrap();
    // Connection 1 carries session 1 alone, connection 2 carries both, connection 3 none.
    for (exchange, connection) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
        let half = "x'000000000000000000'";
        let row = format!("1 << 40 | {exchange}, 1 << 40 | {connection}, '1.1', '[]', '[]', {half}, {half}");
        let columns = "id, connection, http_version, request_fields, response_fields, request, response";
        old.execute_batch(&format!("INSERT INTO exchange ({columns}) VALUES ({row})")).unwrap();
    }
    old.execute_batch(
        "INSERT INTO message
             (id, session, position, time, transport, direction, kind, status, size, carrier, exchange, redelivered, stream,
              span_start, span_end, packets)
         VALUES (1 << 40 | 1, 1, 1, 7, 1, 0, 0, 0, 2, 1, 1, 0, 1, 0, 2, x''),
             (1 << 40 | 2, 2, 1, 7, 1, 0, 0, 0, 2, 1, 3, 0, 1, 0, 2, x'')",
    )
    .unwrap();
    drop(old);

    let reader = StoreReader::open(&*path).unwrap();
    let findings = reader.findings(Scope::All, Page::first(9)).unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].text.as_str(), findings[0].repeated), ("twelve bytes", 0));
    assert_eq!(findings[0].severity, Severity::Warning, "as bad as its rule");
    let parts = reader.parts(CaptureId(1), Span { stream: StreamId(1), start: 0, end: 99 }).unwrap();
    assert_eq!(parts, [StreamPart { start: 0, end: 12, origin: Origin::Missing }]);
    let exchanges = |session| -> Vec<u64> {
        let exchanges = reader.exchanges(SessionNumber(session), Page::first(9)).unwrap();
        exchanges.iter().map(|exchange| exchange.number.0).collect()
    };
    assert_eq!([exchanges(1), exchanges(2)], [vec![1, 2], vec![3]], "of their messages, or of their connection");

    drop(writer(&path));
    let newest: i64 = rusqlite::Connection::open(&path)
        .and_then(|db| db.pragma_query_value(None, "user_version", |row| row.get(0)))
        .unwrap();
    assert_eq!(newest, 7);
}

#[test]
fn an_absent_or_empty_file_has_nothing_to_read() {
    let directory = directory();
    let path = directory.path().join("absent.db");
    assert!(StoreReader::open(&*path).is_err());
    std::fs::write(&path, "").unwrap();
    assert!(StoreReader::open(&*path).err().unwrap().to_string().contains("no captures yet"));
    drop(writer(&path));
    assert_eq!(count(&path), 0);
}

#[cfg(unix)]
#[test]
fn only_this_user_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;

    let directory = directory();
    let path = directory.path().join("share/mcptap/captures.db");
    let mut writer = writer(&path);
    writer.add_session(session(1, &[]));
    writer.commit().unwrap();
    assert_eq!(mode(&directory.path().join("share")), 0o700);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for name in ["captures.db", "captures.db-wal", "captures.db-shm"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_database_can_be_read_where_nothing_can_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();

    let directory = directory();
    let media = directory.path().join("100%? #1");
    let path = media.join("captures.db");
    packets::record_a_session(&mut writer(&path));
    mode(&path, 0o400);
    // The superuser may write everything. Then this test reads in the ordinary way.
    mode(&media, 0o500);
    let messages = StoreReader::open(&*path).and_then(|reader| reader.message_count(Scope::All));
    mode(&media, 0o700);
    assert_eq!(messages.unwrap(), 40);
}

#[test]
fn a_temporary_database_is_gone_with_its_last_user() {
    let place = DatabaseFile::temporary().unwrap();
    let path = place.path().to_owned();
    let mut writer = Writer::create(&place, &info(), WriteOptions::default()).unwrap();
    drop(place);
    writer.add_session(session(1, &[]));
    writer.add_message(message(1, 1, b"{}"));
    writer.commit().unwrap();
    let reader = StoreReader::open(writer.place()).unwrap();
    drop(writer);
    assert_eq!(reader.message_count(Scope::All).unwrap(), 1, "the reader keeps it");
    assert!(path.exists());
    drop(reader);
    for suffix in ["", "-wal", "-shm"] {
        assert!(!Path::new(&format!("{}{suffix}", path.display())).exists());
    }
}

#[test]
fn what_was_committed_stays_when_the_writer_dies() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    writer.add_session(session(1, &[]));
    writer.add_message(message(1, 1, b"one"));
    writer.alive(Time(1_000));
    writer.commit().unwrap();
    writer.add_message(message(1, 2, b"two"));

    // A copy of the files while the writer has them open is like the state after a kill.
    let copy = directory.path().join("copy.db");
    for suffix in ["", "-wal"] {
        std::fs::copy(format!("{}{suffix}", path.display()), format!("{}{suffix}", copy.display())).unwrap();
    }
    drop(writer);
    for path in [&path, &copy] {
        let reader = StoreReader::open(&**path).unwrap();
        assert_eq!(reader.message_count(Scope::All).unwrap(), 1);
        let capture = reader.capture(CaptureId(1)).unwrap().unwrap();
        assert_eq!(capture.summary, None, "never finished");
        assert!(capture.is_live(Time(2_000)), "heard of a moment ago");
        assert!(!capture.is_live(Time(20_000_000_000)), "silent for long");
    }
}

#[test]
fn a_locked_database_loses_nothing_until_memory_ends() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let options = WriteOptions { busy_timeout: Duration::ZERO, ..WriteOptions::default() };
    let mut writer = Writer::create(&*path, &info(), options).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    writer.add_session(session(1, &[]));
    writer.add_message(message(1, 1, b"one"));
    let error = format!("{:#}", writer.commit().unwrap_err());
    assert!(error.contains("captures.db: 2 records wait") && error.contains("locked"), "{error}");

    // 80 MiB that zstd cannot compress, where 64 MiB may wait.
    let words = std::iter::successors(Some(1u64), |word| {
        Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    let noise: Vec<u8> = words.take(1 << 20).flat_map(|word| word.rotate_left(29).to_le_bytes()).collect();
    for number in 2..=11 {
        writer.add_message(message(1, number, &noise));
    }
    assert_eq!(writer.counts().lost, 2);

    other.execute_batch("ROLLBACK").unwrap();
    writer.commit().unwrap();
    writer.add_message(message(1, 12, b"after"));
    writer.commit().unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    let numbers: Vec<_> =
        reader.message_rows(Scope::All, Page::first(100)).unwrap().iter().map(|row| row.number.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 12]);
    assert_eq!(reader.capture(CaptureId(1)).unwrap().unwrap().counts.lost, 2);
}

#[test]
fn a_file_may_be_made_by_several_at_once() {
    const WRITERS: usize = 50;
    for _ in 0..4 {
        let directory = directory();
        let path = directory.path().join("captures.db");
        let begin = Meeting::of(WRITERS);
        let create = || {
            begin.attend();
            Writer::create(&*path, &info(), WriteOptions::default()).map(drop).unwrap();
        };
        std::thread::scope(|scope| (0..WRITERS).for_each(|_| drop(scope.spawn(create))));
        assert_eq!(StoreReader::open(&*path).unwrap().captures(Page::first(100)).unwrap().len(), WRITERS);
    }
}

#[test]
fn several_writers_share_a_file_and_readers_see_whole_transactions() {
    const WRITERS: u64 = 4;
    const COMMITS: u64 = 20;
    let directory = directory();
    let path = directory.path().join("captures.db");
    // Nobody commits the second half before the reader has read.
    let looked = Meeting::of(WRITERS as usize + 1);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let mut writer = writer(&path);
                for commit in 0..COMMITS {
                    if commit == COMMITS / 2 {
                        looked.attend();
                    }
                    writer.add_session(session(1, &[]));
                    writer.add_message(message(1, 2 * commit + 1, b"request"));
                    writer.add_message(message(1, 2 * commit + 2, b"answer"));
                    writer.commit().unwrap();
                }
                writer.finish(&Summary::default()).unwrap();
            });
        }
        scope.spawn(|| {
            let mut versions = Vec::new();
            // The file may not exist yet, or is just being created.
            let reader = until_some("the file", || StoreReader::open(&*path).ok());
            versions.push(reader.data_version().unwrap());
            looked.attend();
            let mut seen = 0;
            until("the messages of all writers", || {
                let now = reader.message_count(Scope::All).unwrap();
                assert!(now >= seen && now.is_multiple_of(2), "{seen}, then {now}");
                seen = now;
                versions.push(reader.data_version().unwrap());
                seen == 2 * WRITERS * COMMITS
            });
            versions.dedup();
            assert!(versions.len() > 1, "commits of others are noticed");
        });
    });
    let reader = StoreReader::open(&*path).unwrap();
    let sessions = reader.sessions(Page::first(100)).unwrap();
    assert_eq!(sessions.iter().map(|session| session.number.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for session in sessions {
        assert_eq!(reader.message_count(Scope::Session(session.number)).unwrap(), 2 * COMMITS);
    }
    assert!(reader.captures(Page::first(100)).unwrap().iter().all(|capture| capture.summary.is_some()));
}

#[test]
fn a_damaged_file_is_refused_or_read_but_never_panics() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    packets::record_a_session(&mut writer(&path));
    let whole = std::fs::read(&path).unwrap();
    let read_all = |path: &Path| -> anyhow::Result<()> {
        let reader = StoreReader::open(path)?;
        let capture = CaptureId(1);
        reader.captures(Page::first(9))?;
        for session in reader.sessions(Page::first(9))? {
            reader.messages(Scope::Session(session.number), Page::last(99))?;
            reader.exchanges(session.number, Page::first(9))?;
            reader.connections(session.number, Page::first(9))?;
        }
        for row in reader.message_rows(Scope::All, Page::first(99))? {
            reader.packet_ranges(capture, row.span)?;
            reader.stream(capture, row.span.stream)?;
        }
        let mut stored = StoredPackets::open(path, Selection::Capture(capture))?;
        while crate::source::Source::next(&mut stored)?.is_some() {}
        Ok(())
    };
    read_all(&path).unwrap();
    let scrambled = directory.path().join("scrambled.db");
    // Changes in every used page. The fixed stride makes them fall on headers, cells
    // and contents alike.
    for start in (100..whole.len()).step_by(4_099) {
        let mut bytes = whole.clone();
        for at in (start..whole.len()).step_by(997).take(12) {
            bytes[at] ^= 1 << (at % 8);
        }
        std::fs::write(&scrambled, bytes).unwrap();
        let _ = read_all(&scrambled);
    }
}
