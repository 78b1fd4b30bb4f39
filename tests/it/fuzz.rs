//! The bodies of the fuzz targets, over their seeds and over damaged seeds: a short run without a
//! fuzzer. `tests/fuzz/README.md` describes the long one.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mcptap_core::internal::fuzz;

use crate::support::needs;
use crate::support::waits::Finishes;

/// Seeds of a target that run. They are taken evenly from all, because debug builds are slow.
const SEEDS: usize = 40;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz")
}

/// The lines of the table of targets: the name, the dictionaries, and the files to cover.
fn table() -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder().join("targets")).expect("the table");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn fuzz_database(data: &[u8]) {
    static DATABASES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/databases");
    let read = |version| fs::read(folder.join(format!("version-{version}.db"))).expect("the database");
    let databases = DATABASES.get_or_init(|| (1..=3).map(read).collect());
    mcptap::cli::fuzz_database(&databases.iter().map(Vec::as_slice).collect::<Vec<_>>(), data);
}

/// The name of a target, and its body.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 23] = [
    ("capture_file", mcptap::source::reader::fuzz_capture_file),
    ("packet", fuzz::fuzz_packet),
    ("dns", fuzz::fuzz_dns),
    ("tls", fuzz::fuzz_tls),
    ("keylog", fuzz::fuzz_keylog),
    ("tcp", fuzz::fuzz_tcp),
    ("http1", fuzz::fuzz_http1),
    ("coding", fuzz::fuzz_coding),
    ("http2", fuzz::fuzz_http2),
    ("hpack", fuzz::fuzz_hpack),
    ("websocket", fuzz::fuzz_websocket),
    ("sse", fuzz::fuzz_sse),
    ("lines", fuzz::fuzz_lines),
    ("jsonrpc", fuzz::fuzz_jsonrpc),
    ("shape", fuzz::fuzz_shape),
    ("schema", fuzz::fuzz_schema),
    ("filter", mcptap::filter::fuzz_filter),
    ("mock_request", mcptap::http::requests::fuzz_requests),
    ("proxy", mcptap::proxy::fuzz_proxy),
    ("replay", mcptap::replay::fuzz::fuzz_replay),
    ("stack", mcptap::engine::fuzz::fuzz_stack),
    ("export", mcptap::cli::fuzz_export),
    ("database", fuzz_database),
];

#[test]
fn every_target_has_a_file_dictionaries_and_sources() {
    let table = table();
    let names: BTreeSet<&str> = table.iter().map(|line| line[0].as_str()).collect();
    let files = fs::read_dir(folder().join("fuzz_targets")).expect("the targets");
    let files = files.map(|file| file.expect("a file").path().file_stem().expect("a name").to_owned());
    let files: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(names, files.iter().map(String::as_str).collect());
    assert_eq!(names, TARGETS.iter().map(|(name, _)| *name).collect());
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).expect("the manifest");
    for line in &table {
        assert!(manifest.contains(&format!("name = \"{}\"", line[0])), "{} is in Cargo.toml", line[0]);
        assert!(!words(&line[1]).is_empty());
        for path in &line[2..] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
            assert!(path.exists(), "{} of {} exists", path.display(), line[0]);
        }
    }
}

/// The words of dictionaries, as bytes.
fn words(dictionaries: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for name in dictionaries.split(',') {
        let path = folder().join("dictionaries").join(format!("{name}.dict"));
        let text = fs::read_to_string(path).expect("a dictionary");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let quoted = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).expect("a quoted word");
            let (mut word, mut rest) = (Vec::new(), quoted);
            while let Some(first) = rest.chars().next() {
                let escaped = rest.strip_prefix('\\');
                let hex = escaped.and_then(|rest| rest.strip_prefix('x')).map(|rest| rest.split_at(2));
                (word, rest) = match (hex, escaped) {
                    (Some((hex, rest)), _) => ([word, vec![u8::from_str_radix(hex, 16).expect("hex")]].concat(), rest),
                    (None, Some(rest)) => ([word, vec![rest.as_bytes()[0]]].concat(), &rest[1..]),
                    (None, None) => ([word, vec![first as u8]].concat(), &rest[1..]),
                };
            }
            words.push(word);
        }
    }
    words
}

/// The folder whose files run instead of the seeds, all of them and undamaged. It serves to measure
/// the coverage of a corpus.
fn corpus() -> Option<PathBuf> {
    std::env::var_os("MCPTAP_FUZZ_CORPUS").map(PathBuf::from)
}

/// Seeds of a target, from a folder that is made once.
fn seeds(target: &str) -> Option<Vec<Vec<u8>>> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        needs::have_program(&needs::PYTHON).then(|| {
            let made = tempfile::tempdir().expect("a folder");
            let output = Command::new("python3").arg(folder().join("seeds.py")).arg(made.path()).finished();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            made
        })
    });
    let folder = corpus().or_else(|| Some(made.as_ref()?.path().to_owned()))?;
    let files = fs::read_dir(folder.join(target)).expect("every target has seeds");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let step = if corpus().is_some() { 1 } else { paths.len().div_ceil(SEEDS).max(1) };
    Some(paths.iter().step_by(step).map(|path| fs::read(path).expect("a seed")).collect())
}

/// Changes a seed in a way that `state` chooses: the same state gives the same change.
fn damaged(seed: &[u8], words: &[Vec<u8>], state: &mut u64) -> Vec<u8> {
    let mut next = |limit: usize| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state % limit.max(1) as u64) as usize
    };
    let mut data = seed.to_vec();
    for _ in 0..=next(3) {
        let at = next(data.len() + 1);
        let end = (at + next(9)).min(data.len());
        match next(4) {
            0 => data.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
            1 => drop(data.drain(at..end)),
            2 => drop(data.splice(at..at, data[at..end].to_vec())),
            _ => drop(data.splice(at..at, words[next(words.len())].iter().copied())),
        }
    }
    data
}

/// Runs the body of a target over its seeds, whole and damaged.
fn short_run(target: &str) {
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let Some(seeds) = seeds(target) else { return };
    let line = table().into_iter().find(|line| line[0] == target).expect("a line of the table");
    let words = words(&line[1]);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for seed in &seeds {
        let mut inputs = vec![seed.clone()];
        if corpus().is_none() {
            inputs.push(damaged(seed, &words, &mut state));
        }
        for input in inputs {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&input))) {
                let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{target}"));
                fs::write(&path, &input).expect("the input can be written");
                eprintln!("the target {target} fails with {}", path.display());
                std::panic::resume_unwind(panic);
            }
        }
    }
}

macro_rules! short_runs {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            short_run(stringify!($target));
        })*
    };
}

short_runs! {
    capture_file packet dns tls keylog tcp http1 coding http2 hpack websocket sse lines jsonrpc shape schema filter
    mock_request proxy replay stack export database
}
