// An MCP server behind TLS, over HTTP/1.1 and HTTP/2: it answers each JSON-RPC request and logs its TLS secrets.
//
//     tls_server.mjs PORT VERSION CURVES KEYLOG        such as 4711 TLSv1.3 P-384 keys.log
//
// The answer tells whether the TLS session was resumed, and how many requests its connection carried.

import { appendFileSync, readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";

const [port, version, curves, keylog] = process.argv.slice(2);
const counts = new Map();
const pem = readFileSync(new URL("front.pem", import.meta.url));
const options = { key: pem, cert: pem, minVersion: version, maxVersion: version, ecdhCurve: curves, allowHTTP1: true };
const server = createSecureServer(options, async (request, response) => {
  let text = "";
  for await (const part of request) text += part;
  const { id } = JSON.parse(text);
  const socket = request.stream?.session?.socket ?? request.socket;
  const requests = (counts.get(request.stream?.session ?? socket) ?? 0) + 1;
  counts.set(request.stream?.session ?? socket, requests);
  const result = { resumed: socket.isSessionReused(), requests, padding: "x".repeat(40_000) };
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
});
server.keepAliveTimeout = 60_000;
server.on("keylog", (line) => appendFileSync(keylog, line));
server.listen(Number(port), "127.0.0.1", () => console.error("listening on", port));
