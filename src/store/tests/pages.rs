//! Tests of pages of messages.

use proptest::prelude::*;

use super::*;

fn numbers(rows: &[MessageRow]) -> Vec<u64> {
    rows.iter().map(|row| row.number.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each page equals the window of the whole list, for any sessions to which the messages of
    /// two captures belong.
    #[test]
    fn every_page_is_a_window_of_the_whole_list(
        captures in prop::collection::vec(prop::collection::vec((1u32..4, 1u64..4), 0..30), 1..3),
        from: Option<prop::sample::Index>, limit in 0usize..12, backward: bool, commits in 1usize..9,
    ) {
        let directory = directory();
        let path = directory.path().join("captures.db");
        let mut all = Vec::new();
        for messages in &captures {
            let mut writer = writer(&path);
            let mut number = 0;
            for (index, (session, step)) in messages.iter().enumerate() {
                number += step;
                writer.add_message(message(*session, number, b"{}"));
                all.push(RowKey::new(writer.capture(), number));
                if index % commits == 0 {
                    writer.commit().unwrap();
                }
            }
            writer.finish(&Summary::default()).unwrap();
        }
        let reader = StoreReader::open(&*path).unwrap();
        let whole = reader.message_rows(Scope::All, Page::first(1_000)).unwrap();
        prop_assert_eq!(whole.iter().map(MessageRow::key).collect::<Vec<_>>(), all);

        let mut scopes = vec![Scope::All, Scope::Capture(CaptureId(1)), Scope::Capture(CaptureId(2))];
        scopes.extend((1..7).map(|number| Scope::Session(SessionNumber(number))));
        for scope in scopes {
            let list: Vec<_> = whole.iter().filter(|row| match scope {
                Scope::All => true,
                Scope::Capture(capture) => row.capture == capture,
                Scope::Session(session) => row.session == session,
            }).cloned().collect();
            prop_assert_eq!(reader.message_count(scope).unwrap(), list.len() as u64);

            // Any number up to two beyond the last, whether it is in the list or not.
            let capture = list.first().map_or(CaptureId(1), |row| row.capture);
            let last = list.iter().filter(|row| row.capture == capture).map(|row| row.number.0).max().unwrap_or(0);
            let from = from.map(|index| RowKey::new(capture, index.index(last as usize + 3) as u64));
            let order = if backward { SortOrder::Backward } else { SortOrder::Forward };
            let mut expected = list.clone();
            expected.retain(|row| from.is_none_or(|from| if backward { row.key() <= from } else { row.key() >= from }));
            if backward {
                expected.reverse();
            }
            expected.truncate(limit);
            let page = Page { from, order, limit };
            prop_assert_eq!(numbers(&reader.message_rows(scope, page).unwrap()), numbers(&expected));
            let messages = reader.messages(scope, page).unwrap();
            prop_assert_eq!(messages.iter().map(|message| message.number.0).collect::<Vec<_>>(), numbers(&expected));

            if let Scope::Session(session) = scope {
                for (index, row) in list.iter().enumerate() {
                    prop_assert_eq!(row.position, index as u64 + 1);
                    prop_assert_eq!(reader.message_position(session, row.number).unwrap(), row.position);
                    prop_assert_eq!(&reader.message_rows_at(session, row.position, 2).unwrap()[..], &list[index..list.len().min(index + 2)]);
                }
            }
        }
    }
}

#[test]
fn a_page_of_long_texts_ends_early() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    for number in 1..=5 {
        writer.add_message(message(1, number, &vec![b' '; 6 << 20]));
    }
    writer.commit().unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    assert_eq!(reader.messages(Scope::All, Page::first(5)).unwrap().len(), 3);
    assert_eq!(reader.messages(Scope::All, Page::from(RowKey::new(CaptureId(1), 4), 5)).unwrap().len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// While a capture is recorded, the messages of a session are listed as they arrived. Once it
    /// has ended, they are in order of time. Other lists stay in order of number.
    #[test]
    fn messages_of_a_session_are_listed_in_order_of_time(
        times in prop::collection::vec((1u32..3, 0i64..20), 0..40), commits in 1usize..9, limit in 1usize..6,
    ) {
        let directory = directory();
        let path = directory.path().join("captures.db");
        let mut writer = writer(&path);
        let mut all = Vec::new();
        for (index, (session, time)) in times.iter().enumerate() {
            let text = format!(r#"{{"method":"m","params":{{"n":{}}}}}"#, index % 2);
            let message = Message { time: Time(*time), ..message(*session, index as u64 + 1, text.as_bytes()) };
            writer.add_message(message.clone());
            all.push(message);
            if index % commits == 0 {
                writer.commit().unwrap();
            }
        }
        writer.commit().unwrap();
        let reader = StoreReader::open(&*path).unwrap();
        let filter = crate::filter::Filter::parse("params.n = 1").unwrap();
        let list = |messages: &mut dyn Iterator<Item = anyhow::Result<Message>>| {
            messages.map(|message| message.unwrap().number.0).collect::<Vec<_>>()
        };
        for has_ended in [false, true] {
            if has_ended {
                writer.finish(&Summary::default()).unwrap();
                all.sort_by_key(|message| (message.time, message.number));
            }
            for session in reader.sessions(Page::first(9)).unwrap() {
                let number = session.number;
                let of_session = || all.iter().filter(|message| reader.message_of(number, message.number).unwrap().is_some());
                let wanted: Vec<u64> = of_session().map(|message| message.number.0).collect();
                prop_assert_eq!(&list(&mut reader.session_messages(number, None)), &wanted);
                let even: Vec<u64> = wanted.iter().copied().filter(|number| number % 2 == 0).collect();
                prop_assert_eq!(&list(&mut reader.session_messages(number, Some(&filter))), &even);
                // Pages from any message on, in both directions.
                for (at, from) in wanted.iter().enumerate() {
                    let from = RowKey::new(writer.capture(), *from);
                    let page = reader.message_rows(Scope::Session(number), Page::from(from, limit)).unwrap();
                    prop_assert_eq!(numbers(&page), &wanted[at..wanted.len().min(at + limit)]);
                    let page = reader.matching(&filter, Scope::Session(number), Page::back_from(from, 1)).unwrap();
                    prop_assert_eq!(numbers(&page).pop(), wanted[..=at].iter().copied().rfind(|number| number % 2 == 0));
                    prop_assert_eq!(reader.message_position(number, MessageNumber(from.number())).unwrap(), at as u64 + 1);
                }
                let mut by_number = wanted.clone();
                by_number.sort_unstable();
                prop_assert_eq!(&list(&mut reader.numbered_messages(number).unwrap()), &by_number);
                prop_assert_eq!(&list(&mut reader.whole_conversation(&session)), &by_number);
                let after = by_number.get(by_number.len() / 2).copied().unwrap_or(0);
                let new = list(&mut reader.new_messages(number, None, RowKey::new(writer.capture(), after)));
                prop_assert_eq!(new, by_number.into_iter().filter(|number| *number > after).collect::<Vec<_>>());
            }
        }
        let wanted: Vec<u64> = all.iter().map(|message| message.number.0).collect();
        prop_assert_eq!(list(&mut reader.capture_messages(writer.capture(), None).unwrap()), wanted);
    }
}

/// A reader of a database with a session of three messages, after this damage.
fn damaged(directory: &TempDir, sql: &str) -> StoreReader {
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    writer.add_session(session(1, &[]));
    (1..=3).for_each(|number| writer.add_message(message(1, number, b"{}")));
    writer.finish(&Summary::default()).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "foreign_keys", false).unwrap();
    db.execute_batch(sql).unwrap();
    StoreReader::open(&*path).unwrap()
}

/// A list that does not lead on ends. Otherwise an export would fill the disk.
#[test]
fn a_damaged_list_ends() {
    let directory = directory();
    // Where a position is missing, the search for a number ends too early.
    let reader = damaged(&directory, "UPDATE message SET position = 99 WHERE position = 2");
    let listed: Vec<_> = reader.session_messages(SessionNumber(1), None).take(100).collect();
    assert_eq!(listed.iter().filter(|message| message.is_ok()).count(), 3);
    let last = listed[3].as_ref().unwrap_err().to_string();
    assert!(last.contains("the order of a list"), "{last}");
}

#[test]
fn no_position_follows_the_last_possible_one() {
    let directory = directory();
    let reader = damaged(&directory, "UPDATE message SET position = 9223372036854775807 WHERE position = 3");
    let rows = reader.message_rows_at(SessionNumber(1), i64::MAX as u64, 9).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(reader.message_rows_at(SessionNumber(1), rows[0].position + 1, 9).unwrap(), []);
}

#[test]
fn the_number_of_a_connection_is_not_cut() {
    let directory = directory();
    let sql =
        "INSERT INTO connection (id, protocol, opened, details) VALUES ((1 << 40) | (1 << 32) | 5, 'tcp', 0, x'');
               INSERT INTO session_connection VALUES (1, 0, (1 << 40) | (1 << 32) | 5);";
    let error = damaged(&directory, sql).connections(SessionNumber(1), Page::first(9)).unwrap_err();
    assert!(error.to_string().contains("the number of a connection"), "{error:#}");
}
