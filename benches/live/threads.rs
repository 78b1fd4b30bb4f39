//! What the threads of a process used.

use std::collections::BTreeMap;
use std::fs;
use std::process::Child;

/// What a thread used so far, or all threads of one name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadCost {
    /// Seconds on a processor.
    pub seconds: f64,
    /// The times that it slept.
    pub sleeps: f64,
    /// Pages of memory that the kernel had to supply.
    pub faults: f64,
}

/// What the threads of a process used so far, by name (proc(5): comm, schedstat, status and stat).
pub fn costs(child: &Child) -> BTreeMap<String, ThreadCost> {
    let mut costs = BTreeMap::<String, ThreadCost>::new();
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    for thread in threads {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
        let status = read("status");
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let stat = read("stat");
        // The second field is the name in parentheses. Minor faults are the tenth.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let cost = costs.entry(read("comm").trim().to_owned()).or_default();
        cost.seconds += number(read("schedstat").split(' ').next()) / 1e9;
        cost.sleeps += number(sleeps.map(str::trim));
        cost.faults += number(after_name.split_whitespace().nth(7));
    }
    costs
}
