//! The scripts of the GitHub action and of the example for GitLab, run as those services run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::program::{NO_STATE, mcptap, root};
use crate::support::waits::Finishes;

/// The scripts of a text in YAML: blocks that begin with `run: |` or `- |`, without their margin.
fn scripts(yaml: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        if !matches!(line.trim_start(), "run: |" | "- |") {
            continue;
        }
        let margin = line.len() - line.trim_start().len();
        let is_inside = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > margin;
        let mut block = Vec::new();
        while let Some(line) = lines.next_if(is_inside) {
            block.push(line);
        }
        let indent =
            block.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
        let indent = indent.min().expect("a script has a line");
        let block = block.iter().map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n");
        scripts.push(block.collect());
    }
    scripts
}

/// A folder of a job, with mcptap in its PATH and a recording in the database of the job.
struct Job(tempfile::TempDir);

impl Job {
    fn new() -> Job {
        let job = Job(tempfile::tempdir().expect("a folder"));
        let bin = job.path("bin");
        fs::create_dir(&bin).expect("writable");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcptap"), bin.join("mcptap")).expect("writable");
        let weather = root().join("samples/weather/capture.pcapng");
        let done = mcptap().arg("--db").arg(job.path("recordings.db")).args(["read", "--save"]).arg(weather).finished();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a script with these variables, as the shells of the services do.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).current_dir(self.0.path());
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("MCPTAP_DB", self.path("recordings.db")).env(NO_STATE.0, NO_STATE.1);
        command.env("GITHUB_OUTPUT", self.path("output")).env("GITHUB_STEP_SUMMARY", self.path("summary"));
        command.env("GITHUB_ACTION_PATH", root().join(".github/actions/check"));
        command.envs(variables.iter().copied()).finished()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_github_action_checks_a_recording() {
    let action = fs::read_to_string(root().join(".github/actions/check/action.yml")).expect("the action");
    let scripts = scripts(&action);
    let [install, check] = &scripts[..] else { panic!("two scripts: {scripts:?}") };
    let job = Job::new();
    let installed = job.run(install, &[]);
    assert!(installed.status.success() && said(&installed).contains("mcptap "), "{}", said(&installed));

    let inputs = [("TARGET", "latest"), ("EXPECT_FILE", ""), ("SARIF", "mcptap.sarif"), ("JUNIT", "mcptap.xml")];
    let with = |more: &[(&'static str, &'static str)]| [&inputs[..], more].concat();
    let held = job.run(check, &with(&[("FAIL_ON", "error"), ("EXPECT", "some tool = get_weather\n\nno tool = x\n")]));
    assert_eq!(held.status.code(), Some(0), "{}", said(&held));
    let sarif: Value = serde_json::from_str(&job.text("mcptap.sarif")).expect("SARIF is JSON");
    assert_eq!(sarif["version"], "2.1.0");
    assert!(job.text("mcptap.xml").starts_with("<?xml") && job.text("output").contains("status=0"));
    assert!(job.text("summary").contains("```text"));

    // What an input holds is never executed.
    let expect = "no tool = get_weather\nsome tool = \"$(touch executed)\"";
    let broken = job.run(check, &with(&[("FAIL_ON", "never"), ("EXPECT", expect)]));
    assert_eq!(broken.status.code(), Some(1), "{}", said(&broken));
    assert!(said(&broken).contains("broken") && !job.path("executed").exists());
    assert!(job.text("output").contains("status=1") && job.text("mcptap.sarif").contains("get_weather"));

    let wrong = job.run(check, &with(&[("FAIL_ON", "error"), ("EXPECT", "some tol = x")]));
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
}

/// The variables of the scripts are the inputs of the action, and each input is used.
#[test]
fn every_input_of_the_github_action_is_used() {
    let action = fs::read_to_string(root().join(".github/actions/check/action.yml")).expect("the action");
    let inputs = action.split("outputs:").next().and_then(|text| text.split_once("inputs:\n")).expect("inputs").1;
    let names = inputs.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
    let names: Vec<&str> = names.filter(|name| !name.starts_with(' ')).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    let page = fs::read_to_string(root().join("docs/ci.md")).expect("the page");
    for name in names {
        assert!(action.contains(&format!("${{{{ inputs.{name} }}}}")), "{name} is used");
        assert!(page.contains(&format!("`{name}`")), "{name} is documented");
    }
}

#[test]
fn the_example_for_gitlab_checks_a_recording() {
    let page = fs::read_to_string(root().join("docs/ci.md")).expect("the page");
    let example = page.split("## GitLab").nth(1).expect("the example");
    let scripts = scripts(example);
    let [script] = &scripts[..] else { panic!("one script: {scripts:?}") };
    let job = Job::new();
    let expectations = |text: &str| fs::write(Path::new(&job.path("ci.expect")), text).expect("writable");
    for (text, status) in [("some tool = get_weather\n", 0), ("no tool = get_weather\n", 1), ("some tol = x\n", 2)] {
        expectations(text);
        let done = job.run(script, &[("TARGET", "latest")]);
        assert_eq!(done.status.code(), Some(status), "{text}: {}", said(&done));
        assert_eq!(job.text("mcptap.xml").contains("<testsuite"), status < 2, "{text}");
    }
}
