//! `docs/tutorial.md` shows commands and their output. This test runs the commands and compares.
//!
//! ```text
//! UPDATE_EXPECT=1 cargo test --features full --test it -- tutorial      writes the output anew
//! ```

use std::fs;
use std::process::Command;

use regex::Regex;

use crate::program::{NO_STATE, root};
use crate::support::signals::default_in_programs;
use crate::support::waits::Finishes;

/// The home folder that the page shows.
const HOME: &str = "/home/you";

/// Begins the output of a command.
const MARK: char = '\u{1}';

/// A line of the page, or a command with its output.
enum PagePart<'a> {
    Line(&'a str),
    Command(&'a str, String),
}

fn parts(page: &str) -> Vec<PagePart<'_>> {
    let mut parts = Vec::new();
    let mut in_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_console = line == "```console";
            parts.push(PagePart::Line(line));
            continue;
        }
        match (line.strip_prefix("$ "), parts.last_mut()) {
            (Some(command), _) if in_console => parts.push(PagePart::Command(command, String::new())),
            (None, Some(PagePart::Command(_, output))) if in_console => *output += &format!("{line}\n"),
            _ => parts.push(PagePart::Line(line)),
        }
    }
    parts
}

/// Runs all commands in one shell, in an empty home folder. Returns the output of each.
fn run(commands: &[&str]) -> Vec<String> {
    default_in_programs();
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("you");
    fs::create_dir(&home).expect("a folder");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_mcptap"));
    let path = format!("{}:{}", program.parent().expect("a folder").display(), std::env::var("PATH").expect("a path"));
    let lines: String = commands.iter().map(|command| format!("printf '\\001'\n{command}\n")).collect();
    let done = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{lines}")])
        .env_clear()
        .envs([("PATH", path.as_str()), ("COLUMNS", "120"), ("TZ", "UTC"), NO_STATE])
        .env("HOME", &home)
        .current_dir(&home)
        .finished();
    let output = String::from_utf8(done.stdout).expect("text").replace(&home.display().to_string(), HOME);
    let output = output.replace(&program.display().to_string(), "/usr/bin/mcptap");
    output.split(MARK).skip(1).map(str::to_owned).collect()
}

/// The text without what differs from run to run: times, process ids, blanks that align them.
fn comparable(text: &str) -> String {
    let time = Regex::new(r"[0-9][0-9.]* ?(ns|µs|ms|s)\b").expect("a pattern");
    let number = Regex::new(r"[0-9]+").expect("a pattern");
    let text = number.replace_all(&time.replace_all(text, "T"), "0").into_owned();
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>().join(" "));
    lines.collect::<Vec<String>>().join("\n").trim_end().to_owned()
}

#[test]
fn the_tutorial_shows_what_its_commands_print() {
    let file = root().join("docs/tutorial.md");
    let page = fs::read_to_string(&file).expect("the tutorial");
    let parts = parts(&page);
    let commands: Vec<&str> = parts
        .iter()
        .filter_map(|part| if let PagePart::Command(command, _) = part { Some(*command) } else { None })
        .collect();
    assert!(commands.len() >= 15, "the tutorial lost its commands");
    let outputs = run(&commands);
    assert_eq!(outputs.len(), commands.len());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let mut outputs = outputs.iter();
        let text = parts.iter().map(|part| match part {
            PagePart::Line(line) => format!("{line}\n"),
            PagePart::Command(command, _) => {
                let output = outputs.next().expect("an output").trim_end();
                format!("$ {command}\n{output}{}", if output.is_empty() { "" } else { "\n" })
            }
        });
        fs::write(&file, text.collect::<String>()).expect("the tutorial can be written");
        return;
    }
    let shown =
        parts.iter().filter_map(|part| if let PagePart::Command(_, output) = part { Some(output) } else { None });
    for ((command, shown), output) in commands.iter().zip(shown).zip(&outputs) {
        assert_eq!(comparable(shown), comparable(output), "$ {command}\n{output}");
    }
}
