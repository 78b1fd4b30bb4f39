//! An MCP server over the store, for agents that look for the cause of a problem.
//!
//! ```text
//!  stdio, http ─► server (rmcp) ─► tools ─► store, view, compare        read only
//!                     │              │
//!                     │              └► answer: bounded, paged, with a hint how to narrow down
//!                     └► resources, prompts            recorded: masked, visible, marked as data
//! ```
//!
//! A recording may be hostile: a server can write "ignore your instructions" into the name of a
//! tool. So recorded text is never mixed with text of mcptap. It is in members named `recorded`, or
//! is a short name. Hidden characters are made visible, and each answer says that it holds data.

pub mod answer;
mod http;
mod prompts;
mod recorded;
mod resources;
pub mod server;
mod tools;

pub use server::{serve_http, serve_stdio};
