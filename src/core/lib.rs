//! core

mod capture;
mod decode;
mod event;
mod findings;
mod mcp;
mod pipeline;

#[cfg(test)]
#[path = "../../tests/support/core.rs"]
mod support;

#[doc(hidden)]
#[allow(missing_docs)]
pub mod internal;
