//! Recordings of a real server, compared with each other and replayed to servers that behave
//! differently.

mod diff;
mod faults;
mod library;
pub mod scene;
mod servers;
