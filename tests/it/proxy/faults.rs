//! Faults around the proxy: requests that it refuses, servers that cannot be reached, databases
//! that cannot be written.

use super::*;
use crate::support::needs::{self, have};
use crate::wrapped::without_report;

#[test]
fn heads_on_which_servers_could_disagree_never_reach_one() {
    let (_folder, db) = temporary_database();
    let (url, connections) = handed_over();
    let proxying = Proxying::start(&db, &url, &[]);
    let both = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n";
    let smuggled = format!("{both}1\r\nZ\r\n0\r\n\r\n{GET}");
    let huge = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let cases = [
        (smuggled.as_str(), "400 Bad Request", "both Transfer-Encoding and Content-Length"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421 Misdirected Request", "--allow-host NAME"),
        (&huge, "431 Request Header Fields Too Large", "the head is too long"),
        ("CONNECT other:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 Bad Request", "forwards to one server only"),
    ];
    for (request, status, why) in cases {
        let answer = proxying.raw(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) && answer.contains(why), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n") && answer.contains("\r\n\r\nmcptap proxy: "), "{answer}");
    }
    // Earlier requests on the connection are answered first.
    let mut client = proxying.connect();
    client.write_all(format!("{GET}{smuggled}").as_bytes()).expect("sent");
    let mut server = connections.recv_timeout(PATIENCE).expect("only what is in order reaches the server");
    head(&mut server);
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    server.write_all(answer.as_bytes()).expect("sent");
    expect(&mut client, answer);
    assert!(head(&mut client).starts_with("HTTP/1.1 400 Bad Request\r\n"));
    assert_eq!(server.read(&mut [0]).expect("it is closed"), 0);
    assert!(connections.try_recv().is_err());
    let ended = proxying.end();
    assert_eq!(ended.stderr.lines().count(), 5, "{}", ended.stderr);
    let statuses: Vec<_> =
        of_type(&ended.lines, "exchange").iter().map(|exchange| exchange["status"].clone()).collect();
    // Refused requests are recorded too, with the hidden request inside.
    assert_eq!(statuses[..6], [json!(400), json!(421), json!(431), json!(400), json!(200), json!(400)]);
}

#[test]
fn an_unreachable_server_is_502_and_reported() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("an address");
    let silent = server(|mut stream| {
        head(&mut stream);
        expect(&mut stream, &request(1));
    });
    let broken = server(|mut stream| {
        head(&mut stream);
        reset(stream);
    });
    let plain =
        server(|mut stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"))).replace("http", "https");
    for (to, why) in [
        (format!("http://{nobody}/mcp"), "connection refused: no program listens there"),
        ("http://nowhere.invalid/mcp".to_owned(), "the host name cannot be resolved"),
        (silent, "it closed the connection without a response"),
        (broken, "the connection broke before a response"),
        (plain, "does not use TLS"),
    ] {
        let (_folder, db) = temporary_database();
        let mut proxying = Proxying::start(&db, &to, &[]);
        let asked = post(&request(1));
        for _ in 0..3 {
            let answer = proxying.raw(&asked);
            assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains(why), "{to}: {answer}");
            assert_eq!(answer.lines().skip_while(|line| !line.is_empty()).count(), 2, "one line of text: {answer}");
        }
        assert!(proxying.next_line().contains(why), "{to}");
        let ended = proxying.end();
        assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""), "{to}: it is said once");
        assert_eq!(texts(&recorded(&db), "client-to-server"), [request(1), request(1), request(1)], "{to}");
        assert_eq!(of_type(&ended.lines, "exchange")[0]["status"], 502, "{to}");
    }
}

#[test]
fn a_proxy_of_itself_is_found_out() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("an address").port();
    let (_folder, db) = temporary_database();
    let proxying = Proxying::listening(&port.to_string(), &db, &format!("http://localhost:{port}/mcp"), &[]);
    assert!(proxying.raw(GET).contains("this URL is the proxy itself"));
}

#[test]
fn the_database_may_be_locked_or_none_and_clients_are_served() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &[]);
    let (folder, db) = temporary_database();
    let holder = Connection::open(&db).expect("the database is made");
    holder.execute_batch("BEGIN EXCLUSIVE").expect("it is free");
    let mut proxying = Proxying::start(&db, &served.url("/mcp"), &[]);
    conversation(&scene, &proxying.url);
    assert!(proxying.next_line().starts_with("mcptap: recording has not started, but clients are served: "));
    holder.execute_batch("COMMIT").expect("it is ours");
    conversation(&scene, &proxying.url);
    let ended = proxying.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(of_type(&recorded(&db), "session").len(), 2, "what passed meanwhile has waited");

    fs::write(folder.path().join("text"), "no database, but a file of somebody's\n").expect("the file is written");
    for db in ["text", "text/below", "."] {
        let mut proxying = Proxying::start(&folder.path().join(db), &served.url("/mcp"), &[]);
        conversation(&scene, &proxying.url);
        assert!(proxying.next_line().contains("recording has not started"));
        let ended = proxying.end();
        assert_eq!(ended.status, Some(2), "{db}");
        assert!(ended.stderr.starts_with("mcptap: nothing was saved: "), "{}", ended.stderr);
        assert!(of_type(&ended.lines, "message").len() > 20, "it is printed all the same");
    }
}

#[test]
fn the_proxy_works_when_nobody_reads_its_output() {
    let Some(scene) = scene() else { return };
    let served = Served::start(&scene, &[]);
    let (_folder, db) = temporary_database();
    let mut command = mcptap();
    command.args(["proxy", "--listen", "127.0.0.1:0", "--to", &served.url("/mcp"), "--db"]).arg(&db);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mcptap runs");
    drop(child.stdout.take());
    let stderr = child.stderr.take().expect("a pipe");
    let mut stderr = BufReader::new(Patient::new(stderr, "a proxy to listen or to end"));
    let mut output = line(&mut stderr);
    let url = output.split(' ').nth(3).expect("a URL").to_owned();
    conversation(&scene, &url);
    conversation(&scene, &url);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it lives");
    output.clear();
    stderr.read_to_string(&mut output).expect("text");
    assert_eq!((child.ended("mcptap").code(), without_report(&output).0.as_str()), (Some(0), ""));
    assert_eq!(of_type(&recorded(&db), "session").len(), 2);
}

#[test]
fn where_it_listens_and_what_cannot_be() {
    let (_folder, db) = temporary_database();
    let (url, _connections) = handed_over();
    for (address, wanted) in [("0", "127.0.0.1:"), ("localhost:0", "127.0.0.1:"), ("127.0.0.2:0", "127.0.0.2:")] {
        let proxying = Proxying::listening(address, &db, &url, &[]);
        assert!(proxying.address().starts_with(wanted), "{address}: {}", proxying.url);
        assert_eq!(proxying.end().stderr, "");
    }
    if have(&needs::IPV6, TcpListener::bind("[::1]:0").is_ok()) {
        let proxying = Proxying::listening("[::1]:0", &db, &url, &[]);
        assert!(proxying.url.starts_with("http://[::1]:") && proxying.url.ends_with("/mcp"), "{}", proxying.url);
    }
    let mut open = Proxying::listening("0.0.0.0:0", &db, &url, &[]);
    assert!(open.next_line().starts_with("mcptap: every machine that reaches this address can use the server"));
    let taken = open.address().replace("0.0.0.0", "127.0.0.1");
    for (listen, to, why) in [
        (taken.as_str(), url.as_str(), "cannot listen at"),
        ("nonsense", &url, "cannot listen at nonsense"),
        ("0", "ftp://x/", "the URL must begin with http:// or https://"),
        ("0", "http://user:password@x/", "each client sends its own Authorization"),
    ] {
        let done = mcptap().args(["proxy", "--listen", listen, "--to", to]).finished();
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && stderr.contains(why) && stderr.lines().count() == 1, "{stderr}");
    }
}
