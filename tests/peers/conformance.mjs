// The official conformance suite in $FRONT_SUITE, with TLS in front of each of its servers.
// The key and the certificate of the front are in $FRONT_PEM, and $FRONT_HOST is its name.
import fs from "node:fs";
import path from "node:path";
import { front } from "./front.mjs";

const address = "this.baseUrl=`http://localhost:${this.httpServer.address().port}`";

globalThis.frontOf = async (server) => {
  const before = await front(server.address().port);
  server.on("close", () => before.close());
  before.unref();
  return `https://${process.env.FRONT_HOST}:${before.address().port}`;
};

const suite = path.join(process.env.FRONT_SUITE, "dist");
const parts = fs.readFileSync(path.join(suite, "index.js"), "utf8").split(address);
if (parts.length !== 2) throw new Error(`the suite has ${parts.length - 1} places that name its address`);
// Beside the original, where its dependencies are found.
const changed = path.join(suite, `behind-tls-${process.pid}.js`);
fs.writeFileSync(changed, parts.join("this.baseUrl=await globalThis.frontOf(this.httpServer)"));
process.on("exit", () => fs.rmSync(changed));
await import(changed);
