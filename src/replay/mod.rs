//! A recorded session, sent again.

pub mod recording;

pub use recording::Recording;
