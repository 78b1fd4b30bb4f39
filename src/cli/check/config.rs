//! `mcptap.toml`: the findings that a project wants to see.
//!
//! ```toml
//! [check]
//! fail-on = "warning"
//! ignore = ["transport-deprecated", "http-*"]
//! baseline = "mcp-tools.json"
//!
//! [check.severity]
//! error-code-lsp = "warning"
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use crate::cli::args::{Check, FailOn};
use crate::cli::toml_error;
use crate::findings::{self, Severity};
use crate::store::FindingRow;

/// The whole file. Other commands may have sections of their own.
#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    check: CheckSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CheckSection {
    fail_on: Option<String>,
    #[serde(default)]
    only: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    baseline: Option<PathBuf>,
    #[serde(default)]
    severity: BTreeMap<String, String>,
}

/// The findings to report, and their severities.
#[derive(Debug)]
pub struct Config {
    pub fail_on: FailOn,
    only: Vec<String>,
    ignore: Vec<String>,
    pub baseline: Option<PathBuf>,
    severities: BTreeMap<String, Severity>,
}

impl Config {
    /// Reads the given file, else `mcptap.toml` in the working directory if it exists.
    pub fn read(path: Option<&Path>) -> Result<Config> {
        let default = Path::new("mcptap.toml");
        let Some(path) = path.or(default.is_file().then_some(default)) else {
            return Config::from_section(CheckSection::default());
        };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut config = Config::parse(&text).with_context(|| format!("cannot use {}", path.display()))?;
        // A path in the file is relative to the folder of the file.
        if let (Some(baseline), Some(folder)) = (&config.baseline, path.parent()) {
            config.baseline = Some(folder.join(baseline));
        }
        Ok(config)
    }

    fn parse(text: &str) -> Result<Config> {
        let file: File =
            toml_edit::de::from_str(text).map_err(|error| toml_error(text, error.message(), error.span()))?;
        Config::from_section(file.check)
    }

    fn from_section(section: CheckSection) -> Result<Config> {
        let fail_on = match section.fail_on.as_deref() {
            None => FailOn::Error,
            Some(name) => FailOn::named(name)
                .ok_or_else(|| anyhow!("fail-on must be error, warning, info or never, not {name:?}"))?,
        };
        let mut severities = BTreeMap::new();
        for (rule, name) in section.severity {
            let Some(severity) = Severity::named(&name) else {
                bail!("a severity must be error, warning or info, not {name:?}");
            };
            severities.insert(rule, severity);
        }
        let CheckSection { only, ignore, baseline, .. } = section;
        let config = Config { fail_on, only, ignore, baseline, severities };
        let patterns = config.only.iter().chain(&config.ignore).chain(config.severities.keys());
        check_patterns(patterns)?;
        Ok(config)
    }

    /// Adds the options of the command line. They have precedence over the file; `--ignore` is
    /// added to it.
    pub fn with(mut self, arguments: &Check) -> Result<Config> {
        check_patterns(arguments.only.iter().chain(&arguments.ignore))?;
        self.fail_on = arguments.fail_on.unwrap_or(self.fail_on);
        if !arguments.only.is_empty() {
            self.only.clone_from(&arguments.only);
        }
        self.ignore.extend(arguments.ignore.iter().cloned());
        self.baseline = arguments.baseline.clone().or(self.baseline);
        Ok(self)
    }

    /// Whether a finding is reported.
    pub fn wants(&self, row: &FindingRow) -> bool {
        let is_in = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, &row.rule));
        (self.only.is_empty() || is_in(&self.only)) && !is_in(&self.ignore)
    }

    /// The severity of a finding for this project.
    pub fn severity(&self, row: &FindingRow) -> Severity {
        self.severities.get(&row.rule).copied().unwrap_or(row.severity)
    }
}

/// Whether a rule's id matches a pattern: an id, or the beginning of one followed by `*`.
fn matches_pattern(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => id.starts_with(prefix),
        None => pattern == id,
    }
}

/// Checks that each pattern matches a rule. Without this check a misspelt rule would
/// be ignored silently.
fn check_patterns<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<()> {
    for pattern in patterns {
        if !findings::all().any(|rule| matches_pattern(pattern, rule.id)) {
            bail!("there is no rule {pattern:?}: \"mcptap rules\" lists all rules");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_severities_and_the_exit_status() {
        let text = "[check]\nfail-on = \"never\"\nignore = [\"http-*\"]\n[check.severity]\nerror-code-lsp = \"error\"";
        let config = Config::parse(text).expect("a good file");
        assert_eq!(config.fail_on, FailOn::Never);
        assert_eq!(config.severities["error-code-lsp"], Severity::Error);
    }

    #[test]
    fn misspelt_options_are_errors() {
        for text in ["[check]\nfail-on = \"x\"", "[check]\nignore = [\"no-such\"]", "[check]\nignroe = []"] {
            assert!(Config::parse(text).is_err(), "{text}");
        }
    }
}
