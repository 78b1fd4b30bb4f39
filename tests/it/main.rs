//! All tests from outside the crates, in one binary.

#[cfg(feature = "agents")]
mod agents;
#[cfg(all(feature = "attach", target_os = "linux"))]
mod attach;
mod bombs;
mod cases;
mod check;
mod corpus;
mod databases;
mod decoded;
mod deletion;
mod expectations;
mod export;
mod faults;
mod first_steps;
mod following;
#[cfg(feature = "http")]
mod fuzz;
mod home;
mod impatient;
mod imports;
mod known_databases;
mod laws;
mod limits;
mod losses;
mod masked;
mod midway;
mod mock;
mod mock_faults;
mod output;
mod page;
mod peers;
mod pipes;
mod program;
mod proxy;
mod public;
mod redaction;
mod replay;
mod rewrite;
mod samples;
mod secrets;
mod shapes;
#[cfg(feature = "live")]
mod sniff;
mod spills;
#[path = "../support/mod.rs"]
mod support;
mod temporary;
#[cfg(all(unix, feature = "tui"))]
mod terminal;
mod tidy;
mod timing;
mod tls;
mod totals;
mod wire;
mod wrapped;
