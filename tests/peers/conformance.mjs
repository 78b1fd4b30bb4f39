// The official conformance suite in $FRONT_SUITE, with TLS in front of each of its servers.
// The key and the certificate of the front are in $FRONT_PEM, and $FRONT_HOST is its name.
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import tls from "node:tls";

const pem = fs.readFileSync(process.env.FRONT_PEM);
const address = "this.baseUrl=`http://localhost:${this.httpServer.address().port}`";

globalThis.frontOf = async (server) => {
  const { port } = server.address();
  const front = tls.createServer({ key: pem, cert: pem, ALPNProtocols: ["http/1.1"] }, (client) => {
    const plain = net.connect(port, "localhost");
    client.pipe(plain).pipe(client);
    client.on("error", () => plain.destroy());
    plain.on("error", () => client.destroy());
  });
  await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));
  server.on("close", () => front.close());
  front.unref();
  return `https://${process.env.FRONT_HOST}:${front.address().port}`;
};

const suite = path.join(process.env.FRONT_SUITE, "dist");
const parts = fs.readFileSync(path.join(suite, "index.js"), "utf8").split(address);
if (parts.length !== 2) throw new Error(`the suite has ${parts.length - 1} places that name its address`);
// Beside the original, where its dependencies are found.
const changed = path.join(suite, `behind-tls-${process.pid}.js`);
fs.writeFileSync(changed, parts.join("this.baseUrl=await globalThis.frontOf(this.httpServer)"));
process.on("exit", () => fs.rmSync(changed));
await import(changed);
