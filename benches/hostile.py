#!/usr/bin/env python3
"""Write a capture of hostile traffic, to measure that its cost is in proportion. Python 3 alone.

  hostile.py CASE OUT [--count N]

CASE          what it writes                                                            N by default
 pipelined    one HTTP/1.1 connection: N pipelined POSTs, none of them answered              300,000
 streams      one HTTP/2 connection: N streams with a POST each, none of them answered     1,000,000
 answered     one HTTP/2 connection: N streams with a POST and its response each           1,000,000
 resets       one HTTP/2 connection: N streams that are opened and reset at once           1,000,000
 half-open    N connections: the head of a POST and 750 bytes of its content, no more        100,000
 syns         N SYNs, each of another client port, none of them answered                   1,000,000

Measure with `/usr/bin/time -v mcptap read --json OUT >/dev/null` and `/usr/bin/time -v mcptap check OUT >/dev/null`:
user and system time, and the maximum resident set size. Cost must grow as N does, memory must not grow with what ended.
Checksums are left zero, as a network card with checksum offloading leaves them."""
import argparse
import struct

MSS = 1448
SERVER = (10 << 24) | (200 << 16) | 5
PORT = 8080
COUNTS = {"pipelined": 300_000, "streams": 1_000_000, "answered": 1_000_000, "resets": 1_000_000, "half-open": 100_000, "syns": 1_000_000}
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"n":%d}}}'
RESULT = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}],"isError":false}}'
SYN, FIN, PUSH, ACK = 2, 1, 8, 16


class Capture:
    def __init__(self, path):
        self.file = open(path, "wb", buffering=1 << 22)
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101))  # raw IP
        self.now = 1_780_000_000_000_000

    def packet(self, client, port, from_client, flags, seq, ack, content=b""):
        self.now += 10
        source, target, sport, dport = (client, SERVER, port, PORT) if from_client else (SERVER, client, PORT, port)
        length = 40 + len(content)
        self.file.write(struct.pack("<IIII", self.now // 1_000_000, self.now % 1_000_000, length, length))
        self.file.write(struct.pack(">BBHHHBBHII", 0x45, 0, length, 0, 0x4000, 64, 6, 0, source, target))
        self.file.write(struct.pack(">HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 64240, 0, 0))
        self.file.write(content)


class Connection:
    """A TCP connection whose bytes are collected into full segments."""

    def __init__(self, capture, client, port):
        self.capture, self.client, self.port = capture, client, port
        self.next = {True: 1000, False: 5000}
        self.waiting = {True: bytearray(), False: bytearray()}
        self.send(True, SYN)
        self.send(False, SYN | ACK)
        self.send(True, ACK)

    def send(self, from_client, flags, content=b""):
        ack = self.next[not from_client] if flags & ACK else 0
        self.capture.packet(self.client, self.port, from_client, flags, self.next[from_client], ack, content)
        self.next[from_client] += len(content) + (1 if flags & (SYN | FIN) else 0)

    def write(self, from_client, content):
        waiting = self.waiting[from_client]
        waiting += content
        if len(waiting) >= 4 * MSS:
            self.flush(from_client)

    def flush(self, from_client):
        waiting = self.waiting[from_client]
        for start in range(0, len(waiting), MSS):
            self.send(from_client, ACK | PUSH, bytes(waiting[start:start + MSS]))
        if waiting:
            self.send(not from_client, ACK)
        waiting.clear()

    def end(self):
        for side in (True, False):
            self.flush(side)


def initialize():
    return (b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
            b'"clientInfo":{"name":"hostile","version":"1"}}}')


INITIALIZED = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'


def post(content, length=None):
    return b"POST /mcp HTTP/1.1\r\nHost: a.example\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (len(content) if length is None else length) + content


def pipelined(capture, count):
    connection = Connection(capture, (10 << 24) + 1, 40000)
    connection.write(True, post(initialize()))
    connection.flush(True)
    connection.write(False, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(INITIALIZED) + INITIALIZED)
    connection.flush(False)
    for number in range(1, count + 1):
        connection.write(True, post(CALL % (number, number)))
    connection.end()


def literal(name, value):
    """A literal header field without indexing (RFC 7541 section 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def frame(kind, flags, stream, content):
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


REQUEST_HEAD = (b"\x83\x86" + literal(b":path", b"/mcp") + literal(b":authority", b"a.example") + literal(b"content-type", b"application/json")
                + literal(b"accept", b"application/json, text/event-stream"))
RESPONSE_HEAD = b"\x88" + literal(b"content-type", b"application/json")


def http2(capture, count, ending):
    connection = Connection(capture, (10 << 24) + 1, 40000)
    connection.write(True, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    connection.write(False, frame(4, 0, 0, b""))
    for number in range(count + 1):
        stream = 2 * number + 1
        text = CALL % (number, number) if number else initialize()
        connection.write(True, frame(1, 4, stream, REQUEST_HEAD))
        if ending == "resets" and number:
            connection.write(True, frame(3, 0, stream, b"\0\0\0\x08"))
            continue
        connection.write(True, frame(0, 1, stream, text))
        if ending == "answered" or not number:
            connection.flush(True)
            connection.write(False, frame(1, 4, stream, RESPONSE_HEAD) + frame(0, 1, stream, RESULT % number if number else INITIALIZED))
            connection.flush(False)
    connection.end()


def half_open(capture, count):
    text = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"'
    content = post(text + b"x" * (750 - len(text)), 4000)
    for number in range(count):
        connection = Connection(capture, (10 << 24) + 1 + number // 50_000, 10_000 + number % 50_000)
        connection.write(True, content)
        connection.end()


def syns(capture, count):
    for number in range(count):
        capture.packet((10 << 24) + 1 + number // 50_000, 10_000 + number % 50_000, True, SYN, 1000, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=COUNTS)
    parser.add_argument("out")
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    count, capture = arguments.count or COUNTS[arguments.case], Capture(arguments.out)
    if arguments.case in ("streams", "answered", "resets"):
        http2(capture, count, arguments.case)
    else:
        {"pipelined": pipelined, "half-open": half_open, "syns": syns}[arguments.case](capture, count)
    capture.file.close()


if __name__ == "__main__":
    main()
