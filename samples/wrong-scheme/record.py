#!/usr/bin/env python3
"""Record clients that use https where the server speaks http, and the reverse.

    record.py OUT.pcapng PEERS

PEERS is the folder that `tests/peers/setup.sh` made. It needs the right to capture on loopback, and dumpcap, editcap, curl, openssl,
node, nginx and gnutls-serv.
"""
import os, socket, subprocess, sys, tempfile, time

# The ports of one server each: its name is in the README.
PYTHON, NODE, NGINX, NODE_TLS, NGINX_TLS, GNUTLS = range(18081, 18087)

NODE_SERVER = """
const fs = require('fs'), answer = (request, response) => response.end('hello');
require('http').createServer(answer).listen(%d, '127.0.0.1');
require('https').createServer({key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem')}, answer).listen(%d, '127.0.0.1');
""" % (NODE, NODE_TLS)

NGINX_SERVER = """
daemon off; master_process off; pid nginx.pid; error_log stderr crit;
events {}
http {
  access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server { listen 127.0.0.1:%d; }
  server { listen 127.0.0.1:%d ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem; }
}
""" % (NGINX, NGINX_TLS)

CLIENT = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
const client = new Client({ name: 'inspector', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2]))).catch(error => console.log(error.message));
process.exit(0);
"""


def main(out, peers):
    peers = os.path.abspath(peers)
    out = os.path.abspath(out)
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    subprocess.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 3650 -subj /CN=localhost".split(),
                   check=True, stderr=subprocess.DEVNULL)
    open("nginx.conf", "w").write(NGINX_SERVER)
    open("client.mjs", "w").write(CLIENT)
    os.symlink(os.path.join(peers, "node_modules"), "node_modules")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ports = range(PYTHON, GNUTLS + 1)
    commands = [["node", "-e", NODE_SERVER], [sys.executable, "-m", "http.server", "-b", "127.0.0.1", str(PYTHON)],
                ["nginx", "-p", folder, "-c", "nginx.conf"],
                ["gnutls-serv", "-q", "-p", str(GNUTLS), "--x509certfile", "cert.pem", "--x509keyfile", "key.pem"]]
    servers = [subprocess.Popen(command, **quiet) for command in commands]
    for port in ports:
        wait_for(port)
    capture = subprocess.Popen(["dumpcap", "-q", "-P", "-i", "lo", "-f", f"tcp portrange {PYTHON}-{GNUTLS}", "-w", "capture.pcap"],
                               stderr=subprocess.PIPE, text=True)
    while "File:" not in capture.stderr.readline():
        pass
    client = lambda url: subprocess.run(["node", "client.mjs", url], timeout=30)
    curl = lambda url: subprocess.run(["curl", "-sk", "-m", "10", url], timeout=30, **quiet)
    for port in [PYTHON, NODE, NGINX]:
        client(f"https://127.0.0.1:{port}/mcp")
    curl(f"https://127.0.0.1:{NODE}/mcp")
    for port in [NODE_TLS, NGINX_TLS, GNUTLS]:
        client(f"http://127.0.0.1:{port}/mcp")
    curl(f"http://127.0.0.1:{GNUTLS}/mcp")
    time.sleep(1)
    capture.terminate()
    capture.wait()
    # This removes what dumpcap writes about the machine.
    subprocess.run(["editcap", "-F", "pcapng", "capture.pcap", out], check=True)
    for server in servers:
        server.kill()


def wait_for(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"no server on port {port}")


if __name__ == "__main__":
    main(*sys.argv[1:])
