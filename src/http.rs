//! HTTP/1.1 as this program speaks it: `mock` is a server, `replay` a client, and `proxy` both.
//!
//! | file | contents |
//! |---|---|
//! | `listen` | accepts clients: address, number of connections, names of this program |
//! | `slots` | decides who is served when all connections are in use |
//! | `requests` | parses and checks the requests of a client, within bounds |
//! | `response` | heads of responses |
//! | `connection` | answers the requests of a connection one after another |
//! | `message_reader` | one message as it arrives |
//! | `origin` | the server that a URL names, and redirects |
//! | `connect`, `trust`, `socket` | a connection to a server, with or without TLS |
//! | `token` | secret words that requests need |
//! | `post` | posts one body after another to a server |
//! | `authority`, `accept` | TLS towards a client, in place of a server |
//!
//! The decoder for captures also reads these messages, so a message has the same meaning here as in
//! its recording. Decision 18 explains why no HTTP library is used.

#[cfg(feature = "http")]
pub mod accept;
#[cfg(feature = "http")]
pub mod authority;
#[cfg(feature = "http")]
pub mod connect;
pub mod connection;
pub mod listen;
pub mod message_reader;
#[cfg(feature = "http")]
pub mod origin;
#[cfg(feature = "http")]
pub mod post;
pub mod requests;
pub mod response;
pub mod slots;
#[cfg(feature = "http")]
pub mod socket;
pub mod token;
#[cfg(feature = "http")]
pub(crate) mod trust;
