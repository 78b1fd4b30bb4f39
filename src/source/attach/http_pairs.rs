//! MCP servers over HTTP and their clients, found in a snapshot.
//!
//! A snapshot shows connections, not what they carry. So a pair is listed only with evidence: a
//! command line that names MCP, or a client that is also the host of an MCP server on STDIO. The
//! traffic is the proof, and [`HttpPair::evidence`] says how far the evidence goes.
//!
//! | server | client | listed |
//! |---|---|---|
//! | local, names MCP | any, or none now | as a server |
//! | local | names MCP, or hosts an MCP server | may be MCP |
//! | remote | names MCP | may be MCP |
//! | remote, port 443 | hosts an MCP server | may be MCP |
//!
//! An MCP server on STDIO has connections of its own, to what it works with. They are not listed
//! unless its command names a URL: then it passes MCP on to there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use super::pairs::Pair;
use super::processes::{Object, Snapshot};
use super::tcp_sockets::TcpSocket;
use crate::source::command::{names_mcp, word_names_mcp};

/// The port of HTTPS.
const HTTPS: u16 = 443;

/// A client and a server that are, or may be, connected by MCP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpPair {
    /// The client, if it is a process of this machine. `None` also if no client is connected.
    pub client: Option<u32>,
    /// The server, if it is a process of this machine.
    pub server: Option<u32>,
    /// The addresses at which the client reaches the server.
    pub addresses: BTreeSet<SocketAddr>,
    /// The addresses of clients on other machines.
    pub remote_clients: BTreeSet<SocketAddr>,
    /// Whether the URL or the port is that of HTTPS.
    pub is_https: bool,
    /// The reason why it is listed.
    pub evidence: Evidence,
    /// The network namespace of the connection.
    pub namespace: u64,
}

/// The reason to assume MCP, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The server's command names MCP.
    ServerNamesMcp,
    /// The client's command names MCP.
    ClientNamesMcp,
    /// The client is the host of an MCP server on STDIO.
    ClientHostsMcp,
}

impl Evidence {
    /// The evidence in words.
    pub fn text(self) -> &'static str {
        match self {
            Evidence::ServerNamesMcp => "the server's command names MCP",
            Evidence::ClientNamesMcp => "may be MCP: the client's command names MCP",
            Evidence::ClientHostsMcp => "may be MCP: the client is the host of an MCP server on STDIO",
        }
    }
}

/// A network namespace, or 0 for all, and an address.
type NamespaceAddress = (u64, SocketAddr);

/// An end of a connection. Loopback addresses mean the same only within a network namespace.
fn end(socket: &TcpSocket, address: SocketAddr) -> NamespaceAddress {
    (if address.ip().is_loopback() { socket.namespace } else { 0 }, address)
}

/// Finds the pairs, strongest evidence first. `stdio` are the pairs on STDIO.
pub fn http_pairs(snapshot: &Snapshot, stdio: &[Pair]) -> Vec<HttpPair> {
    let owners = owners(snapshot);
    let sockets = || owners.iter().filter_map(|(inode, owner)| Some((snapshot.sockets.get(inode)?, *owner)));
    let listening: HashMap<NamespaceAddress, u32> = sockets()
        .filter(|(socket, _)| socket.remote.is_none())
        .map(|(socket, owner)| ((socket.namespace, socket.local), owner))
        .collect();
    let listens_at = |socket: &TcpSocket, address: SocketAddr| {
        let any = SocketAddr::new(if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, address.port());
        let both = SocketAddr::new([0; 16].into(), address.port());
        [address, any, both].into_iter().find_map(|address| listening.get(&(socket.namespace, address)).copied())
    };
    // The process that holds each connected socket, by its own address and that of its peer.
    let connected: HashMap<(NamespaceAddress, NamespaceAddress), u32> = sockets()
        .filter_map(|(socket, owner)| {
            let remote = socket.remote?;
            Some(((end(socket, socket.local), end(socket, remote)), owner))
        })
        .collect();
    let mut found: BTreeMap<(Option<u32>, Option<u32>, bool), HttpPair> = BTreeMap::new();
    let mut add = |pair: HttpPair| {
        let known = found.entry((pair.client, pair.server, pair.is_https)).or_insert_with(|| pair.clone());
        known.addresses.extend(pair.addresses);
        known.remote_clients.extend(pair.remote_clients);
        known.evidence = known.evidence.min(pair.evidence);
    };
    let blank = |socket: &TcpSocket, evidence| HttpPair {
        client: None,
        server: None,
        addresses: BTreeSet::new(),
        remote_clients: BTreeSet::new(),
        is_https: false,
        evidence,
        namespace: socket.namespace,
    };
    let roles = Roles::new(snapshot, stdio);
    let mut served: BTreeSet<u32> = BTreeSet::new();
    for (socket, owner) in sockets() {
        let Some(remote) = socket.remote else { continue };
        let peer = connected.get(&(end(socket, remote), end(socket, socket.local))).copied();
        let accepted = listens_at(socket, socket.local).is_some_and(|server| snapshot.descends(owner, server));
        if accepted {
            // Its client on this machine has a socket of its own, which is handled below.
            if let (None, true) = (peer, roles.names_mcp(owner)) {
                served.insert(owner);
                add(HttpPair {
                    server: Some(owner),
                    addresses: [socket.local].into(),
                    remote_clients: [remote].into(),
                    is_https: socket.local.port() == HTTPS,
                    ..blank(socket, Evidence::ServerNamesMcp)
                });
            }
            continue;
        }
        let is_https = roles.scheme(owner, remote.port());
        let evidence = match peer {
            Some(server) if server == owner => None,
            Some(server) if roles.names_mcp(server) => Some(Evidence::ServerNamesMcp),
            _ if roles.is_client(owner) => Some(Evidence::ClientNamesMcp),
            Some(_) if roles.hosts.contains(&owner) => Some(Evidence::ClientHostsMcp),
            None if roles.hosts.contains(&owner) && remote.port() == HTTPS => Some(Evidence::ClientHostsMcp),
            _ => None,
        };
        if let Some(evidence) = evidence {
            served.extend(peer);
            let (client, addresses) = (Some(owner), [remote].into());
            add(HttpPair { client, server: peer, addresses, is_https, ..blank(socket, evidence) });
        }
    }
    for (socket, owner) in sockets().filter(|(socket, _)| socket.remote.is_none()) {
        let has_client = served.iter().any(|server| snapshot.descends(*server, owner));
        if roles.names_mcp(owner) && !has_client {
            let (addresses, is_https) = ([socket.local].into(), socket.local.port() == HTTPS);
            let evidence = Evidence::ServerNamesMcp;
            add(HttpPair { server: Some(owner), addresses, is_https, ..blank(socket, evidence) });
        }
    }
    let mut pairs: Vec<HttpPair> = found.into_values().collect();
    pairs.sort_by_key(|pair| (pair.evidence, pair.server, pair.client));
    pairs
}

/// The process that each socket belongs to. Of several that inherited it, the first ancestor.
fn owners(snapshot: &Snapshot) -> BTreeMap<u64, u32> {
    let mut owners: BTreeMap<u64, u32> = BTreeMap::new();
    for process in snapshot.processes.values() {
        for end in &process.ends {
            let Object::Socket(inode) = end.object else { continue };
            if snapshot.sockets.contains_key(&inode) {
                let owner = owners.entry(inode).or_insert(process.id);
                if snapshot.descends(*owner, process.id) {
                    *owner = process.id;
                }
            }
        }
    }
    owners
}

/// What is known of processes beside their connections.
struct Roles<'s> {
    snapshot: &'s Snapshot,
    /// The hosts of MCP servers on STDIO.
    hosts: BTreeSet<u32>,
    /// The processes of servers on STDIO.
    servers: BTreeSet<u32>,
}

impl<'s> Roles<'s> {
    fn new(snapshot: &'s Snapshot, stdio: &[Pair]) -> Roles<'s> {
        let hosts = stdio.iter().filter(|pair| pair.names_mcp).map(|pair| pair.host).collect();
        let servers = stdio.iter().flat_map(|pair| pair.processes.iter().copied()).collect();
        Roles { snapshot, hosts, servers }
    }

    fn names_mcp(&self, process: u32) -> bool {
        names_mcp(self.snapshot.command(process))
    }

    fn url(&self, process: u32) -> Option<&'s String> {
        self.snapshot.command(process).iter().find(|word| word.starts_with("https://") || word.starts_with("http://"))
    }

    /// Whether connections of this process are likely those of an MCP client.
    fn is_client(&self, process: u32) -> bool {
        let url = self.url(process);
        // A URL is what a client connects to.
        let names_mcp = self.names_mcp(process) || url.is_some_and(|url| word_names_mcp(url));
        names_mcp && (!self.servers.contains(&process) || url.is_some())
    }

    /// Whether a client uses HTTPS: by its URL, else by the port.
    fn scheme(&self, client: u32, port: u16) -> bool {
        self.url(client).map_or(port == HTTPS, |url| url.starts_with("https://"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::processes::Process;
    use super::*;
    use crate::source::attach::processes::OpenEnd;

    /// A machine in words: `id parent command | local>remote@namespace ...`. A socket that listens
    /// has no remote address.
    fn machine(text: &str) -> Snapshot {
        let (mut snapshot, mut inode) = (Snapshot::default(), 0);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (head, sockets) = line.split_once('|').expect("a line has sockets");
            let mut words = head.split_whitespace();
            let mut number = || words.next().expect("a number").parse().expect("a number");
            let (id, parent) = (number(), number());
            let mut process = Process { id, parent, is_readable: true, ..Process::default() };
            process.command = words.map(str::to_owned).collect();
            for socket in sockets.split_whitespace() {
                let (socket, namespace) = socket.split_once('@').unwrap_or((socket, "1"));
                let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
                let (local, remote) = socket.split_once('>').unwrap_or((socket, ""));
                let remote = (!remote.is_empty()).then(|| address(remote));
                let namespace = namespace.parse().expect("a number");
                inode += 1;
                snapshot.sockets.insert(inode, TcpSocket { local: address(local), remote, namespace });
                let object = Object::Socket(inode);
                process.ends.push(OpenEnd { descriptor: 3, object, reads: true, writes: true });
            }
            snapshot.processes.insert(id, process);
        }
        snapshot
    }

    fn shown(text: &str, stdio: &[Pair]) -> Vec<String> {
        let number = |id: Option<u32>| id.map_or("-".to_owned(), |id| id.to_string());
        let line = |pair: HttpPair| {
            let addresses: Vec<String> = pair.addresses.iter().map(ToString::to_string).collect();
            let scheme = if pair.is_https { "https" } else { "http" };
            format!(
                "{} {} {scheme} {} {:?}",
                number(pair.client),
                number(pair.server),
                addresses.join("+"),
                pair.evidence
            )
        };
        http_pairs(&machine(text), stdio).into_iter().map(line).collect()
    }

    fn stdio(host: u32, server: u32) -> Pair {
        Pair { host, server, processes: vec![server], ends: Default::default(), names_mcp: true }
    }

    #[test]
    fn a_local_server_is_listed_with_each_of_its_clients_or_alone() {
        let server = "10 1 mcp-server | 0.0.0.0:3000 127.0.0.1:3000>127.0.0.1:50000 127.0.0.1:3000>127.0.0.1:50001
                      11 10 worker | 0.0.0.0:3001";
        let client = "20 1 node app.js | 127.0.0.1:50000>127.0.0.1:3000 127.0.0.1:50001>127.0.0.1:3000";
        assert_eq!(shown(&format!("{server}\n{client}"), &[]), ["20 10 http 127.0.0.1:3000 ServerNamesMcp"]);
        let alone = "10 1 mcp-server | [::]:3000";
        assert_eq!(shown(alone, &[]), ["- 10 http [::]:3000 ServerNamesMcp"]);
        let far = "10 1 mcp-server | [::]:443 192.0.2.1:443>192.0.2.9:4000";
        assert_eq!(shown(far, &[]), ["- 10 https 192.0.2.1:443 ServerNamesMcp"]);
    }

    #[test]
    fn a_remote_server_is_listed_if_the_client_gives_a_reason() {
        let remote = "127.0.0.1:1>127.0.0.1:2 10.0.0.1:50000>192.0.2.1:443 10.0.0.1:50001>192.0.2.2:5432";
        let of = |command: &str| format!("10 1 {command} | {remote}");
        assert_eq!(shown(&of("node app.js"), &[]), [""; 0]);
        let by_name = shown(&of("npx mcp-remote https://example.com/sse"), &[]);
        assert_eq!(by_name, ["10 - https 127.0.0.1:2+192.0.2.1:443+192.0.2.2:5432 ClientNamesMcp"]);
        assert_eq!(shown(&of("host"), &[stdio(10, 11)]), ["10 - https 192.0.2.1:443 ClientHostsMcp"]);
        assert_eq!(shown(&of("mcp-server-github"), &[stdio(9, 10)]), [""; 0], "what a server works with");
        assert_eq!(shown(&of("mcp-remote https://x/"), &[stdio(9, 10)]).len(), 1);
    }

    #[test]
    fn equal_loopback_addresses_of_two_namespaces_are_not_joined() {
        let machine = "10 1 mcp-server | 127.0.0.1:3000@2 127.0.0.1:3000>127.0.0.1:50000@2
                       20 1 client | 127.0.0.1:50000>127.0.0.1:3000@1
                       30 1 other | 127.0.0.1:50000>127.0.0.1:3000@2";
        assert_eq!(shown(machine, &[]), ["30 10 http 127.0.0.1:3000 ServerNamesMcp"]);
        let bridged = "10 1 mcp-server | 0.0.0.0:3000@2 172.17.0.2:3000>172.17.0.1:50000@2
                       20 1 client | 172.17.0.1:50000>172.17.0.2:3000@1";
        assert_eq!(shown(bridged, &[]), ["20 10 http 172.17.0.2:3000 ServerNamesMcp"]);
    }

    #[test]
    fn a_worker_that_inherited_a_socket_is_not_a_server_of_its_own() {
        let machine = "10 1 uvicorn mcp:app | 0.0.0.0:80
                       20 1 client | 127.0.0.1:50000>127.0.0.1:80";
        assert_eq!(shown(machine, &[]), ["- 10 http 0.0.0.0:80 ServerNamesMcp"], "not accepted yet");
    }
}
