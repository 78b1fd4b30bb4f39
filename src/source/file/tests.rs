use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use nom::number::Endianness;
use tempfile::TempDir;

use super::Files;
use crate::source::Source;
use crate::source::samples::{Bytes, OwnedItem, account, drain};
use crate::support::needs::{self, have};

/// A temporary folder of capture files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn pcap(seconds: u32, packets: &[&[u8]]) -> Vec<u8> {
    let header = Bytes::new(Endianness::Little).pcap_header(0xa1b2_c3d4, 1);
    packets.iter().fold(header, |file, packet| file.record(seconds, 0, packet)).bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read(paths: &[PathBuf]) -> String {
    match Files::open(paths, false).and_then(|mut files| drain(&mut files)) {
        Ok(seen) => account(&seen),
        Err(error) => error.to_string(),
    }
}

#[test]
fn rotated_files_are_one_capture_in_order_of_time() {
    let folder = Folder::new();
    let sections = Bytes::new(Endianness::Big).section().interface(101, 0, &[]).interface(113, 0, &[]);
    let second = folder.file("a.pcapng", &sections.enhanced(1, 2_000_000, b"two").bytes);
    let third = folder.file("b.pcap.gz", &gzip(&pcap(3, &[b"three"])));
    let first = folder.file("c.pcap", &pcap(1, &[b"one", b"one more"]));
    let none = folder.file("d.pcap", &pcap(0, &[]));
    let paths = [second, third, first, none];
    assert_eq!(
        read(&paths),
        "packet 1 time 1000000000 link 1 interface 1 length 3 \"one\"\n\
         packet 2 time 1000000000 link 1 interface 1 length 8 \"one more\"\n\
         packet 3 time 2000000000 link 113 interface 3 length 3 \"two\"\n\
         packet 4 time 3000000000 link 1 interface 4 length 5 \"three\"\n"
    );

    let mut files = Files::open(&paths, false).unwrap();
    let total: u64 = paths.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(files.progress(), (0, Some(total)));
    drain(&mut files).unwrap();
    assert_eq!(files.progress(), (total, Some(total)));
}

#[test]
fn damage_in_one_file_leaves_the_next_whole() {
    let folder = Folder::new();
    let mut cut = pcap(1, &[b"one", b"two"]);
    cut.truncate(cut.len() - 2);
    let paths = [folder.file("1.pcap", &cut), folder.file("2.pcap", &pcap(2, &[b"three"]))];
    assert_eq!(
        read(&paths),
        "packet 1 time 1000000000 link 1 interface 0 length 3 \"one\"\n\
         byte 43: packet cut short by the end of the file: 1 of 3 bytes\n\
         packet 2 time 2000000000 link 1 interface 1 length 5 \"three\"\n"
    );
}

#[test]
fn compressed_files_are_read_as_what_they_hold() {
    let folder = Folder::new();
    let plain = pcap(1, &[b"one", b"two", b"three"]);
    let expected = read(&[folder.file("plain.pcap", &plain)]);
    let (first, second) = plain.split_at(50);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
    for (name, bytes) in [
        ("one member.gz", gzip(&plain)),
        ("two members.gz", [gzip(first), gzip(second)].concat()),
        ("one frame.zst", zstd(&plain)),
        ("two frames.zst", [zstd(first), zstd(second)].concat()),
    ] {
        assert_eq!(read(&[folder.file(name, &bytes)]), expected, "{name}");
    }
}

#[test]
fn a_broken_compressed_tail_is_damage_behind_the_packets() {
    let folder = Folder::new();
    let noise: Vec<u8> = (0..4_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let plain = pcap(1, &[&noise[..], &noise[..], b"end"]);
    for (name, compressed) in [("gzip", gzip(&plain)), ("zstd", zstd::encode_all(&plain[..], 3).unwrap())] {
        for cut in 8..compressed.len() {
            let path = folder.file("cut", &compressed[..cut]);
            match Files::open(&[path], false).and_then(|mut files| drain(&mut files)) {
                Ok(seen) => {
                    // After a cut inside the check sum all packets are there.
                    let (last, before) = seen.split_last().unwrap();
                    let OwnedItem::Damage { reason, .. } = last else { panic!("{name} cut at {cut}: {last:?}") };
                    assert!(reason.starts_with(&format!("the {name} data is broken or cut short")), "{reason}");
                    assert!(before.iter().all(OwnedItem::is_packet));
                }
                Err(error) => panic!("{name} cut at {cut}: {error}"),
            }
        }
    }
}

#[test]
fn a_growing_file_is_followed() {
    let folder = Folder::new();
    let whole = pcap(1, &[b"one", b"two"]);
    let path = folder.file("growing.pcap", b"");
    let mut writer = OpenOptions::new().append(true).open(&path).unwrap();
    let mut files = Files::open(&[path], true).unwrap();
    let mut next = || account(&files.next().unwrap().map(OwnedItem::from).into_iter().collect::<Vec<_>>());
    let mut written = 0;
    let mut write = |end: usize| {
        writer.write_all(&whole[written..end]).unwrap();
        written = end;
    };
    assert_eq!(next(), "idle\n");
    write(3);
    assert_eq!(next(), "idle\n", "inside the magic number");
    write(24);
    assert_eq!(next(), "idle\n");
    write(42);
    assert_eq!(next(), "idle\n", "inside the first packet");
    write(44);
    assert_eq!(next(), "packet 1 time 1000000000 link 1 interface 0 length 3 \"one\"\n");
    assert_eq!(next(), "idle\n");
    write(whole.len());
    assert_eq!(next(), "packet 2 time 1000000000 link 1 interface 0 length 3 \"two\"\n");
    assert_eq!(next(), "idle\n");
    assert_eq!(next(), "idle\n");
}

#[test]
fn what_is_no_capture_is_said_in_one_line() {
    let folder = Folder::new();
    let message = |name: &str, bytes: &[u8]| {
        let path = folder.file(name, bytes);
        read(std::slice::from_ref(&path)).replace(&path.display().to_string(), name)
    };
    assert_eq!(
        message("trace.txt", b"{\"id\":1}\n{\"x\":2}\n"),
        "cannot open capture \"trace.txt\": not a pcap or pcapng file (first bytes 7b 22 69 64). \
         Of texts, mcptap reads lines of JSON with messages; \"mcptap wrap\" records a server."
    );
    assert_eq!(
        message("mcptap.db", b"SQLite format 3\0\x10\0"),
        "cannot open capture \"mcptap.db\": not a pcap or pcapng file (first bytes 53 51 4c 69). \
         It is an SQLite database: \"mcptap sessions FILE\" lists the sessions that mcptap saved in one."
    );
    assert_eq!(
        message("a.out", b"\x7fELF\x02\x01\x01\0"),
        "cannot open capture \"a.out\": not a pcap or pcapng file (first bytes 7f 45 4c 46)"
    );
    assert_eq!(message("short", b"\xd4"), "cannot open capture \"short\": not a pcap or pcapng file (first bytes d4)");
    assert_eq!(message("empty.pcap", b""), "cannot open capture \"empty.pcap\": the file is empty");
    assert_eq!(message("empty.gz", &gzip(b"")), "cannot open capture \"empty.gz\": the file is empty");

    let missing = folder.0.path().join("missing.pcap");
    let error = Files::open(std::slice::from_ref(&missing), false).err().unwrap().to_string();
    assert!(error.contains("missing.pcap\": No such file"), "{error}");
    let error = Files::open(&[folder.0.path().to_path_buf()], false).err().unwrap().to_string();
    assert!(error.contains("it is a directory"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_as_it_arrives() {
    use std::os::fd::AsRawFd;

    let whole = pcap(1, &[b"one", b"two"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
    if !have(&needs::DESCRIPTORS, File::open(&path).is_ok()) {
        return;
    }
    // This test holds the writer's end, and the file holds the reader's. So reading must not wait
    // for the end of the pipe.
    let mut files = Files::open(&[path], false).unwrap();
    writer.write_all(&whole[..44]).unwrap();
    let first = files.next().unwrap().map(OwnedItem::from);
    assert!(first.is_some_and(|item| item.is_packet()));
    assert_eq!(files.progress(), (44, None));
    writer.write_all(&whole[44..]).unwrap();
    drop(writer);
    assert_eq!(drain(&mut files).unwrap().len(), 1);
}
