// A client made with the TypeScript SDK, which tells on stdout what it sent and received, a JSON line each.
//
//     client.mjs CALLS URL              Streamable HTTP, or HTTP+SSE where the URL ends in /sse
//     client.mjs CALLS -- CMD ARG...    an STDIO server
//
// CALLS is a JSON array of [tool, arguments]. MCPTAP_PEERS names the folder that holds the SDK.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The SDK is installed elsewhere: resolved from there.
const require = createRequire(`${process.env.MCPTAP_PEERS}/package.json`);
const sdk = (path) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await sdk("client/index.js");
const { CreateMessageRequestSchema } = await sdk("types.js");

const tell = (word, message) => console.log(JSON.stringify({ [word]: message }));

async function transport([first, ...rest]) {
  if (first === "--") {
    const { StdioClientTransport } = await sdk("client/stdio.js");
    return new StdioClientTransport({ command: rest[0], args: rest.slice(1) });
  }
  if (first.endsWith("/sse")) {
    const { SSEClientTransport } = await sdk("client/sse.js");
    return new SSEClientTransport(new URL(first));
  }
  const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
  return new StreamableHTTPClientTransport(new URL(first));
}

const [calls, ...where] = process.argv.slice(2);
const witnessed = await transport(where);
const send = witnessed.send.bind(witnessed);
witnessed.send = (message, options) => {
  tell("sent", message);
  return send(message, options);
};
witnessed.onmessage = (message) => tell("received", message);

const client = new Client({ name: "peer", version: "1.0.0" }, { capabilities: { sampling: {} } });
client.setRequestHandler(CreateMessageRequestSchema, () => ({
  role: "assistant",
  model: "none",
  content: { type: "text", text: "as you wish" },
}));
await client.connect(witnessed);
await client.listTools();
for (const [name, args] of JSON.parse(calls)) {
  try {
    await client.callTool({ name, arguments: args }, undefined, { onprogress: () => {} });
  } catch (error) {
    tell("error", String(error));
  }
}
const capabilities = client.getServerCapabilities();
if (capabilities.resources) await client.listResources();
if (capabilities.prompts) await client.listPrompts();
if (witnessed.terminateSession) await witnessed.terminateSession();
await client.close();
