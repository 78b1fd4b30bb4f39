// TLS in front of a server on this machine:  front.mjs PORT    says on stderr where it listens.
// The key and the certificate are in $FRONT_PEM.
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import tls from "node:tls";
import { fileURLToPath } from "node:url";

/** Listens on 127.0.0.1 and passes the plaintext on to a port. */
export const front = async (port) => {
  const pem = fs.readFileSync(process.env.FRONT_PEM);
  const server = tls.createServer({ key: pem, cert: pem, ALPNProtocols: ["http/1.1"] }, (client) => {
    const plain = net.connect(port, "localhost");
    client.pipe(plain).pipe(client);
    client.on("error", () => plain.destroy());
    plain.on("error", () => client.destroy());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
};

if (path.resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const server = await front(Number(process.argv[2]));
  console.error(`front listening on ${server.address().port}`);
}
