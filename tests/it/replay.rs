//! Recordings of a real server, compared with each other and sent again to servers that behave otherwise.

mod diff;
mod faults;
mod library;
pub mod scene;
mod servers;
