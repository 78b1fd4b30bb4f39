//! Further options of a replay in its form, in the syntax of the command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::compare::Rule;
use crate::replay::Job;
use crate::replay::settings::Pace;
use crate::replay::target::Target;
use crate::view::command_line;

/// The text in an empty field.
pub const HINT: &str = "--calibrate  --pace recorded|fast|xN  --ignore PATH  --cacert FILE  --insecure";

/// The options of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayOptions {
    /// Whether values that vary by themselves are found first and then ignored.
    pub calibrate: bool,
    pace: Option<Pace>,
    ignored: Vec<Rule>,
    certificates: Option<PathBuf>,
    insecure: bool,
}

impl ReplayOptions {
    /// Parses the text of the field.
    ///
    /// # Errors
    /// The text is not valid. The error is a sentence.
    pub fn read(text: &str) -> Result<ReplayOptions> {
        let mut options = ReplayOptions::default();
        let mut words = command_line::words(text).context("options: a quote is not closed")?.into_iter();
        while let Some(word) = words.next() {
            // Both `--pace fast` and `--pace=fast` are accepted.
            let (name, value) =
                word.split_once('=').map_or((&*word, None), |(name, value)| (name, Some(value.to_owned())));
            let mut value =
                || value.clone().or_else(|| words.next()).with_context(|| format!("options: {name} needs a value"));
            match name {
                "--calibrate" => options.calibrate = true,
                "--insecure" => options.insecure = true,
                "--pace" => options.pace = Some(value()?.parse().map_err(|why| anyhow::anyhow!("options: {why}"))?),
                "--ignore" => options.ignored.push(value()?.parse().map_err(|why| anyhow::anyhow!("options: {why}"))?),
                "--cacert" => options.certificates = Some(value()?.into()),
                _ => bail!("options: {word} is unknown; known are {HINT}"),
            }
        }
        Ok(options)
    }

    /// Applies the options for reaching the server.
    pub fn reach(&self, target: &mut Target) -> Result<()> {
        match target {
            Target::Command(_) if self.insecure || self.certificates.is_some() => {
                bail!("options: --cacert and --insecure need a server at a URL")
            }
            Target::Command(_) => {}
            #[cfg(feature = "http")]
            Target::Url { options, .. } => {
                options.insecure = self.insecure;
                options.certificates = crate::http::connect::certificates(self.certificates.as_deref())?;
            }
        }
        Ok(())
    }

    /// Applies the options for running and comparing.
    pub fn apply(&self, job: &mut Job) {
        job.settings.pace = self.pace.unwrap_or(job.settings.pace);
        job.rules.ignored.extend(self.ignored.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_of_the_command_line() {
        let read =
            ReplayOptions::read("--calibrate --pace=x10 --ignore /a --ignore '/b c' --cacert \"a b.pem\"").unwrap();
        assert_eq!((read.calibrate, read.pace, read.ignored.len()), (true, Some(Pace::Recorded(10.0)), 2));
        assert_eq!(read.certificates, Some("a b.pem".into()));
        assert_eq!(ReplayOptions::read("  ").unwrap(), ReplayOptions::default());
        for wrong in ["--pace", "--pace slow", "--ignore a", "calibrate", "--cacert 'x"] {
            assert!(format!("{:#}", ReplayOptions::read(wrong).unwrap_err()).starts_with("options: "), "{wrong}");
        }
        let mut target = Target::command(vec!["server".into()]);
        assert!(ReplayOptions::read("--insecure").unwrap().reach(&mut target).is_err());
    }
}
