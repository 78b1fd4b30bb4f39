#!/usr/bin/env python3
"""Write a capture of MCP over TLS 1.3 and its key log. Python 3 and the program openssl, which makes the certificate.

  tls.py OUT [--connections 20] [--calls 600] [--text 8000]

Each connection is a session: its handshake, then calls one after the other over HTTP/1.1, each in records of its own. OUT.keys
is the key log. Both ends are Python's `ssl` in memory, so nothing goes over a network."""
import argparse
import os
import ssl
import subprocess
import tempfile

from hostile import ACK, CALL, INITIALIZED, PUSH, Capture, Connection, MSS, initialize, post

RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}],"isError":false}}'


def contexts(keys):
    """The two ends. The client writes its secrets to the key log."""
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = os.path.join(folder, "key"), os.path.join(folder, "certificate")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a.example",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode, client.keylog_filename = False, ssl.CERT_NONE, keys
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    return client, server


class TlsConnection:
    """Both ends of a TLS connection, and the TCP connection that carries its records."""

    def __init__(self, capture, client, server, port):
        self.tcp = Connection(capture, (10 << 24) + 1, port)
        self.incoming = {end: ssl.MemoryBIO() for end in (True, False)}
        self.outgoing = {end: ssl.MemoryBIO() for end in (True, False)}
        self.ends = {True: client.wrap_bio(self.incoming[True], self.outgoing[True], server_hostname="a.example"),
                     False: server.wrap_bio(self.incoming[False], self.outgoing[False], server_side=True)}
        waiting = [True, False]
        while waiting:
            end = waiting.pop(0)
            try:
                self.ends[end].do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(end)
            self.send(end)

    def send(self, from_client):
        """Passes the records that an end has written to the other one, through the capture."""
        records = self.outgoing[from_client].read()
        self.incoming[not from_client].write(records)
        for start in range(0, len(records), MSS):
            self.tcp.send(from_client, ACK | PUSH, records[start:start + MSS])
        if records:
            self.tcp.send(not from_client, ACK)

    def write(self, from_client, content):
        self.ends[from_client].write(content)
        self.send(from_client)
        left = len(content)
        while left:
            left -= len(self.ends[not from_client].read(left))


def session(capture, client, server, port, calls, text):
    connection = TlsConnection(capture, client, server, port)

    def answer(content):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
        connection.write(False, head + content)

    connection.write(True, post(initialize()))
    answer(INITIALIZED)
    words = b"It rains in the north and the sun shines in the south. "
    for number in range(1, calls + 1):
        connection.write(True, post(CALL % (number, number)))
        answer(RESULT % (number, (words * (text // len(words) + 1))[:text]))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out")
    for name, default in (("--connections", 20), ("--calls", 600), ("--text", 8000)):
        arguments.add_argument(name, type=int, default=default)
    arguments = arguments.parse_args()
    keys = arguments.out + ".keys"
    open(keys, "w").close()
    client, server = contexts(keys)
    capture = Capture(arguments.out)
    for number in range(arguments.connections):
        session(capture, client, server, 40_000 + number, arguments.calls, arguments.text)
    capture.file.close()


if __name__ == "__main__":
    main()
