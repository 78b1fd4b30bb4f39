//! The findings of a capture file, without a store: only questions about other records need one.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::cli::args::Decoding;
use crate::cli::{stop, target};
use crate::engine::Listener;
use crate::event::{Detail, Event};
use crate::mcp::SessionNumber;
use crate::store::{self, CaptureId, FindingRow};

/// Decodes a capture file and returns its findings in order, or those of one session. They are the
/// same as those of its recording.
pub fn findings(path: PathBuf, session: Option<u32>, decoding: &Decoding) -> Result<Vec<FindingRow>> {
    let session = session.map(SessionNumber);
    let files = store::open_files(std::slice::from_ref(&path), false)?;
    let options = target::pipeline_options(decoding.keep_secrets, Detail::Messages, decoding.redaction()?);
    let mut gathered = Gathered { session, has_session: false, findings: Vec::new() };
    let stop = stop::before_cleaning()?;
    let counts = target::decode(files, decoding, options, &mut gathered, &stop, target::READING)?;
    target::note_blanked(&counts);
    if let (Some(number), false) = (session, gathered.has_session) {
        bail!(target::no_session(number, &format!(" {}", path.display())));
    }
    Ok(gathered.findings)
}

/// A listener that keeps the findings and nothing else.
struct Gathered {
    /// The session whose findings are wanted; `None` means all.
    session: Option<SessionNumber>,
    /// Whether that session exists.
    has_session: bool,
    findings: Vec<FindingRow>,
}

impl Listener for Gathered {
    fn event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Session(session) => self.has_session |= self.session == Some(session.number),
            Event::Finding(finding) if self.session.is_none() || self.session == finding.session => {
                let number = self.findings.len() as u64 + 1;
                self.findings.push(FindingRow::new(number, CaptureId(1), *finding));
            }
            _ => {}
        }
        Ok(())
    }
}
