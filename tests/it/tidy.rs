//! The invariants of `docs/architecture.md`, held by reading the source.

mod prose;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::waits::Finishes;

/// A layer, and what its files may use of the two crates.
const LAYERS: &[(&str, &[&str])] = &[
    ("core/capture", &["capture"]),
    ("core/decode", &["capture", "decode"]),
    ("core/mcp", &["capture", "decode", "mcp"]),
    ("core/findings", &["capture", "decode", "mcp", "findings"]),
    ("core/event", &["capture", "decode", "mcp", "findings"]),
    ("core/pipeline", &["capture", "decode", "mcp", "findings", "event", "pipeline"]),
    ("core/decoder", &["capture", "decode", "event", "pipeline"]),
    ("source", &["capture", "source"]),
    ("engine", &["capture", "source", "event", "pipeline", "store", "engine"]),
    ("store", &["capture", "source", "decode", "mcp", "findings", "event", "filter", "store"]),
    ("filter", &["capture", "decode", "mcp", "findings", "event", "filter"]),
    ("view", &["capture", "decode", "mcp", "findings", "event", "store", "filter", "view"]),
    ("http", &["capture", "decode", "http"]),
    ("mock", &["capture", "decode", "mcp", "filter", "http", "replay", "view", "compare", "mock"]),
    ("proxy", &["capture", "source", "decode", "http", "view", "replay", "mcp", "proxy"]),
    ("run", &["capture", "source", "decode", "run"]),
    ("compare", &["capture", "decode", "mcp", "view", "compare"]),
    (
        "replay",
        &[
            "capture", "source", "decode", "mcp", "event", "pipeline", "engine", "store", "filter", "view", "compare",
            "http", "replay",
        ],
    ),
    (
        "agents",
        &[
            "capture", "source", "decode", "mcp", "findings", "store", "filter", "view", "compare", "replay", "http",
            "agents",
        ],
    ),
    ("telemetry", &["capture", "source", "decode", "mcp", "event", "engine", "export", "http", "view", "telemetry"]),
    ("web", &["source", "decode", "export", "http", "store", "web"]),
    ("export", &["capture", "decode", "mcp", "findings", "event", "store", "view", "export"]),
    ("dataset", &["capture", "decode", "mcp", "findings", "event", "source", "store", "export", "http", "dataset"]),
];

/// What the core may not use: it does no input or output, starts no thread and reads no clock.
const NOT_IN_THE_CORE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net::Tcp",
    "std::net::Udp",
    "std::os",
    "std::process",
    "std::thread",
    "Instant",
    "SystemTime",
    "print!(",
    "println!(",
    "::now(",
];

/// What the core may depend on: crates that compute, and no others.
const CORE_DEPENDS_ON: &[&str] = &[
    "aes",
    "base64",
    "brotli-decompressor",
    "cbc",
    "ccm",
    "etherparse",
    "flate2",
    "jiff",
    "jsonschema",
    "loona-hpack",
    "memchr",
    "nom",
    "regex",
    "ring",
    "rustc-hash",
    "serde",
    "serde_json",
    "simdutf8",
    "zstd",
];

/// A crate with one home: where its name may stand.
const HOMES: &[(&str, &[&str])] = &[
    ("pcap", &["source/live.rs", "source/live/"]),
    ("aya", &["source/attach/probe.rs"]),
    ("rusqlite", &["store/"]),
    ("libdeflater", &["export/html/block.rs"]),
    ("ratatui", &["tui/"]),
    ("crossterm", &["tui/"]),
    ("clap", &["cli/args.rs", "cli/args/", "cli/mod.rs"]),
    ("rcgen", &["http/authority.rs"]),
    ("rustls", &["http/accept.rs", "http/authority.rs", "http/connect.rs", "http/socket.rs", "http/trust.rs"]),
    ("webpki_roots", &["http/trust.rs"]),
    ("parquet", &["export/parquet.rs", "export/parquet/"]),
    ("object_store", &["dataset/storage/bucket.rs"]),
    ("prost", &["export/otlp/proto.rs", "telemetry/collector.rs"]),
    ("rmcp", &["agents/"]),
    ("tokio", &["agents/", "dataset/storage/bucket.rs"]),
    ("hyper", &["agents/http.rs"]),
    ("hyper_util", &["agents/http.rs"]),
    ("http_body_util", &["agents/http.rs"]),
    ("jsonc_parser", &["cli/install/config/json.rs"]),
    ("saphyr_parser", &["cli/install/config/yaml.rs"]),
    ("toml_edit", &["cli/check/config.rs", "cli/install/config/toml.rs"]),
];

fn sources() -> Vec<(PathBuf, String)> {
    below("src")
}

/// The files of Rust in a folder, with their paths in it.
fn below(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
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
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test, "].iter().filter_map(|start| text.find(start)).min();
    &text[..tests.unwrap_or(text.len())]
}

/// Tests, and what only they use.
fn is_test(path: &Path) -> bool {
    path.ends_with("talk.rs") || path.iter().any(|part| part.to_string_lossy().starts_with("test"))
}

/// The words that follow `prefix` in the code.
fn words_after<'t>(text: &'t str, prefix: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(prefix).map(move |(at, _)| {
        let rest = &text[at + prefix.len()..];
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    })
}

/// The module of its crate that a file is or belongs to; that of the core begins with `core/`.
fn module(path: &Path) -> String {
    let mut names = path.iter().map(|name| name.to_string_lossy());
    let first = names.next().expect("a name");
    let name = match first.as_ref() {
        "core" => format!("core/{}", names.next().expect("a name")),
        _ => first.into_owned(),
    };
    name.trim_end_matches(".rs").to_owned()
}

/// The modules of its crate that a file without its tests uses, with the line.
fn used_modules(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = code(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| words_after(line, "crate::").map(move |used| (used, line.trim())))
}

#[test]
fn layers_use_what_is_below_them() {
    let mut wrong = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path)) {
        let layer = module(path);
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else { continue };
        wrong.extend(
            used_modules(text)
                .filter(|(used, _)| !allowed.contains(used))
                .map(|(_, line)| format!("{}: {line}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "the dependency table of docs/architecture.md does not hold:\n{}", wrong.join("\n"));
}

/// The layers are one reason that there are none. The others hold for modules that no layer is
/// named for, too.
#[test]
fn modules_do_not_use_each_other_in_circles() {
    let sources = sources();
    let modules: BTreeSet<String> = sources.iter().map(|(path, _)| module(path)).collect();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| !is_test(path)) {
        let user = module(path);
        let folder = if user.starts_with("core/") { "core/" } else { "" };
        let used = used_modules(text).map(|(used, _)| format!("{folder}{used}"));
        let used = used.filter(|used| *used != user && modules.contains(used));
        uses.entry(user.clone()).or_default().extend(used);
    }
    assert!(uses["core/pipeline"].contains("core/findings") && uses["tui"].contains("view"), "uses were found");
    // What uses only modules that are in no circle is in none. What is left are circles, and what
    // uses them.
    loop {
        let done: Vec<String> = uses
            .iter()
            .filter(|(_, used)| !used.iter().any(|used| uses.contains_key(used)))
            .map(|(name, _)| name.clone())
            .collect();
        if done.is_empty() {
            break;
        }
        uses.retain(|name, _| !done.contains(name));
    }
    assert!(uses.is_empty(), "these use each other in circles: {uses:#?}");
}

#[test]
fn the_core_only_computes() {
    let mut wrong = Vec::new();
    let sources = sources();
    for (path, text) in sources.iter().filter(|(path, _)| path.starts_with("core") && !is_test(path)) {
        let lines = code(text).lines().filter(|line| !line.trim_start().starts_with("//"));
        let found = lines.filter(|line| NOT_IN_THE_CORE.iter().any(|name| line.contains(name)));
        wrong.extend(found.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(wrong.is_empty(), "the core does no input or output:\n{}", wrong.join("\n"));
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core/Cargo.toml"));
    let manifest = manifest.expect("the core's manifest");
    assert!(!manifest.contains("[build-dependencies") && !manifest.contains("[target."), "one table of dependencies");
    let (_, table) = manifest.split_once("\n[dependencies]\n").expect("dependencies");
    let table = table.split_once("\n[").map_or(table, |(table, _)| table);
    let names = table.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim());
    let new: Vec<&str> = names.filter(|name| !CORE_DEPENDS_ON.contains(name) && !name.starts_with('#')).collect();
    assert!(new.is_empty(), "{new:?}: the core takes crates that compute, and no others");
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
    let missing: BTreeSet<String> =
        sources().iter().map(|(path, _)| module(path)).filter(|module| !map.contains(module.as_str())).collect();
    assert!(missing.is_empty(), "docs/architecture.md does not name {missing:?}");
}

/// A wait without a bound makes the whole run hang. `tests/support/waits.rs` has those with one.
#[test]
fn every_wait_of_a_test_has_a_bound() {
    let waits = [".wait", ".wait_with_output", ".output", ".recv", ".join"].map(|name| format!("{name}()"));
    let unit_tests = below("src").into_iter().filter(|(path, _)| is_test(path));
    let mut unbound = Vec::new();
    for (path, text) in below("tests/it").into_iter().chain(unit_tests) {
        let lines = text.lines().filter(|line| waits.iter().any(|wait| line.contains(wait)));
        unbound.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(unbound.is_empty(), "{}", unbound.join("\n"));
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

/// `internal` is no second façade: whoever adds to it does so here, too, where a review sees it.
#[test]
fn internal_lists_what_the_program_uses_of_the_core() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("src/core/internal.rs")).expect("internal.rs");
    let mut names = BTreeSet::new();
    for rest in text.split("pub use crate::").skip(1) {
        let (used, _) = rest.split_once(';').expect("the end of a use");
        let (path, last) = used.rsplit_once("::{").or_else(|| used.rsplit_once("::")).expect("a path");
        let items = last.trim_end_matches('}').split(',').map(str::trim).filter(|item| !item.is_empty());
        names.extend(items.map(|item| format!("{path}::{item}")));
    }
    assert!(!names.iter().any(|name| name.ends_with('*')), "names are listed one by one");
    let listed = fs::read_to_string(root.join("tests/it/internal.txt")).expect("internal.txt");
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let added: Vec<&String> = names.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&names).collect();
    assert!(added.is_empty() && gone.is_empty(), "tests/it/internal.txt: added {added:#?}, gone {gone:#?}");
}

/// `wrap` and `read` start as fast as they do because nothing starts an asynchronous runtime. Only
/// the server for agents has one (decision 8), behind a feature that is not enabled by default.
#[test]
fn no_asynchronous_runtime_is_in_the_default_tree() {
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--locked", "-p", "mcptap", "-e", "normal", "--prefix", "none"]);
    let listed = tree.current_dir(env!("CARGO_MANIFEST_DIR")).finished();
    let text = String::from_utf8(listed.stdout).expect("text");
    let packages: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(packages.contains("rusqlite"), "{}", String::from_utf8_lossy(&listed.stderr));
    let runtimes =
        ["async-executor", "async-io", "async-std", "embassy-executor", "glommio", "monoio", "smol", "tokio"];
    let found: Vec<&str> = runtimes.into_iter().filter(|runtime| packages.contains(runtime)).collect();
    assert!(found.is_empty(), "{found:?} by default: cargo tree -i {}", found.join(" "));
}
