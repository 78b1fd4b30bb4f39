//! Hosts and their STDIO servers, found in a snapshot.
//!
//! A host and a server are joined by two channels, one in each direction. Both ends of a channel
//! are found by the inode of a pipe, or by the peer of a socket. Launchers (`npx`, `uv`, shells)
//! inherit the same ends as the server, so all processes with the same ends are one [`Pair`].
//!
//! Descriptor numbers are used for one thing only: to tell stdin, stdout and stderr apart where all
//! three lead to the same host. Some servers move their standard streams (the Python SDK) and keep
//! `/dev/null` in their place. Of these only the command tells that they are servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::processes::{Object, OpenEnd, Process, Snapshot};
use crate::source::command::{names_mcp, program};

/// A host and one of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The process id of the host.
    pub host: u32,
    /// The process id of the server: of the processes that share its ends, the last launched.
    pub server: u32,
    /// All processes that share its ends, launchers first.
    pub processes: Vec<u32>,
    /// The server's ends.
    pub ends: Ends,
    /// Whether a command line names MCP.
    pub names_mcp: bool,
}

/// The ends of a server that lead to one host, by their purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Those that carry what the host writes.
    pub stdin: BTreeSet<Object>,
    /// Those that carry what the server writes.
    pub stdout: BTreeSet<Object>,
    /// Those for log output, where the host reads them.
    pub stderr: BTreeSet<Object>,
}

/// Finds all pairs, those that name MCP first, then by process id.
pub fn pairs(snapshot: &Snapshot) -> Vec<Pair> {
    let holders = Holders::new(snapshot);
    let mut groups: BTreeMap<(Object, u32), Vec<(u32, Ends)>> = BTreeMap::new();
    for process in snapshot.processes.values() {
        for (host, candidates) in holders.connected(process) {
            // Launchers and the server are grouped by the channel that they all inherit.
            if let Some(first) = candidates.iter().filter(|end| end.reads).map(|end| end.object).min() {
                let ends = holders.purposes(host, &candidates);
                groups.entry((first, host)).or_default().push((process.id, ends));
            }
        }
    }
    let pairs = groups.into_iter().filter_map(|((_, host), members)| pair(snapshot, host, members));
    let mut pairs: Vec<Pair> = nearest_hosts(snapshot, pairs.collect());
    pairs.sort_by_key(|pair| (!pair.names_mcp, pair.server));
    pairs
}

/// A snapshot, with the processes that hold an end of each object.
struct Holders<'s> {
    snapshot: &'s Snapshot,
    of: HashMap<Object, Vec<(u32, OpenEnd)>>,
}

impl Holders<'_> {
    fn new(snapshot: &Snapshot) -> Holders<'_> {
        let mut of: HashMap<Object, Vec<(u32, OpenEnd)>> = HashMap::new();
        for process in snapshot.processes.values() {
            for end in &process.ends {
                of.entry(end.object).or_default().push((process.id, *end));
            }
        }
        Holders { snapshot, of }
    }

    /// The processes at the other side of an end.
    fn others(&self, end: OpenEnd) -> BTreeSet<u32> {
        let other = match end.object {
            Object::Pipe(_) => Some(end.object),
            Object::Socket(inode) => self.snapshot.peers.get(&inode).map(|peer| Object::Socket(*peer)),
        };
        let held = other.and_then(|other| self.of.get(&other)).into_iter().flatten();
        held.filter(|(_, other)| (end.reads && other.writes) || (end.writes && other.reads))
            .map(|(id, _)| *id)
            .collect()
    }

    /// The hosts of a process, each with the ends that lead to it in both directions.
    fn connected(&self, process: &Process) -> BTreeMap<u32, Vec<OpenEnd>> {
        let mut hosts: BTreeMap<u32, Vec<OpenEnd>> = BTreeMap::new();
        for end in &process.ends {
            for host in self.others(*end).into_iter().filter(|host| is_host_of(self.snapshot, *host, process)) {
                hosts.entry(host).or_default().push(*end);
            }
        }
        hosts.retain(|_, ends| ends.iter().any(|end| end.reads) && ends.iter().any(|end| end.writes));
        hosts
    }

    /// Tells the purposes of a server's ends apart.
    fn purposes(&self, host: u32, candidates: &[OpenEnd]) -> Ends {
        let reads: BTreeSet<Object> = candidates.iter().filter(|end| end.reads).map(|end| end.object).collect();
        let writes: BTreeSet<Object> = candidates.iter().filter(|end| end.writes).map(|end| end.object).collect();
        // The number may be that in any process that shares the object. A launcher still has the
        // numbers that a server moved away from.
        let has = |object: &Object, number: u32| {
            let mut held = self.of.get(object).into_iter().flatten().filter(|(_, end)| end.descriptor == number);
            held.any(|(id, _)| *id != host && !self.snapshot.descends(host, *id))
        };
        let at = |number: u32, among: &BTreeSet<Object>| -> BTreeSet<Object> {
            among.iter().copied().filter(|object| has(object, number)).collect()
        };
        let (zero, one, two) = (at(0, &reads), at(1, &writes), at(2, &writes));
        // Moved: whatever else leads to the host. A socket carries both directions, but one is
        // used.
        let moved = |all: &BTreeSet<Object>| all - &two;
        let stdin = if zero.is_empty() { moved(&reads) } else { zero.clone() };
        // The Python SDK leads its descriptor 1 to standard error. A shell's `2>&1` does the
        // opposite.
        let mut stdout = &one - &two;
        if stdout.is_empty() {
            stdout = &moved(&writes) - &zero;
        }
        if stdout.is_empty() {
            stdout = one;
        }
        let stderr = &two - &stdout;
        Ends { stdin, stdout, stderr }
    }
}

/// Of two connected processes the host is the ancestor. Of strangers it is the older one: a
/// container's server is not a descendant of its host.
fn is_host_of(snapshot: &Snapshot, host: u32, process: &Process) -> bool {
    if host == process.id || snapshot.descends(host, process.id) {
        return false;
    }
    let Some(other) = snapshot.processes.get(&host) else { return false };
    snapshot.descends(process.id, host) || (other.started, other.id) < (process.started, process.id)
}

/// The pair that processes with the same ends make.
fn pair(snapshot: &Snapshot, host: u32, members: Vec<(u32, Ends)>) -> Option<Pair> {
    let ids: Vec<u32> = members.iter().map(|(id, _)| *id).collect();
    let server = innermost(snapshot, &ids)?;
    let mut ends = Ends::default();
    for (_, of_member) in members {
        ends.stdin.extend(of_member.stdin);
        ends.stdout.extend(of_member.stdout);
        ends.stderr.extend(of_member.stderr);
    }
    ends.stderr = &ends.stderr - &ends.stdout;
    let names_mcp = ids.iter().any(|id| names_mcp(snapshot.command(*id)));
    let has_number = |objects: &BTreeSet<Object>, number: u32| {
        let of = |id: &u32| snapshot.processes.get(id).map(|process| process.ends.as_slice()).unwrap_or_default();
        ids.iter().flat_map(of).any(|end| end.descriptor == number && objects.contains(&end.object))
    };
    let is_standard = has_number(&ends.stdin, 0) && has_number(&ends.stdout, 1);
    let is_python =
        ids.iter().any(|id| snapshot.command(*id).first().is_some_and(|word| program(word).starts_with("python")));
    // Other programs use sockets between their processes too, such as browsers.
    let is_pair = !ends.stdin.is_empty() && !ends.stdout.is_empty() && (is_standard || is_python || names_mcp);
    is_pair.then_some(Pair { host, server, processes: ids, ends, names_mcp })
}

/// The process that the others launched: from the first of them to its child, as long as there
/// is exactly one.
fn innermost(snapshot: &Snapshot, ids: &[u32]) -> Option<u32> {
    let parent = |id: u32| snapshot.ancestors(id).skip(1).find(|ancestor| ids.contains(ancestor));
    let mut current = ids.iter().copied().find(|id| parent(*id).is_none())?;
    loop {
        let mut children = ids.iter().copied().filter(|id| parent(*id) == Some(current));
        match (children.next(), children.next()) {
            (Some(only), None) => current = only,
            _ => return Some(current),
        }
    }
}

/// Of several hosts of a server, the one that is nearest to it: a process between them that still
/// holds the ends does not use them.
fn nearest_hosts(snapshot: &Snapshot, pairs: Vec<Pair>) -> Vec<Pair> {
    let distance =
        |pair: &Pair| snapshot.ancestors(pair.server).position(|ancestor| ancestor == pair.host).unwrap_or(usize::MAX);
    let mut nearest: BTreeMap<u32, Pair> = BTreeMap::new();
    for pair in pairs {
        match nearest.get(&pair.server) {
            Some(before) if distance(before) <= distance(&pair) => {}
            _ => drop(nearest.insert(pair.server, pair)),
        }
    }
    // A launcher that lost some of the ends makes a pair of its own with the same server below it.
    let members: BTreeSet<u32> =
        nearest.values().flat_map(|pair| pair.processes.iter().copied().filter(|id| *id != pair.server)).collect();
    nearest.into_values().filter(|pair| !members.contains(&pair.server)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine in words: `id parent command | descriptor=object ...`, where an object is `p1<` (a
    /// pipe, read), `p1>` (written) or `s1` (a socket, whose peer is `S1`).
    fn machine(text: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (started, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            let (head, ends) = line.split_once('|').expect("a line has ends");
            let mut words = head.split_whitespace();
            let mut number = || words.next().expect("a number").parse().expect("a number");
            let (id, parent) = (number(), number());
            let command = words.map(str::to_owned).collect();
            let ends = ends.split_whitespace().map(|end| {
                let (descriptor, object) = end.split_once('=').expect("number=object");
                let (reads, writes) = (!object.ends_with('>'), !object.ends_with('<'));
                let inode = object[1..].trim_end_matches(['<', '>']).parse::<u64>().expect("a number");
                let object = match object.as_bytes()[0] {
                    b'p' => Object::Pipe(inode),
                    b's' => Object::Socket(inode),
                    _ => Object::Socket(1_000 + inode),
                };
                if let Object::Socket(inode) = object {
                    snapshot.peers.insert(inode, if inode > 1_000 { inode - 1_000 } else { inode + 1_000 });
                }
                OpenEnd { descriptor: descriptor.parse().expect("a number"), object, reads, writes }
            });
            let ends = ends.collect();
            let process = Process { id, parent, started: started as u64, command, ends, is_readable: true };
            snapshot.processes.insert(id, process);
        }
        snapshot
    }

    fn shown(snapshot: &Snapshot) -> Vec<String> {
        let objects = |objects: &BTreeSet<Object>| {
            let words = objects.iter().map(|object| match object {
                Object::Pipe(inode) => format!("p{inode}"),
                Object::Socket(inode) => format!("s{inode}"),
            });
            words.collect::<Vec<_>>().join("+")
        };
        let line = |pair: &Pair| {
            format!(
                "{}-{} {:?} {} {} {}",
                pair.host,
                pair.server,
                pair.processes,
                objects(&pair.ends.stdin),
                objects(&pair.ends.stdout),
                objects(&pair.ends.stderr)
            )
        };
        pairs(snapshot).iter().map(line).collect()
    }

    #[test]
    fn launchers_and_their_server_are_one_pair() {
        let machine = machine(
            "1 0 init |
             10 1 node host.js | 20=p1> 21=p2< 22=p3< 23=p9>
             11 10 npm exec server-everything | 0=p1< 1=p2> 2=p3>
             12 11 sh -c server-everything | 0=p1< 1=p2> 2=p3>
             13 12 node server-everything | 0=p1< 1=p2> 2=p3> 30=p4>
             14 13 helper | 0=p4<",
        );
        assert_eq!(shown(&machine), ["10-13 [11, 12, 13] p1 p2 p3"]);
    }

    #[test]
    fn a_server_that_moved_its_pipes_is_found() {
        let python = "10 1 python3 host.py | 5=p1> 6=p2<
                      11 10 python3 server.py | 6=p1< 7=p2>";
        assert_eq!(shown(&machine(python)), ["10-11 [11] p1 p2 "]);
        let under_node = "10 1 node host.js | 20=S1 21=S2 22=S3
                          11 10 uv run server.py | 0=s1 1=s2 2=s3
                          12 11 python3.12 server.py | 1=s3 2=s3 6=s1 7=s2";
        assert_eq!(shown(&machine(under_node)), ["10-12 [11, 12] s1 s2 s3"]);
        let alone = "10 1 node host.js | 20=S1 21=S2 22=S3
                     12 10 python3.12 server.py | 1=s3 2=s3 6=s1 7=s2";
        assert_eq!(shown(&machine(alone)), ["10-12 [12] s1+s2 s1+s2 s3"], "a socket that is not used carries nothing");
    }

    #[test]
    fn two_servers_of_one_host_are_two_pairs_and_the_one_that_names_mcp_is_first() {
        let machine = machine(
            "10 1 host | 3=p1> 4=p2< 5=p3> 6=p4<
             11 10 first | 0=p1< 1=p2>
             12 10 mcp-second | 0=p3< 1=p4>",
        );
        assert_eq!(shown(&machine), ["10-12 [12] p3 p4 ", "10-11 [11] p1 p2 "]);
    }

    #[test]
    fn a_wrapped_server_is_found_behind_its_wrapper() {
        let machine = machine(
            "10 1 host | 3=p1> 4=p2<
             11 10 mcptap wrap -- server | 5=p1< 6=p2> 7=p3> 8=p4<
             12 11 server | 0=p3< 1=p4>",
        );
        assert_eq!(shown(&machine), ["11-12 [12] p3 p4 "]);
    }

    #[test]
    fn others_are_no_pairs() {
        for other in [
            // A pipeline of a shell.
            "10 1 sh | \n 11 10 cat | 1=p1> \n 12 10 sort | 0=p1< 1=p2> \n 13 10 head | 0=p2<",
            // A browser and its helper.
            "10 1 browser | 5=S1 \n 11 10 browser --renderer | 3=s1",
            // A pipe that a process has to itself.
            "10 1 server | 3=p1< 4=p1>",
            // Only one direction.
            "10 1 host | 3=p1> \n 11 10 server | 0=p1<",
        ] {
            assert_eq!(shown(&machine(other)), [""; 0], "{other}");
        }
    }

    #[test]
    fn a_merged_standard_error_belongs_to_standard_output() {
        let machine = machine("10 1 host | 3=p1> 4=p2<\n 11 10 server | 0=p1< 1=p2> 2=p2>");
        assert_eq!(shown(&machine), ["10-11 [11] p1 p2 "]);
        let sockets = self::machine("10 1 host | 3=S1 4=S2\n 11 10 server | 0=s1 1=s2 2=s2");
        assert_eq!(shown(&sockets), ["10-11 [11] s1 s2 "]);
    }

    #[test]
    fn a_helper_that_inherited_the_pipes_is_not_the_server() {
        let machine = machine(
            "10 1 host | 3=p1> 4=p2<
             11 10 server | 0=p1< 1=p2>
             12 11 helper one | 0=p1< 1=p2>
             13 11 helper two | 0=p1< 1=p2>",
        );
        assert_eq!(shown(&machine), ["10-11 [11, 12, 13] p1 p2 "]);
    }
}
