//! A saved session prepared for comparison. It is read once, and single answers are read again when
//! they are compared.

use std::hash::RandomState;
use std::sync::Arc;

use anyhow::Result;

use super::texts::Texts;
use crate::compare::pairing::ComparableRecording;
use crate::mcp::Session;
use crate::mcp::link::Why;
use crate::store::StoreReader;

/// A session to be compared.
pub struct ComparedSession {
    /// The saved session.
    pub session: Session,
    /// The requests of the session, with hashes of their answers.
    pub side: ComparableRecording,
    /// Reads answers from the store.
    pub texts: Texts,
}

impl ComparedSession {
    /// Reads a session.
    pub fn read(reader: &StoreReader, session: Session, hashes: &RandomState) -> Result<ComparedSession> {
        let copies = reader.linked(&session, Why::Redirect)?;
        let mut side = ComparableRecording::new(hashes, copies.into_iter().map(|(_, redirected)| redirected).collect());
        for message in reader.whole_conversation(&session) {
            side.take(&message?);
        }
        let texts = Texts::new(reader.place(), &session, Arc::default());
        Ok(ComparedSession { session, side, texts })
    }
}
