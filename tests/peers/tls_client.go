// A client over TLS: one request for each line of stdin, which says how.
//
//	tls_client PORT VERSION      such as 4711 TLSv1_2
//	new       on a new connection, which may resume the session of the one before
//	same      on the connection of the last "same"
//
// It prints the answer's result, without its padding, and logs its TLS secrets to SSLKEYLOGFILE.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

func client(version uint16, sessions tls.ClientSessionCache, keyLog *os.File, keeps bool) *http.Client {
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "mcp.test", MinVersion: version, MaxVersion: version,
		ClientSessionCache: sessions, KeyLogWriter: keyLog}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: !keeps}}
}

func main() {
	version := uint16(tls.VersionTLS12)
	if os.Args[2] == "TLSv1_3" {
		version = tls.VersionTLS13
	}
	keyLog, err := os.OpenFile(os.Getenv("SSLKEYLOGFILE"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	sessions := tls.NewLRUClientSessionCache(8)
	clients := map[string]*http.Client{"new": client(version, sessions, keyLog, false), "same": client(version, sessions, keyLog, true)}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for id := 1; lines.Scan(); id++ {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{}}`, id)
		url := fmt.Sprintf("https://127.0.0.1:%s/mcp", os.Args[1])
		response, err := clients[lines.Text()].Post(url, "application/json", bytes.NewBufferString(body))
		if err != nil {
			panic(err)
		}
		var answer struct{ Result map[string]any }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			panic(err)
		}
		response.Body.Close()
		delete(answer.Result, "padding")
		result, _ := json.Marshal(answer.Result)
		fmt.Println(string(result))
	}
}
