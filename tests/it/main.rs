//! All tests from outside the crates, in one binary.

mod cases;
mod check;
mod corpus;
mod databases;
mod decoded;
mod export;
mod faults;
mod first_steps;
mod following;
#[cfg(feature = "http")]
mod fuzz;
mod impatient;
mod laws;
mod limits;
mod losses;
mod midway;
mod mock;
mod output;
mod peers;
mod pipes;
mod program;
mod proxy;
mod public;
mod replay;
mod rewrite;
mod samples;
mod secrets;
mod shapes;
#[cfg(feature = "live")]
mod sniff;
#[path = "../support/mod.rs"]
mod support;
#[cfg(all(unix, feature = "tui"))]
mod terminal;
mod tidy;
mod timing;
mod tls;
mod totals;
mod wire;
mod wrapped;
