//! A saved session as it is held against another: gone through once, its answers read again where they are asked for.

use std::hash::RandomState;
use std::sync::Arc;

use anyhow::Result;

use super::texts::Texts;
use crate::compare::pairing::Side;
use crate::mcp::Session;
use crate::mcp::operations::Why;
use crate::store::StoreReader;

/// A session to be compared.
pub struct Compared {
    /// The session.
    pub session: Session,
    /// What is compared.
    pub side: Side,
    /// Its answers.
    pub texts: Texts,
}

impl Compared {
    /// Reads a session.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn read(reader: &StoreReader, session: Session, hashes: &RandomState) -> Result<Compared> {
        let copies = reader.linked(&session, Why::Redirect)?;
        let mut side = Side::new(hashes, copies.into_iter().map(|(_, redirected)| redirected).collect());
        for message in reader.whole_conversation(&session) {
            side.take(&message?);
        }
        let texts = Texts::open(reader.place(), &session, Arc::default())?;
        Ok(Compared { session, side, texts })
    }
}
