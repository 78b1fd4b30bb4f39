// A client over TLS, for Node.js and Bun: one request for each line of stdin, which says how.
//
//     tls_client.mjs PORT
//     new       on a new connection, which may resume the session of the one before
//     same      on the connection of the last "same"
//     h2        over HTTP/2, on the connection of the last "h2"
//
// It prints the answer's result, without its padding.

import { connect } from "node:http2";
import { Agent, request } from "node:https";
import { createInterface } from "node:readline";

const port = Number(process.argv[2]);
const agents = { new: new Agent({ keepAlive: false }), same: new Agent({ keepAlive: true, maxSockets: 1 }) };
let id = 0;

function ask(how) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++id, method: "tools/list", params: {} });
  const headers = { "Content-Type": "application/json", "Content-Length": body.length };
  const options = { host: "127.0.0.1", port, path: "/mcp", method: "POST", headers, agent: agents[how] };
  return new Promise((resolve, reject) => {
    const sent = request({ ...options, rejectUnauthorized: false, servername: "mcp.test" }, async (response) => {
      let text = "";
      for await (const part of response) text += part;
      resolve(JSON.parse(text).result);
    });
    sent.on("error", reject).end(body);
  });
}

let session;

function askHttp2() {
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++id, method: "tools/list", params: {} });
  session ??= connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false, servername: "mcp.test" });
  const headers = { ":method": "POST", ":path": "/mcp", "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let text = "";
    stream.setEncoding("utf8").on("data", (part) => (text += part));
    stream.on("end", () => resolve(JSON.parse(text).result)).on("error", reject);
    stream.end(body);
  });
}

console.log("ready");
for await (const how of createInterface({ input: process.stdin })) {
  const { padding, ...result } = await (how === "h2" ? askHttp2() : ask(how));
  console.log(JSON.stringify(result));
}
process.exit();
