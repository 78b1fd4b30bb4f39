use proptest::prelude::*;

use super::build::SectionSizes;
use super::*;
use crate::capture::Time;
use crate::decode::Direction;
use crate::event::Event;
use crate::mcp::{Message, Peers, Session, SessionNumber, Transport};
use crate::store::{
    CaptureInfo, CaptureKind, DatabaseFile, Maintenance, Page, Scope, StoreReader, Summary, WriteOptions, Writer,
};
use crate::test_messages;

/// Small enough that a few texts fill several sections.
const SIZES: SectionSizes = SectionSizes { block: 64, bytes_a_trigram: 1, most: 400, least: 100 };

/// Parts of texts: letters of both cases, the two characters that fold to ASCII letters, letters
/// that fold to others, characters of one case, and bytes that are no UTF-8.
const PARTS: [&[u8]; 15] = [
    b"kiss",
    b"KISS",
    "\u{212A}iss".as_bytes(),
    "ki\u{17F}s".as_bytes(),
    b"quito",
    b"QuI",
    b"to ",
    "天気".as_bytes(),
    "É".as_bytes(),
    "é".as_bytes(),
    b"\xff\xfe",
    b" ",
    b"ab",
    b"abc",
    b"\\n",
];

const WORDS: [&str; 12] =
    ["kiss", "qui", "quito", "uito", "天気", "気abc", "é", "kissé", "ab", "abc", "to 天", "nowhere"];

/// Records a session. Without an end the capture stays unfinished.
fn record(place: &DatabaseFile, texts: &[Vec<u8>], ends: bool) {
    let info = CaptureInfo { kind: CaptureKind::Import, source: "one".into(), process: 1, ..CaptureInfo::default() };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    let peers = Peers::Process { process: 1, command: Vec::new() };
    writer.event(Event::Session(Box::new(Session::opened(SessionNumber(1), Transport::Stdio, peers, Time(0)))));
    for (number, text) in (1..).zip(texts) {
        let message = test_messages::message(number, Time(number as i64), Direction::ClientToServer, "{}");
        writer.event(Event::Message(Box::new(Message { raw: text.clone().into(), ..message })));
    }
    if ends {
        writer.finish(&Summary::default()).unwrap();
    } else {
        writer.commit().unwrap();
    }
}

fn index(place: &DatabaseFile) -> usize {
    let mut indexer = TextIndexer::with_sizes(place.clone(), SIZES).unwrap();
    std::iter::from_fn(|| indexer.step().unwrap()).count()
}

fn sections(place: &DatabaseFile) -> (i64, i64) {
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        Connection::open(place.path()).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    (count("text_section"), count("text_posting"))
}

/// What each word selects, in every way to ask.
fn found(place: &DatabaseFile) -> Vec<Vec<Vec<(SessionNumber, u64)>>> {
    let reader = StoreReader::open(place).unwrap();
    let sessions = reader.sessions(Page::first(9)).unwrap();
    let lists = |word: &str| {
        let filter = Filter::parse(&format!("\"{word}\" and number > 0")).unwrap();
        let places = |rows: Vec<crate::store::MessageRow>| rows.iter().map(|row| (row.session, row.number.0)).collect();
        let all = (RowKey(0), RowKey(i64::MAX));
        let mut lists = vec![
            places(reader.matching(&filter, Scope::All, Page::first(900)).unwrap()),
            places(reader.matching(&filter, Scope::All, Page::last(3)).unwrap()),
            places(reader.matching_within(&filter, Scope::All, all).unwrap()),
        ];
        for session in &sessions {
            let scope = Scope::Session(session.number);
            lists.push(places(reader.matching(&filter, scope, Page::first(2)).unwrap()));
            lists.push(places(reader.all_matching(&filter, scope).map(Result::unwrap).collect()));
        }
        lists
    };
    WORDS.iter().map(|word| lists(word)).collect()
}

fn a_text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&PARTS[..]), 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn an_index_changes_no_match(
        captures in prop::collection::vec((prop::collection::vec(a_text(), 0..40), any::<bool>()), 1..4),
        more in prop::collection::vec(a_text(), 0..10),
        deleted in 1..4u32,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let place = DatabaseFile::file(folder.path().join("texts.db"));
        captures.iter().for_each(|(texts, ends)| record(&place, texts, *ends));
        let expected = found(&place);
        let made = index(&place);
        prop_assert_eq!(sections(&place).0, made as i64);
        prop_assert_eq!(&found(&place), &expected);

        // Later messages are found before the index has them, and after that.
        record(&place, &more, true);
        let later = found(&place);
        index(&place);
        prop_assert_eq!(&found(&place), &later);

        let mut maintenance = Maintenance::open(place.clone()).unwrap();
        maintenance.delete(&[SessionNumber(deleted)], |_, _| {}).unwrap();
        let rest = found(&place);
        index(&place);
        prop_assert_eq!(&found(&place), &rest);
        Connection::open(place.path()).unwrap().execute_batch("DELETE FROM text_section").unwrap();
        prop_assert_eq!(&found(&place), &rest);
    }

    #[test]
    fn no_section_is_trusted(blob in prop::collection::vec(any::<u8>(), 0..64), first in any::<i64>(), trigram in 0..1u32 << 24) {
        if let Ok(blocks) = Blocks::read(&blob, first) {
            let mut set = BlockSet::all(blocks.len());
            let _ = set.retain(Some((trigram / 2, &blob)), trigram);
            blocks.ranges(&set).for_each(drop);
        }
    }
}

#[test]
fn a_deletion_reaches_into_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let place = DatabaseFile::file(folder.path().join("texts.db"));
    let texts = |word: &str| vec![format!("{{\"text\":\"{word} and further words of a language\"}}").into_bytes(); 4];
    for word in ["first", "second", "third"] {
        record(&place, &texts(word), true);
    }
    assert_eq!(index(&place), 2, "400 bytes fill a section");
    let before = found(&place);
    let mut maintenance = Maintenance::open(place.clone()).unwrap();
    maintenance.delete(&[SessionNumber(2)], |_, _| {}).unwrap();
    let db = Connection::open(place.path()).unwrap();
    let overlapping = "SELECT count(*) FROM text_section WHERE first < 3 << 40 AND last >= 2 << 40";
    assert_eq!(db.query_row(overlapping, [], |row| row.get::<_, i64>(0)), Ok(0));
    let orphans = "SELECT count(*) FROM text_posting WHERE section NOT IN (SELECT first FROM text_section)";
    assert_eq!(db.query_row(orphans, [], |row| row.get::<_, i64>(0)), Ok(0));
    index(&place);
    let needed = needed_trigrams(Filter::parse("second").unwrap().expression());
    let ranges = candidates(&db, &needed).unwrap();
    let covered: Vec<_> = inside(&ranges, RowKey::all(CaptureId(1))).collect();
    // Messages are numbered from 1.
    let has_message = |(first, last): &(i64, i64)| *first <= (1 << 40) + 4 && *last > 1 << 40;
    assert!(!covered.iter().any(has_message), "{covered:?}");
    assert_eq!(before.len(), WORDS.len());
}

#[test]
fn only_characters_that_fold_to_ascii_prevent_indexing() {
    let texts = ["KISS", "\u{212A}", "\u{17F}"];
    assert_eq!(texts.map(|text| trigrams::is_indexable(text.as_bytes())), [true, false, false]);
}

/// A capture that is still recorded may have no message yet. Its messages are found later too.
#[test]
fn a_section_ends_before_a_capture_that_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let place = DatabaseFile::file(folder.path().join("texts.db"));
    let texts = |word: &str| vec![format!("{{\"text\":\"{word} and further words of a language\"}}").into_bytes(); 4];
    record(&place, &texts("first"), true);
    let info = CaptureInfo {
        kind: CaptureKind::Wrap,
        source: "two".into(),
        process: std::process::id(),
        started: crate::source::now(),
        ..CaptureInfo::default()
    };
    let mut open = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    open.alive(crate::source::now());
    open.commit().unwrap();
    record(&place, &texts("third"), true);
    index(&place);
    let db = Connection::open(place.path()).unwrap();
    let covering = "SELECT count(*) FROM text_section WHERE first < 2 << 40 AND last >= 3 << 40";
    assert_eq!(db.query_row(covering, [], |row| row.get::<_, i64>(0)), Ok(0));
}

#[test]
fn a_word_needs_the_trigrams_of_characters_with_one_case() {
    let of = |word| trigrams::of_word(word).len();
    assert_eq!(
        [of("ab"), of("abc"), of("ABCD"), of("aéb"), of("abcédef"), of("天"), of("天気")],
        [0, 1, 2, 0, 2, 1, 4]
    );
    let filter = |text: &str| needed_trigrams(Filter::parse(text).unwrap().expression()).len();
    assert_eq!(["abc and def", "abc or def", "not abc", "abc and kind = error"].map(filter), [2, 0, 0, 1]);
}
