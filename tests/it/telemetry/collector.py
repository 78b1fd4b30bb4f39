#!/usr/bin/env python3
"""A collector that prints each request: path, type, API key and length.

  collector.py FILE PEM

It serves HTTPS on a free port of the loopback, which is written to FILE, with the key and the certificate in PEM.
"""
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(self.path, self.headers["Content-Type"], self.headers["api-key"], len(body), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(sys.argv[1], "w") as file:
    print(server.server_port, file=file)
server.serve_forever()
