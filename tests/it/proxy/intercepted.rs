//! `mcptap proxy --intercept`: the TLS of chosen hosts is opened, everything else is tunnelled.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// A server with TLS that chooses among these protocols, and passes each connection on. Its
/// certificate is that of `tests/it/replay/server.pem`, for 127.0.0.1.
fn tls_server(protocols: &[&str]) -> (SocketAddr, Receiver<StreamOwned<ServerConnection, TcpStream>>) {
    let pem = fs::read(root().join("tests/it/replay/server.pem")).expect("a file");
    let certificates = CertificateDer::pem_slice_iter(&pem).map(|certificate| certificate.expect("PEM")).collect();
    let key = PrivateKeyDer::from_pem_slice(&pem).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("a certificate");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let (config, (send, connections)) = (Arc::new(config), channel());
    let url = server(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
        let mut stream = StreamOwned::new(session, stream);
        // A client that refuses the certificate ends the handshake.
        if stream.conn.complete_io(&mut stream.sock).is_ok() {
            send.send(stream).expect("it is waited for");
        }
    });
    (url.split('/').nth(2).expect("an authority").parse().expect("an address"), connections)
}

/// A client of the proxy.
struct Browser {
    proxying: Proxying,
    roots: RootCertStore,
    data: tempfile::TempDir,
}

impl Browser {
    /// Starts the proxy with these options. The client trusts its authority.
    fn new(db: &Path, options: &[&str]) -> Browser {
        let data = tempfile::tempdir().expect("a folder");
        let mut command = mcptap();
        command.env("XDG_DATA_HOME", data.path());
        let proxying = Proxying::intercepting(command, db, options);
        let mut roots = RootCertStore::empty();
        let authority = fs::read(data.path().join("mcptap/authority/authority.pem")).expect("it was made");
        roots.add(CertificateDer::from_pem_slice(&authority).expect("PEM")).expect("a certificate");
        Browser { proxying, roots, data }
    }

    /// A tunnel to this address.
    fn tunnel(&self, to: SocketAddr) -> TcpStream {
        let mut stream = self.proxying.connect();
        stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).expect("sent");
        assert_eq!(head(&mut stream), "HTTP/1.1 200 Connection established\r\n\r\n");
        stream
    }

    /// A TLS session in such a tunnel, with these protocols offered.
    fn open(&self, to: SocketAddr, protocols: &[&str]) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(to.ip().to_string()).expect("an address");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let mut stream = StreamOwned::new(session, self.tunnel(to));
        stream.conn.complete_io(&mut stream.sock)?;
        // The last message of the handshake.
        stream.flush()?;
        Ok(stream)
    }
}

fn certificate_of_servers() -> String {
    root().join("tests/it/replay/server.pem").display().to_string()
}

/// A frame of HTTP/2 (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = &u32::try_from(content.len()).expect("short").to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// A block of header fields, each as a literal with its name (RFC 7541 section 6.2.2).
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// A request and its response over HTTP/2, preface and settings included.
fn over_http2(asked: &str, answered: &str) -> (Vec<u8>, Vec<u8>) {
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", "/mcp"),
        (":authority", "mcp.test"),
        ("content-type", "application/json"),
        ("authorization", "Bearer sesame-opens"),
    ];
    let request = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, b""),
        frame(1, 4, 1, &block(&fields)),
        frame(0, 1, 1, asked.as_bytes()),
    ];
    let fields = [(":status", "200"), ("content-type", "application/json")];
    let response = [frame(4, 0, 0, b""), frame(1, 4, 1, &block(&fields)), frame(0, 1, 1, answered.as_bytes())];
    (request.concat(), response.concat())
}

fn over_http1(asked: &str, answered: &str) -> (Vec<u8>, Vec<u8>) {
    let request = post(asked).replace("\r\n\r\n", "\r\nAuthorization: Bearer sesame-opens\r\n\r\n");
    let (kind, length) = ("Content-Type: application/json", answered.len());
    (request.into(), format!("HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{answered}").into())
}

#[test]
fn named_hosts_are_opened_and_both_sides_speak_what_the_server_chose() {
    let (_folder, db) = temporary_database();
    let browser = Browser::new(&db, &["--intercept", "127.0.0.1", "--cacert", &certificate_of_servers()]);
    let cases: [(&[&str], &[&str], Option<&str>); 4] = [
        (&["h2", "http/1.1"], &["h2", "http/1.1"], Some("h2")),
        (&["h2", "http/1.1"], &["http/1.1"], Some("http/1.1")),
        (&["h2", "http/1.1"], &[], None),
        (&[], &["h2"], None),
    ];
    for (number, (offered, known, chosen)) in cases.into_iter().enumerate() {
        let (address, connections) = tls_server(known);
        let mut client = browser.open(address, offered).expect("a session");
        let mut server = connections.recv_timeout(PATIENCE).expect("a session");
        assert_eq!(client.conn.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?} {known:?}");
        assert_eq!(server.conn.alpn_protocol(), chosen.map(str::as_bytes));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#);
        let asked = request(number);
        let over = if chosen == Some("h2") { over_http2 } else { over_http1 };
        let (sent, answered) = over(&asked, &answer);
        client.write_all(&sent).expect("sent");
        let mut read = vec![0; sent.len()];
        server.read_exact(&mut read).expect("all of it");
        assert!(read == sent, "bytes pass unchanged");
        server.write_all(&answered).expect("sent");
        let mut read = vec![0; answered.len()];
        client.read_exact(&mut read).expect("all of it");
        assert!(read == answered, "bytes pass unchanged");
    }
    let ended = browser.proxying.end();
    assert_eq!(ended.stderr.matches(": TLS of 1 connection opened\n").count(), 4, "{}", ended.stderr);
    let lines = recorded(&db);
    let exchanges = of_type(&ended.lines, "exchange");
    let versions: Vec<_> = exchanges.iter().map(|exchange| exchange["http_version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["2", "1.1", "1.1", "1.1"]);
    assert_eq!(texts(&lines, "client-to-server"), [0, 1, 2, 3].map(request));
    assert_eq!(texts(&lines, "server-to-client").len(), 4);
    let database = fs::read(&db).expect("a file");
    assert!(memchr::memmem::find(&database, b"sesame-opens").is_none(), "secrets are masked");
}

#[test]
fn a_server_without_a_valid_certificate_gets_nothing() {
    let (_folder, db) = temporary_database();
    // Without --cacert its authority is unknown.
    let mut browser = Browser::new(&db, &["--intercept", "127.0.0.1"]);
    let (address, connections) = tls_server(&["h2", "http/1.1"]);
    let mut client = browser.open(address, &["h2", "http/1.1"]).expect("a session with the proxy");
    assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.1"[..]), "in which the reason can be sent");
    client.write_all(&over_http1(&request(1), "").0).expect("sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("it is closed properly");
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(answer.contains("invalid peer certificate: UnknownIssuer"), "{answer}");
    assert!(connections.try_recv().is_err(), "no handshake was completed");
    assert!(browser.proxying.next_line().contains("UnknownIssuer"));
    let ended = browser.proxying.end();
    assert_eq!(of_type(&ended.lines, "exchange")[0]["status"], 502);
    assert_eq!(texts(&recorded(&db), "client-to-server"), [request(1)]);
}

#[test]
fn other_hosts_pass_unopened_and_are_listed() {
    let (_folder, db) = temporary_database();
    let mut browser = Browser::new(&db, &["--intercept", "mcp.test"]);
    let (url, connections) = handed_over();
    let address = url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address");
    let mut client = browser.tunnel(address);
    let mut server = connections.recv_timeout(PATIENCE).expect("a connection");
    let (sent, answered) = over_http1(&request(1), "{}");
    client.write_all(&sent).expect("sent");
    server.read_exact(&mut vec![0; sent.len()]).expect("all of it");
    server.write_all(&answered).expect("sent");
    drop(server);
    let mut read = Vec::new();
    client.read_to_end(&mut read).expect("all of it");
    assert!(read == answered, "bytes pass unchanged");
    let note = browser.proxying.next_line();
    assert_eq!(note, format!("mcptap: {address} passes unopened; --intercept 127.0.0.1 would record it"));
    let ended = browser.proxying.end();
    assert_eq!(ended.stderr, format!("mcptap: {address}: 1 connection passed unopened\n"));
    assert!(of_type(&ended.lines, "exchange").is_empty());
}

#[test]
fn a_client_that_does_not_trust_the_authority_is_reported() {
    let (_folder, db) = temporary_database();
    let mut browser = Browser::new(&db, &["--intercept", "127.0.0.1", "--cacert", &certificate_of_servers()]);
    let (address, _connections) = tls_server(&[]);
    browser.roots = RootCertStore::empty();
    assert!(browser.open(address, &[]).is_err());
    assert!(browser.proxying.next_line().ends_with("\"mcptap ca\" shows how it can"));
    let folder = browser.data.path().join("mcptap/authority");
    let mode = |name: &str| {
        let metadata = fs::metadata(folder.join(name)).expect("it exists");
        std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
    };
    assert_eq!((mode("authority.key"), mode("")), (0o600, 0o700));
    let key = fs::read(folder.join("authority.key")).expect("a file");
    browser.proxying.end();
    let shown = mcptap().arg("ca").env("XDG_DATA_HOME", browser.data.path()).finished();
    assert!(stdout(&shown).contains(&folder.join("authority.pem").display().to_string()));
    assert!(key == fs::read(folder.join("authority.key")).expect("a file"), "it is made once");
    fs::set_permissions(folder.join("authority.key"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("set");
    let refused = mcptap().arg("ca").env("XDG_DATA_HOME", browser.data.path()).finished();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn requests_in_the_clear_name_their_server_and_may_change_it() {
    let (_folder, db) = temporary_database();
    let browser = Browser::new(&db, &["--intercept", "127.0.0.1"]);
    let mut client = browser.proxying.connect();
    let mut servers = Vec::new();
    for _ in 0..2 {
        let (url, connections) = handed_over();
        let authority = url.split('/').nth(2).expect("an authority").to_owned();
        for _ in 0..2 {
            client.write_all(post(&request(1)).replace("/mcp", &url).as_bytes()).expect("sent");
        }
        let mut server = connections.recv_timeout(PATIENCE).expect("a connection");
        for _ in 0..2 {
            expect(&mut server, &post(&request(1)).replace("localhost", &authority));
        }
        for _ in 0..2 {
            let answered = over_http1("", "{}").1;
            server.write_all(&answered).expect("sent");
            client.read_exact(&mut vec![0; answered.len()]).expect("all of it");
        }
        // The end of a server would be the end of the client's connection.
        servers.push(server);
    }
    let refused = browser.proxying.raw(GET);
    assert!(refused.contains("400 Bad Request") && refused.contains("this is a forward proxy"), "{refused}");
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("an address");
    for target in [nobody.to_string(), browser.proxying.address().to_owned(), "127.0.0.1".to_owned()] {
        let refused = browser.proxying.raw(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(refused.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{refused}");
    }
    browser.proxying.end();
    assert_eq!(texts(&recorded(&db), "client-to-server").len(), 4);
}
