// A host in Node: passes lines from its stdin to a server, and the server's lines to its stdout.  host.mjs CMD ARG...
import { spawn } from 'node:child_process';

const [command, ...words] = process.argv.slice(2);
const server = spawn(command, words, { stdio: ['pipe', 'pipe', 'pipe'] });
process.stdin.pipe(server.stdin);
server.stdout.pipe(process.stdout);
server.stderr.resume();
server.on('exit', (code) => process.exit(code ?? 1));
