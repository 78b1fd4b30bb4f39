//! Deleting sessions that share connections, and connections that no list of a session names.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rusqlite::{Connection as Database, params};

use super::*;

const SESSIONS: u32 = 4;
const CONNECTIONS: u32 = 6;

/// Rows of a capture: the connections that each session lists, and for each message its session and
/// the connection that carried it.
type Rows = (Vec<BTreeSet<u32>>, Vec<(u32, u32)>);

/// A finished capture without rows.
fn capture(path: &Path) -> CaptureId {
    let mut writer = writer(path);
    writer.finish(&Summary::default()).expect("it is written");
    writer.capture()
}

/// Inserts rows in every table. Connection N has stream N, exchange N and so on.
/// Message N has number N and finding N.
fn insert(path: &Path, capture: CaptureId, (listed, carried): &Rows) {
    let mut db = Database::open(path).expect("it opens");
    let db = db.transaction().expect("nobody else writes");
    let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
        db.execute(sql, parameters).unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    let key = |number: u32| RowKey::new(capture, number.into());
    run("INSERT OR IGNORE INTO rule VALUES ('r', 1, 't', 's')", params![]);
    let session = |number: u32| (capture.0 - 1) * SESSIONS + number;
    for (number, connections) in (1..).zip(listed) {
        run("INSERT INTO session (id, capture, number) VALUES (?, ?, ?)", params![session(number), capture.0, number]);
        for connection in connections {
            let sql = "INSERT INTO session_connection VALUES (?, ?, ?)";
            run(sql, params![session(number), connection, key(*connection)]);
        }
    }
    for id in (1..=CONNECTIONS).map(key) {
        run("INSERT INTO connection VALUES (?, 'p', NULL, NULL, NULL, NULL, NULL, 0, x'')", params![id]);
        run("INSERT INTO stream (id, connection, kind, which) VALUES (?1, ?1, 0, 0)", params![id]);
        run("INSERT INTO exchange VALUES (?1, ?1, NULL, '2', NULL, NULL, NULL, NULL, '', '', x'', x'')", params![id]);
        run("INSERT INTO key_log (connection, lines) VALUES (?, '')", params![id]);
        for start in 0..20 {
            run("INSERT INTO part VALUES (?, ?, x'')", params![id, start]);
            run("INSERT INTO plaintext VALUES (?, ?, x'')", params![id, start]);
            let sql = "INSERT INTO packet_chunk (capture, connection, first_number, last_number, first_time, last_time,
                packets, numbers, data) VALUES (?, ?, 1, 1, 1, 1, 1, x'', x'')";
            run(sql, params![capture.0, id]);
        }
    }
    for (number, (of, connection)) in (1..).zip(carried) {
        let sql = "INSERT INTO message (id, session, position, time, transport, direction, kind, status, size, carrier,
            redelivered, stream, span_start, span_end, packets) VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, ?, 0, 0, x'')";
        run(sql, params![key(number), session(*of), number, connection]);
        run("INSERT INTO message_text VALUES (?, '')", params![key(number)]);
        run("INSERT INTO link VALUES (?1, ?1, ?1, 0)", params![key(number)]);
        let sql = "INSERT INTO finding (capture, session, rule, text, messages, packets) VALUES (?, ?, 'r', ?, ?, x'')";
        run(sql, params![capture.0, session(*of), number, vec![number as u8]]);
        run("INSERT INTO finding_message VALUES (?, last_insert_rowid(), 1)", params![key(number)]);
    }
    run(
        "INSERT INTO finding (capture, rule, text, messages, packets) VALUES (?, 'r', 0, x'', x'')",
        params![capture.0],
    );
    db.commit().expect("it is written");
}

/// Numbers within a capture that a table has, each with the number of its rows.
fn numbers(path: &Path, capture: CaptureId, table: &str, key: &str) -> Vec<(u32, u32)> {
    let sql = format!(
        "SELECT {key} & 0xffffffffff, count(*) FROM {table} WHERE {key} BETWEEN ? AND ? GROUP BY {key} ORDER BY {key}"
    );
    let (first, last) = RowKey::all(capture);
    let db = Database::open(path).expect("it opens");
    let mut select = db.prepare(&sql).expect("a query");
    let rows = select.query_map([first, last], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Checks that exactly the rows of these sessions and of what they use are left.
fn assert_left(path: &Path, capture: CaptureId, (listed, carried): &Rows, left: &BTreeSet<u32>) {
    let of_left = |of: u32| left.contains(&of);
    let used: BTreeSet<u32> = (1..)
        .zip(listed)
        .filter(|(number, _)| of_left(*number))
        .flat_map(|(_, connections)| connections.iter().copied())
        .chain(carried.iter().filter(|(of, _)| of_left(*of)).map(|(_, connection)| *connection))
        .collect();
    let each = |rows: u32| used.iter().map(|connection| (*connection, rows)).collect::<Vec<_>>();
    for (table, key, rows) in [
        ("connection", "id", 1),
        ("stream", "id", 1),
        ("exchange", "id", 1),
        ("key_log", "connection", 1),
        ("part", "stream", 20),
        ("plaintext", "stream", 20),
        ("packet_chunk", "connection", 20),
    ] {
        assert_eq!(numbers(path, capture, table, key), each(rows), "{table}");
    }
    let messages = (1..).zip(carried).filter(|(_, (of, _))| of_left(*of)).map(|(number, _)| (number, 1));
    let messages: Vec<(u32, u32)> = messages.collect();
    for (table, key) in [("message", "id"), ("message_text", "id"), ("link", "message"), ("finding_message", "message")]
    {
        assert_eq!(numbers(path, capture, table, key), messages, "{table}");
    }
    let db = Database::open(path).expect("it opens");
    let count = |sql: &str| db.query_row(sql, [capture.0], |row| row.get::<_, u32>(0)).expect(sql);
    let is_left = u32::from(!left.is_empty());
    assert_eq!(count("SELECT count(*) FROM capture WHERE id = ?"), is_left);
    assert_eq!(count("SELECT count(*) FROM finding WHERE capture = ?"), messages.len() as u32 + is_left);
    assert_eq!(count("SELECT count(*) FROM session WHERE capture = ?"), left.len() as u32);
    assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check WHERE ?1 IS NOT NULL"), 0);
}

fn any_rows() -> impl Strategy<Value = Rows> {
    let listed = prop::collection::btree_set(1..=CONNECTIONS, 0..4);
    let carried = (1..=SESSIONS, 1..=CONNECTIONS);
    (prop::collection::vec(listed, SESSIONS as usize), prop::collection::vec(carried, 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_no_remaining_session_uses_is_deleted_and_nothing_else(
        rows in any_rows(), other in any_rows(), pinned in prop::option::of(1..=SESSIONS),
        rounds in prop::collection::vec(prop::collection::btree_set(1..=SESSIONS, 1..4), 1..4),
    ) {
        let folder = directory();
        let path = folder.path().join("test.db");
        let captures = [capture(&path), capture(&path)];
        insert(&path, captures[0], &rows);
        insert(&path, captures[1], &other);
        let mut maintenance = Maintenance::open(path.as_path()).expect("it opens");
        if let Some(number) = pinned {
            prop_assert!(maintenance.pin(SessionNumber(number), true).expect("it is written"));
        }
        let mut left: BTreeSet<u32> = (1..=SESSIONS).collect();
        for round in rounds {
            let chosen: Vec<_> = round.iter().copied().map(SessionNumber).collect();
            let mut deleted = BTreeSet::new();
            maintenance.delete(&chosen, |session, fate| {
                let (is_left, is_pinned) = (left.contains(&session.0), Some(session.0) == pinned);
                let wanted = match (is_left, is_pinned) {
                    (false, _) => Fate::Missing,
                    (true, true) => Fate::Pinned,
                    (true, false) => Fate::Deleted,
                };
                assert_eq!(fate, wanted);
                deleted.extend((fate == Fate::Deleted).then_some(session.0));
            }).expect("it is deleted");
            left.retain(|session| !deleted.contains(session));
            if left.len() < SESSIONS as usize {
                assert_left(&path, captures[0], &rows, &left);
            }
            let space = maintenance.give_back().expect("it is written");
            prop_assert_eq!(space.free, 0);
        }
        // The connections of the other capture that no session uses are still there.
        let all: Vec<_> = (1..=CONNECTIONS).map(|connection| (connection, 1)).collect();
        prop_assert_eq!(numbers(&path, captures[1], "connection", "id"), all);
        prop_assert_eq!(numbers(&path, captures[1], "message", "id").len(), other.1.len());
    }
}

#[test]
fn sizes_grow_with_what_is_stored() {
    let folder = directory();
    let path = folder.path().join("test.db");
    let mut writer = writer(&path);
    writer.add_session(session(1, &[1]));
    writer.add_session(session(2, &[2]));
    // Letters in no order, which compress badly.
    let mut state = 1_u64;
    let mut letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (state >> 60) as u8)
    };
    let text: String = (0..20_000).map(&mut letter).collect();
    writer.add_message(message(1, 1, b"{}"));
    writer.add_message(message(2, 2, text.as_bytes()));
    writer.finish(&Summary::default()).expect("it is written");
    let reader = StoreReader::open(path.as_path()).expect("it opens");
    let recordings = reader.recordings().expect("it can be read");
    assert!(recordings.iter().all(|recording| !recording.is_live && !recording.is_pinned && recording.last == Time(7)));
    let sizes = reader.stored_sizes(recordings.iter()).expect("it can be read");
    let [small, large] = [1, 2].map(|number| sizes[&SessionNumber(number)]);
    assert!(small < 2_000 && (5_000..30_000).contains(&large), "{small} {large}");
}
