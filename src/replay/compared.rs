//! A saved session as it is held against another: gone through once, its answers read again where they are asked for.

use std::hash::RandomState;
use std::sync::Arc;

use anyhow::Result;

use super::texts::Texts;
use crate::compare::pairing::ComparableRecording;
use crate::mcp::Session;
use crate::mcp::operations::Why;
use crate::store::Reader;

/// A session to be compared.
pub struct ComparedSession {
    /// The session.
    pub session: Session,
    /// What is compared.
    pub side: ComparableRecording,
    /// Its answers.
    pub texts: Texts,
}

impl ComparedSession {
    /// Reads a session.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn read(reader: &Reader, session: Session, hashes: &RandomState) -> Result<ComparedSession> {
        let copies = reader.linked(&session, Why::Redirect)?;
        let mut side = ComparableRecording::new(hashes, copies.into_iter().map(|(_, redirected)| redirected).collect());
        for message in reader.whole_conversation(&session) {
            side.take(&message?);
        }
        let texts = Texts::open(reader.place(), &session, Arc::default())?;
        Ok(ComparedSession { session, side, texts })
    }
}
