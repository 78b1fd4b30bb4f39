//! The official servers over HTTP, for clients that run `mcptap proxy --stdio` instead. Their
//! configuration is that which `mcptap install` makes.

use super::*;
use crate::program::mcptap;

/// A configuration with the URL of a server, and what is in it besides.
fn configuration(url: &str) -> String {
    let headers = r#""headers": { "X-Test": "a \"b\"" }"#;
    format!(
        "{{\n  // remote\n  \"mcpServers\": {{\n    \"remote\": {{\n      \"type\": \"http\",\n      // kept\n      \
         \"url\": {},\n      {headers}\n    }}\n  }}\n}}\n",
        json!(url)
    )
}

/// The command and the variable that a client reads from its configuration.
fn installed(file: &Path) -> (Vec<String>, String) {
    let text = fs::read_to_string(file).expect("a file");
    let text: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let server = &value["mcpServers"]["remote"];
    assert_eq!(server["type"], "stdio");
    let words = |value: &Value| value.as_str().expect("text").to_owned();
    let arguments = server["args"].as_array().expect("arguments").iter().map(words);
    let replaced = words(&server["env"]["MCPTAP_REPLACED"]);
    (std::iter::once(words(&server["command"])).chain(arguments).collect(), replaced)
}

#[test]
fn clients_that_run_the_bridge_receive_what_the_server_sends() {
    let Some(peers) = peers() else { return };
    for at in 0..4 {
        let port = free_port();
        let (server, path, calls) = http_servers(&peers, "127.0.0.1", port)[at].clone();
        let _serving = Serving::start(command(&server), port);
        let url = format!("http://127.0.0.1:{port}{path}");
        let (folder, db) = temporary_database();
        let file = folder.path().join("mcp.json");
        fs::write(&file, configuration(&url)).expect("a file");
        let change = |word: &str| {
            let done = mcptap().arg("--db").arg(&db).arg(word).arg(&file).finished();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        change("install");
        let (words, replaced) = installed(&file);
        let variable = format!("MCPTAP_REPLACED={replaced}");
        let place = [&["--".to_owned(), "env".to_owned(), variable][..], &words].concat();
        for sdk in BOTH {
            let what = format!("{sdk:?} client, {}", server.join(" "));
            let direct = peers.client(sdk, &calls, std::slice::from_ref(&url));
            let bridged = peers.client(sdk, &calls, &place);
            crate::decoded::assert_same(
                &format!("{what}: with and without us"),
                &received(&direct),
                &received(&bridged),
            );
            assert!(recorded(&db).iter().any(|line| line["method"] == "tools/call"), "{what}");
        }
        change("uninstall");
        assert_eq!(fs::read_to_string(&file).expect("a file"), configuration(&url));
    }
}
