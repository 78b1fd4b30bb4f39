//! The ways between a client and a server that are compared: direct, through a minimal relay in C,
//! and through mcptap.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::median;

/// The number of rounds. Each measures all ways once. Other programs disturb some of the rounds, so
/// a median needs many.
pub const ROUNDS: usize = 9;

/// The way from a client to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Direct,
    Relay,
    Mcptap,
}

const WAYS: [Way; 3] = [Way::Direct, Way::Relay, Way::Mcptap];

/// The program of `relay.c`. It is compiled once in each run.
pub fn relay() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    Command::new(PROGRAM.get_or_init(|| {
        let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("relay");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/live/relay.c");
        let done = Command::new("cc").args(["-O2", "-pthread", source, "-o"]).arg(&program).status();
        assert!(done.expect("a C compiler is installed").success(), "relay.c can be compiled");
        program
    }))
}

/// The figures of one measurement, in the order direct, relay, mcptap.
#[derive(Debug)]
pub struct Compared {
    pub medians: [f64; 3],
    /// The median over the rounds of mcptap's figure divided by that of the relay.
    pub to_relay: f64,
}

/// Measures all ways in turn, so that a disturbance hits all of them.
pub fn turns(measure: impl Fn(Way) -> f64) -> Compared {
    let rounds: Vec<[f64; 3]> = (0..ROUNDS)
        .map(|round| {
            let mut figures = [0.0; 3];
            // Each round begins with another way.
            (round..round + 3).for_each(|at| figures[at % 3] = measure(WAYS[at % 3]));
            figures
        })
        .collect();
    let medians = [0, 1, 2].map(|way| median(rounds.iter().map(|figures| figures[way]).collect()));
    let to_relay = median(rounds.iter().map(|[_, relay, mcptap]| mcptap / relay).collect());
    Compared { medians, to_relay }
}

/// Prints the names of the columns of [`Compared::print`].
pub fn print_head(what: &str) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{what} on {cores} cores; medians of {ROUNDS} rounds, all ways in turn");
    println!("{:<17} {:>10} {:>10} {:>10}", "", "direct", "C relay", "mcptap");
}

impl Compared {
    /// Prints a line of the table for times, of which less is better.
    pub fn print_times(&self, what: &str, unit: &str) {
        let [direct, relay, mcptap] = self.medians;
        println!(
            "{what:<17} {direct:>10.1} {relay:>10.1} {mcptap:>10.1} {unit:<5} added: relay {:.1}, mcptap {:.1}",
            relay - direct,
            mcptap - direct
        );
    }

    /// Prints a line of the table for rates, of which more is better.
    pub fn print_rates(&self, what: &str, unit: &str) {
        let [direct, relay, mcptap] = self.medians;
        println!(
            "{what:<17} {direct:>10.0} {relay:>10.0} {mcptap:>10.0} {unit:<5} {:.0} % of direct, {:.0} % of the relay",
            mcptap * 100.0 / direct,
            self.to_relay * 100.0
        );
    }
}
