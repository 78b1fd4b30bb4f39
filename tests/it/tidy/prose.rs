//! Plain English, as far as it can be counted: the length of sentences, the width of comments, doc
//! comments that say nothing, and type names that stand for several things.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words of a sentence. A longer one has to be read twice.
const LONGEST_SENTENCE: usize = 35;

/// Words of a sentence on average, over the sentences of a file.
const MEAN_SENTENCE: usize = 18;

/// Sentences below which a mean means little.
const ENOUGH_SENTENCES: usize = 20;

/// Columns of a line of comment, with its indentation.
const COMMENT_WIDTH: usize = 100;

/// Things that one type name may stand for.
const SAME_NAME: usize = 3;

/// The files below a folder of the repository whose names end with `.extension`, with their texts.
/// Generated folders and captures of others are left out.
fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut open = vec![root.join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("a folder of the repository").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && !["target", "corpus", "artifacts", "captures"].contains(&name.as_str()) {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("a text");
                found.push((path.strip_prefix(root).expect("below the root").to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds no .{extension}");
    found
}

/// All source files: of the program, of its tests and of its benchmarks.
fn sources() -> Vec<(PathBuf, String)> {
    ["src", "tests", "benches"].into_iter().flat_map(|folder| files(folder, "rs")).collect()
}

fn pages() -> Vec<(PathBuf, String)> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("README.md");
    let mut pages = vec![(PathBuf::from("README.md"), readme)];
    for folder in ["docs", "tests", "src"] {
        pages.extend(files(folder, "md"));
    }
    pages
}

/// The text with each code span as one word, each link as its label, and without emphasis.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (at, part) in text.split('`').enumerate() {
        plain.push_str(if at % 2 == 0 { part } else { "code" });
    }
    let mut unlinked = String::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        let label = before.rfind('[').map_or(before.to_owned(), |at| before[..at].to_owned() + &before[at + 1..]);
        unlinked.push_str(&label);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    (unlinked + rest).replace("**", "")
}

/// The sentences of a paragraph. A sentence ends before a capital letter, a quote or a bracket.
fn sentences(paragraph: &str) -> Vec<String> {
    let text: Vec<char> = plain(paragraph).chars().collect();
    let mut found = vec![String::new()];
    for (at, c) in text.iter().enumerate() {
        let ends = at > 0 && matches!(text[at - 1], '.' | '!' | '?' | ':') && c.is_whitespace();
        let next = text[at..].iter().find(|c| !c.is_whitespace());
        if ends && next.is_some_and(|c| c.is_ascii_uppercase() || matches!(c, '"' | '(')) {
            found.push(String::new());
        }
        found.last_mut().expect("one at least").push(*c);
    }
    found
}

fn words(sentence: &str) -> usize {
    let inside = |c: char| c.is_ascii_alphanumeric() || "'’./%-".contains(c);
    sentence.split(|c| !inside(c)).filter(|word| word.contains(|c: char| c.is_ascii_alphanumeric())).count()
}

/// The paragraphs of a page, without tables, headings and code.
fn paragraphs_of_a_page(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in text.lines() {
        let fence = line.starts_with("```");
        in_code ^= fence;
        let line = line.trim();
        let is_item = line.starts_with("- ")
            || line.starts_with("* ")
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        let skipped = in_code || fence || line.is_empty() || line.starts_with(['|', '#', '<']);
        if skipped || is_item {
            found.push(String::new());
        }
        if !skipped {
            let last = found.last_mut().expect("one at least");
            last.push_str(if is_item { line.split_once(' ').expect("an item").1 } else { line });
            last.push(' ');
        }
    }
    found
}

/// The paragraphs of the comments of a source file, without drawings, tables and code.
fn paragraphs_of_comments(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in text.lines() {
        let comment = comment(line);
        let words = comment.unwrap_or_default();
        in_code = comment.is_some() && (in_code ^ words.starts_with("```"));
        let drawn = in_code || words.starts_with("   ") || words.contains(['─', '│', '►', '└', '┌', '├']);
        let starts = ["|", "#", "```", "* ", "- "].iter().any(|start| words.trim_start().starts_with(start));
        if drawn || starts || words.trim().is_empty() {
            found.push(String::new());
        } else {
            let last = found.last_mut().expect("one at least");
            last.push_str(words.trim());
            last.push(' ');
        }
    }
    found
}

/// The words of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    let rest = rest.strip_prefix(['/', '!']).unwrap_or(rest);
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// The sentences that are too long, and the files whose sentences are too long on average.
fn hard_to_read(texts: &[(PathBuf, String)], paragraphs: fn(&str) -> Vec<String>) -> Vec<String> {
    let mut hard = Vec::new();
    for (path, text) in texts {
        let sentences: Vec<String> = paragraphs(text).iter().flat_map(|paragraph| sentences(paragraph)).collect();
        let lengths: Vec<usize> = sentences.iter().map(|sentence| words(sentence)).filter(|n| *n > 0).collect();
        if lengths.len() >= ENOUGH_SENTENCES && lengths.iter().sum::<usize>() > MEAN_SENTENCE * lengths.len() {
            hard.push(format!("{}: more than {MEAN_SENTENCE} words on average", path.display()));
        }
        let long = sentences.iter().filter(|sentence| words(sentence) > LONGEST_SENTENCE);
        hard.extend(long.map(|sentence| format!("{}: {} words: {sentence}", path.display(), words(sentence))));
    }
    hard
}

#[test]
fn sentences_are_short_enough_to_be_read_once() {
    let hard =
        [hard_to_read(&pages(), paragraphs_of_a_page), hard_to_read(&sources(), paragraphs_of_comments)].concat();
    assert!(hard.is_empty(), "{}", hard.join("\n"));
}

#[test]
fn comments_fit_beside_code() {
    let mut wide = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().enumerate().filter(|(_, line)| comment(line).is_some());
        let lines = lines.filter(|(_, line)| line.chars().count() > COMMENT_WIDTH);
        wide.extend(lines.map(|(at, _)| format!("{}:{}", path.display(), at + 1)));
    }
    assert!(wide.is_empty(), "wider than {COMMENT_WIDTH} columns:\n{}", wide.join("\n"));
}

/// A doc comment of one or two words says less than a better name would.
#[test]
fn doc_comments_say_something() {
    let mut empty = Vec::new();
    for (path, text) in sources() {
        let docs = text.lines().enumerate().filter_map(|(at, line)| {
            let words = line.trim_start().strip_prefix("/// ")?.strip_suffix('.')?;
            let is_name = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
            (words.split(' ').count() <= 2 && words.split(' ').all(is_name)).then_some((at, words))
        });
        empty.extend(docs.map(|(at, words)| format!("{}:{}: {words}.", path.display(), at + 1)));
    }
    assert!(empty.is_empty(), "{}", empty.join("\n"));
}

/// A name that stands for many things tells a reader nothing about the one at hand.
#[test]
fn a_type_name_means_one_thing() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let public = words.first().is_some_and(|word| word.starts_with("pub"));
            let [kind, name, ..] = &words[usize::from(public).min(words.len())..] else { continue };
            // An associated type has the name that its trait gives.
            let is_associated = *kind == "type" && line.starts_with(' ');
            if ["struct", "enum", "trait", "type", "union"].contains(kind) && !is_associated {
                let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                places.entry(name.to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
    assert!(places.len() > 500, "the types were found");
    let many: Vec<_> = places.into_iter().filter(|(_, places)| places.len() > SAME_NAME).collect();
    assert!(many.is_empty(), "{many:#?}");
}

#[test]
fn sentences_are_counted_as_they_are_read() {
    let text = "One `a b c` two. Three [four five](six seven): Eight. nine 3.5 ten";
    assert_eq!(sentences(text).iter().map(|sentence| words(sentence)).collect::<Vec<_>>(), [3, 3, 4]);
    let page = "# Title\ntext of\ntwo lines\n\n- item\n  goes on\n\n| a | table |\n```\ncode\n```\n1. last";
    let paragraphs: Vec<String> = paragraphs_of_a_page(page).into_iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(paragraphs, ["text of two lines ", "item goes on ", "last "]);
    let code = "//! About\n//! this.\n\nfn main() {} // not alone\n    /// ```\n    /// code\n    /// ```\n    // end";
    let paragraphs: Vec<String> = paragraphs_of_comments(code).into_iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(paragraphs, ["About this. ", "end "]);
}
