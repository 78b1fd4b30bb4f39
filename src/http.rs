//! HTTP/1.1 as this program speaks it itself: `mock` is a server, `replay` a client, and `proxy` stands between the two.
//!
//! | file | contents |
//! |---|---|
//! | `listen` | listening for clients: the address, the number of connections, the names of this program |
//! | `requests` | the requests of a client, within bounds; the checks of their heads |
//! | `response` | the text of a response |
//! | `message_reader` | one message as it arrives |
//! | `origin` | the server that a URL names, and redirects |
//! | `connect`, `trust`, `socket` | a connection to a server, with or without TLS |
//!
//! Messages are read by the decoder that reads captures, so a message means the same here as in a record of it. Decision 18 says why no library speaks
//! HTTP for us.

#[cfg(feature = "http")]
pub mod connect;
pub mod listen;
pub mod message_reader;
#[cfg(feature = "http")]
pub mod origin;
pub mod requests;
pub mod response;
#[cfg(feature = "http")]
pub mod socket;
#[cfg(feature = "http")]
mod trust;
