//! What mcptap writes for other programs.

pub mod pcapng;
