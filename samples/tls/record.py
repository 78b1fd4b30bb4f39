#!/usr/bin/env python3
"""Record one JSON-RPC exchange under each of many cipher suites, and the odd handshakes, with `openssl`.

    record.py OUT.pcapng

A relay between `openssl s_client` and `openssl s_server` notes what passes; OUT holds it as TCP packets, and the secrets that the
client logged. The tool's name says which variant a call belongs to, so that a test needs nothing but this file.
"""
import os, socket, struct, subprocess, sys, tempfile, threading, time

ECDSA = "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-ECDSA-AES128-CCM " \
    "ECDHE-ECDSA-AES256-CCM ECDHE-ECDSA-AES128-CCM8 ECDHE-ECDSA-AES256-CCM8 ECDHE-ECDSA-AES128-SHA ECDHE-ECDSA-AES256-SHA " \
    "ECDHE-ECDSA-AES128-SHA256 ECDHE-ECDSA-AES256-SHA384".split()
RSA = "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-CHACHA20-POLY1305 DHE-RSA-CHACHA20-POLY1305 " \
    "DHE-RSA-AES128-GCM-SHA256 DHE-RSA-AES256-GCM-SHA384 AES128-GCM-SHA256 AES256-GCM-SHA384 AES128-CCM AES256-CCM AES128-CCM8 " \
    "AES256-CCM8 DHE-RSA-AES128-CCM DHE-RSA-AES256-CCM DHE-RSA-AES128-CCM8 DHE-RSA-AES256-CCM8 ECDHE-RSA-AES128-SHA " \
    "ECDHE-RSA-AES256-SHA ECDHE-RSA-AES128-SHA256 ECDHE-RSA-AES256-SHA384 DHE-RSA-AES128-SHA DHE-RSA-AES256-SHA " \
    "DHE-RSA-AES128-SHA256 DHE-RSA-AES256-SHA256 AES128-SHA AES256-SHA AES128-SHA256 AES256-SHA256".split()
PSK = "PSK-AES128-GCM-SHA256 PSK-AES256-GCM-SHA384 PSK-CHACHA20-POLY1305 ECDHE-PSK-CHACHA20-POLY1305 PSK-AES128-CCM PSK-AES256-CCM " \
    "PSK-AES128-CCM8 PSK-AES256-CCM8".split()
NEWEST = "TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256 TLS_AES_128_CCM_SHA256 " \
    "TLS_AES_128_CCM_8_SHA256".split()


def variants():
    """Name, options of the server, options of the client, what the client says before its request."""
    for suite in NEWEST:
        yield suite, ["-tls1_3", "-ciphersuites", suite], ["-tls1_3", "-ciphersuites", suite], None
    for suite in ECDSA + RSA:
        certificate = "ecdsa" if suite in ECDSA else "rsa"
        options = ["-tls1_2", "-cipher", suite + ":@SECLEVEL=0"]
        yield suite, options + ["-cert", certificate + ".pem", "-key", certificate + ".key"], options, None
        if suite.endswith(("SHA", "SHA256", "SHA384")) and "GCM" not in suite:
            yield suite + " mac-then-encrypt", options + ["-no_etm", "-cert", certificate + ".pem", "-key", certificate + ".key"], options, None
    for suite in PSK:
        options = ["-tls1_2", "-cipher", suite + ":@SECLEVEL=0", "-psk", "1a2b3c4d"]
        yield suite, options + ["-nocert"], options, None
    yield "retry", ["-tls1_3", "-groups", "P-384"], ["-tls1_3", "-groups", "X25519:P-384"], None
    yield "key update", ["-tls1_3"], ["-tls1_3"], "K"
    yield "key update asked for", ["-tls1_3"], ["-tls1_3"], "k"
    yield "renegotiation", ["-tls1_2", "-legacy_renegotiation", "-client_renegotiation"], ["-tls1_2"], "R"
    yield "padding", ["-tls1_3", "-record_padding", "64"], ["-tls1_3", "-record_padding", "64"], None
    yield "small records", ["-tls1_3", "-max_send_frag", "512"], ["-tls1_3", "-max_send_frag", "512"], None
    yield "first of two", ["-tls1_3"], ["-tls1_3", "-sess_out", "session"], None
    yield "resumption", ["-tls1_3"], ["-tls1_3", "-sess_in", "session"], None
    yield "first of two with early data", ["-tls1_3", "-early_data"], ["-tls1_3", "-sess_out", "session"], None
    yield "early data", ["-tls1_3", "-early_data"], ["-tls1_3", "-sess_in", "session", "-early_data", "early"], None
    # A ticket opens the door to early data once.
    yield "early data refused", ["-tls1_3", "-early_data"], ["-tls1_3", "-sess_in", "session", "-early_data", "early"], None
    yield "first of two, TLS 1.2", ["-tls1_2"], ["-tls1_2", "-sess_out", "session"], None
    yield "resumption, TLS 1.2", ["-tls1_2"], ["-tls1_2", "-sess_in", "session"], None


def request(name):
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"}}' % name
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\n" \
        f"Content-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def answer(name):
    body = '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}' % (name + " " + "x" * 1500)
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


class Relay:
    """Between one client and one server; notes who sent what."""

    def __init__(self, server_port):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.said, self.lock = [], threading.Lock()
        self.thread = threading.Thread(target=self.run, args=(server_port,))
        self.thread.start()

    def run(self, server_port):
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", server_port))
        other = threading.Thread(target=self.pump, args=(1, server, client))
        other.start()
        self.pump(0, client, server)
        other.join()

    def pump(self, side, source, sink):
        try:
            while data := source.recv(65536):
                with self.lock:
                    self.said.append((time.time_ns(), side, data))
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def read_until(pipe, wanted):
    seen = b""
    while wanted not in seen:
        data = os.read(pipe.fileno(), 65536)
        if not data:
            raise EOFError(seen)
        seen += data


class Server:
    """`openssl s_server`; one for all variants in a row with the same options, since it alone can resume its sessions."""

    options, process = None, None

    def __init__(self):
        self.port = 0

    def start(self, options):
        if options == self.options:
            return
        self.stop()
        self.options = options
        self.port, self.process = serve(options)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def serve(server_options):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if "-nocert" not in server_options and "-cert" not in server_options:
        server_options = server_options + ["-cert", "ecdsa.pem", "-key", "ecdsa.key"]
    server = subprocess.Popen(["openssl", "s_server", "-quiet", "-accept", str(port), *server_options],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while True:
        with open("/proc/net/tcp") as table, open("/proc/net/tcp6") as more:
            if any(f":{port:04X} " in line and " 0A " in line for line in table.read().splitlines() + more.read().splitlines()):
                return port, server


def record(server, name, server_options, client_options, command, keys):
    server.start(server_options)
    relay = Relay(server.port)
    server = server.process
    with open("early", "wb") as file:
        file.write(request(name))
    quiet = [] if command else ["-quiet", "-no_ign_eof"]
    client = subprocess.Popen(["openssl", "s_client", *quiet, "-connect", f"127.0.0.1:{relay.port}", "-keylogfile", keys,
                               "-servername", "localhost", *client_options],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if command:
        read_until(client.stdout, b"---\n")
        client.stdin.write(command.encode() + b"\n")
        client.stdin.flush()
        time.sleep(0.3)
    if name != "early data":
        client.stdin.write(request(name))
        client.stdin.flush()
    read_until(server.stdout, f'"{name}"}}}}'.encode())
    server.stdin.write(answer(name))
    server.stdin.flush()
    read_until(client.stdout, b"x\"}]}}")
    time.sleep(0.05)
    client.stdin.close()
    client.wait(10)
    relay.thread.join(10)
    return relay.said


def packet(side, ports, numbers, flags, data):
    addresses = [socket.inet_aton("192.0.2.1"), socket.inet_aton("192.0.2.2")]
    tcp = struct.pack("!HHIIBBHHH", ports[side], ports[1 - side], numbers[side], numbers[1 - side] if flags & 16 else 0, 80, flags, 65535, 0, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 69, 0, 40 + len(data), 0, 0, 64, 6, 0, addresses[side], addresses[1 - side])
    return ip + tcp + data


def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def write(out, connections, keys):
    out.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    out.write(block(1, struct.pack("<HHI", 101, 0, 0) + struct.pack("<HHB3x", 9, 1, 9) + bytes(4)))
    out.write(block(10, struct.pack("<II", 0x544C534B, len(keys)) + keys))
    for index, said in enumerate(connections):
        ports, numbers = (40000 + index, 443), [1000, 5000]
        clock = said[0][0] - 1_000_000

        def put(side, flags, data=b""):
            frame = packet(side, ports, numbers, flags, data)
            out.write(block(6, struct.pack("<IIIII", 0, clock >> 32, clock & 0xFFFFFFFF, len(frame), len(frame)) + frame))
            numbers[side] += len(data) + bool(flags & 3)

        put(0, 2), put(1, 18), put(0, 16)
        for clock, side, data in said:
            for start in range(0, len(data), 1400):
                put(side, 24, data[start:start + 1400])
        clock += 1_000
        put(0, 17), put(1, 17), put(0, 16)


def main():
    target = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for name, kind in (("rsa", ["rsa:2048"]), ("ecdsa", ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"])):
            subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-keyout", name + ".key", "-out", name + ".pem",
                            "-subj", "/CN=localhost", "-days", "3650"], check=True, capture_output=True)
        connections, server = [], Server()
        for variant in variants():
            print(variant[0], file=sys.stderr)
            connections.append(record(server, *variant, os.path.join(scratch, "keys.log")))
        server.stop()
        keys = b"".join(line for line in open("keys.log", "rb") if not line.startswith(b"#"))
        with open(target, "wb") as out:
            write(out, connections, keys)


if __name__ == "__main__":
    main()
