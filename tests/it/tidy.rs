//! The invariants of `docs/architecture.md`, held by reading the source.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A layer, and what its files may use of the crate.
const LAYERS: &[(&str, &[&str])] = &[
    ("capture", &["capture"]),
    ("source", &["capture", "source"]),
    ("decode", &["capture", "decode"]),
    ("mcp", &["capture", "decode", "mcp"]),
    ("findings", &["capture", "decode", "mcp", "findings"]),
    ("event", &["capture", "decode", "mcp", "findings"]),
    ("pipeline", &["capture", "source", "decode", "mcp", "findings", "event", "pipeline"]),
    ("engine", &["capture", "source", "event", "pipeline", "store", "engine"]),
    ("store", &["capture", "source", "decode", "mcp", "findings", "event", "filter", "store"]),
    ("filter", &["capture", "decode", "mcp", "findings", "event", "filter"]),
    ("view", &["capture", "decode", "mcp", "findings", "event", "store", "filter", "view"]),
    ("listen", &["decode", "listen"]),
    ("mock", &["capture", "decode", "mcp", "listen", "replay", "view", "compare", "mock"]),
    ("proxy", &["capture", "source", "decode", "listen", "replay", "view", "proxy"]),
    ("compare", &["capture", "decode", "mcp", "view", "compare"]),
    (
        "replay",
        &[
            "capture", "source", "decode", "mcp", "event", "pipeline", "engine", "store", "filter", "view", "compare",
            "replay",
        ],
    ),
    ("export", &["capture", "decode", "mcp", "findings", "event", "store", "view", "export"]),
];

/// A crate with one home: where its name may stand.
const HOMES: &[(&str, &[&str])] = &[
    ("pcap", &["source/live.rs", "source/live/"]),
    ("rusqlite", &["store/"]),
    ("ratatui", &["tui/"]),
    ("crossterm", &["tui/"]),
    ("clap", &["cli/args.rs", "cli/args/", "cli/mod.rs"]),
    ("parquet", &["export/parquet.rs"]),
    ("jsonc_parser", &["cli/install/config/json.rs"]),
    ("toml_edit", &["cli/check/config.rs", "cli/install/config/toml.rs"]),
];

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("src is readable") {
            let path = entry.expect("src is readable").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                found.push((path.strip_prefix(&root).expect("below src").to_owned(), text));
            }
        }
    }
    assert!(found.len() > 30, "the sources were found");
    found
}

/// The code of a file without its tests, which may use anything.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("test"))
}

/// The words that follow `prefix` in the code.
fn words_after<'t>(text: &'t str, prefix: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(prefix).map(move |(at, _)| {
        let rest = &text[at + prefix.len()..];
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    })
}

#[test]
fn layers_use_what_is_below_them() {
    let mut wrong = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path)) {
        let layer = path.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        let layer = layer.trim_end_matches(".rs");
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else { continue };
        for line in code(text).lines().filter(|line| !line.trim_start().starts_with("//")) {
            for used in words_after(line, "crate::") {
                if !used.is_empty() && !allowed.contains(&used) {
                    wrong.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "the dependency table of docs/architecture.md does not hold:\n{}", wrong.join("\n"));
}

#[test]
fn crates_stay_in_their_homes() {
    let mut wrong = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let name = path.to_string_lossy();
        for (foreign, homes) in HOMES {
            let uses = text.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
                let at = |needle: String| {
                    line.match_indices(&needle).any(|(at, _)| {
                        let before = line[..at].chars().next_back();
                        before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
                    })
                };
                at(format!("{foreign}::")) || line.trim_start().starts_with(&format!("use {foreign};"))
            });
            // The folder has a module of that name: the file says whose it means.
            let own = text.contains(&format!("source::{foreign}")) || text.contains(&format!("Source, {foreign}"));
            if uses && !homes.iter().any(|home| name.starts_with(home)) && !own {
                wrong.push(format!("{name} uses {foreign}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_stay_short_enough_to_read() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(path, text)| !is_test(path) && code(text).lines().count() > 500)
        .map(|(path, text)| format!("{}: {} lines", path.display(), code(text).lines().count()))
        .collect();
    assert!(long.is_empty(), "split by noun:\n{}", long.join("\n"));
}

#[test]
fn the_map_names_every_module() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md")).expect("the map");
    let missing: BTreeSet<String> = sources()
        .iter()
        .filter_map(|(path, _)| path.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned()))
        .filter(|first| !map.contains(first.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/architecture.md does not name {missing:?}");
}

#[test]
fn nothing_is_left_undone() {
    let marks = ["todo!(", "unimplemented!(", "dbg!(", concat!("FIX", "ME"), concat!("TO", "DO")];
    let left: Vec<String> = sources()
        .iter()
        .flat_map(|(path, text)| {
            marks.iter().filter(|mark| text.contains(**mark)).map(|mark| format!("{}: {mark}", path.display()))
        })
        .collect();
    assert!(left.is_empty(), "{}", left.join("\n"));
}

/// `wrap` and `read` start as fast as they do because nothing starts an asynchronous runtime.
#[test]
fn no_asynchronous_runtime_is_in_the_tree() {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).expect("the lock file");
    let packages: Vec<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(packages.contains(&"rusqlite"), "the packages were found");
    let runtimes = ["async-executor", "async-io", "async-std", "embassy-executor", "glommio", "monoio", "smol", "tokio"];
    let found: Vec<&str> = runtimes.into_iter().filter(|runtime| packages.contains(runtime)).collect();
    assert!(found.is_empty(), "{found:?} in Cargo.lock: cargo tree -i {}", found.join(" "));
}
