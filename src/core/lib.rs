//! core

mod capture;
mod decode;
mod event;
mod findings;
mod mcp;
mod pipeline;

#[doc(hidden)]
#[allow(missing_docs)]
pub mod internal;
