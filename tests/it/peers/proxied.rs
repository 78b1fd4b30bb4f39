//! The official servers over HTTP, behind `mcptap proxy`.

use super::*;
use crate::proxy::Proxying;

#[test]
fn clients_do_not_notice_the_proxy_and_all_is_recorded() {
    let Some(peers) = peers() else { return };
    for at in 0..4 {
        let port = free_port();
        let (server, path, calls) = http_servers(&peers, "127.0.0.1", port)[at].clone();
        let _serving = Serving::start(command(&server), port);
        let url = format!("http://127.0.0.1:{port}{path}");
        for sdk in BOTH {
            let what = format!("{sdk:?} client, {}", server.join(" "));
            let direct = peers.client(sdk, &calls, std::slice::from_ref(&url));
            let (_folder, db) = temporary_database();
            let proxying = Proxying::start(&db, &url, &[]);
            let proxied = peers.client(sdk, &calls, std::slice::from_ref(&proxying.url));
            let ended = proxying.end();
            assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""), "{what}");
            crate::decoded::assert_same(
                &format!("{what}: with and without us"),
                &received(&direct),
                &received(&proxied),
            );
            assert_transcript(&what, &proxied, &ended.lines);
            assert_transcript(&format!("{what}, saved"), &proxied, &recorded(&db));
        }
    }
}
