#!/bin/sh
# Builds corpus/TARGET/ of every fuzz target from samples/ and docs/filter.md. What a corpus holds already stays.
cd "$(dirname "$0")" && exec python3 - <<'PYTHON'
import gzip, hashlib, pathlib, re, struct, zlib

CLIENT, SERVER = 0, 1


def seed(target, data):
    folder = pathlib.Path("corpus", target)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def packets(capture):
    """Link type and bytes of each packet of a pcapng file in little endian."""
    links, at = [], 0
    while at + 12 <= len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        if kind == 1:
            links.append(struct.unpack_from("<H", capture, at + 8)[0])
        if kind == 6:
            interface, _, _, captured = struct.unpack_from("<IIII", capture, at + 8)
            yield links[interface], capture[at + 28:at + 28 + captured]
        at += length


def first(capture, count):
    """The capture up to so many packets."""
    at = 0
    while count and at + 12 <= len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        count -= kind == 6
        at += length
    return capture[:at]


def pcap(found, order, magic):
    """Packets of one link type as a pcap file."""
    head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, found[0][0])
    record = lambda packet: struct.pack(order + "IIII", 1, 2, len(packet), len(packet)) + packet
    return head + b"".join(record(packet) for link, packet in found if link == found[0][0])


def layers(link, packet):
    """IP protocol, ports, the header and the payload of an IPv4 packet."""
    head = {0: 4, 1: 14, 101: 0, 113: 16, 276: 20}.get(link)
    if head is None or len(packet) <= head or packet[head] >> 4 != 4:
        return None
    ip = packet[head:head + struct.unpack_from(">H", packet, head + 2)[0]]
    transport = ip[(ip[0] & 15) * 4:]
    size = {6: (transport[12] >> 4) * 4, 17: 8}.get(ip[9])
    return size and (ip[9], struct.unpack_from(">HH", transport), transport[:size], transport[size:])


def script(pieces, what):
    """Pieces of a conversation, each behind what it is and how long."""
    cut = ((side, piece[at:at + 255]) for side, piece in pieces for at in range(0, len(piece), 255))
    return b"".join(bytes([what(side), len(piece)]) + piece for side, piece in cut)


def capture(data):
    found = list(packets(data))
    for some in first(data, 6), first(data, 24), data:
        seed("capture_file", some)
        seed("stack", some)
    for order, magic in ("<", 0xA1B2C3D4), (">", 0xA1B2C3D4), ("<", 0xA1B23C4D), (">", 0xA1B2CD34):
        seed("capture_file", pcap(found[:4], order, magic))
    kinds = [1, 0, 101, 108, 113, 228, 229, 276, 147]
    for link in {link for link, _ in found} & set(kinds):
        some = [packet for kind, packet in found if kind == link][:12]
        seed("packet", bytes([kinds.index(link), 0]) + b"".join(struct.pack(">H", len(p)) + p for p in some))
    flows, segments = {}, {}
    for part in filter(None, (layers(*packet) for packet in found)):
        protocol, ports, header, payload = part
        if protocol == 17 and 53 in ports:
            seed("dns", payload)
        if protocol != 6:
            continue
        key = tuple(sorted(ports))
        side = CLIENT if ports[0] > ports[1] else SERVER
        flows.setdefault(key, []).append((side, payload))
        segments.setdefault(key, []).append((side, header, payload))
    for pieces in flows.values():
        conversation(pieces)
    for some in segments.values():
        steps = b""
        starts = {}
        for number, (side, header, payload) in enumerate(some[:40]):
            sequence, acknowledgment = struct.unpack_from(">II", header, 4)
            starts.setdefault(side, sequence)
            other = starts.setdefault(1 - side, acknowledgment)
            relative = struct.pack(">HH", (sequence - starts[side]) & 0x0FFF, (acknowledgment - other) & 0x0FFF)
            steps += bytes([number, side << 7, header[13] & 0x3F]) + relative + bytes([len(payload) % 90, 1, 0, 0, 0])
        seed("tcp", steps)


def conversation(pieces):
    pieces = [(side, piece) for side, piece in pieces if piece]
    if any(piece.startswith(b"\x16\x03") for _, piece in pieces):
        cut = [(side, piece[at:at + 127]) for side, piece in pieces for at in range(0, len(piece), 127)]
        seed("tls", b"\x05\0" + b"".join(bytes([side | len(piece) << 1]) + piece for side, piece in cut[:60]))
        return
    asks = {side for side, piece in pieces if re.match(rb"[A-Z]+ /", piece)}
    seed("mock_request", b"".join(piece for side, piece in pieces if side in asks)[:4096])
    whole = script(pieces, lambda side: 2 | side)
    seed("http1", whole[:4096])
    seed("proxy", script(pieces, lambda side: int(side not in asks))[:4096])
    opened = b"\x10\0\x14\0"
    seed("stack", (opened + script(pieces, lambda side: side << 2))[:4000] + b"\x18\0\x1c\0")
    texts = []
    for _, piece in pieces:
        texts += re.findall(rb'^(?:data: )?({"?.*}|\[.*\])\r?$', piece, re.M)
        body = piece.split(b"\r\n\r\n", 1)[-1]
        seed("coding", gzip.compress(body))
        seed("coding", zlib.compress(body))
        if b"data:" in body:
            seed("sse", b"\xff\0" + body)
    for text in texts:
        seed("jsonrpc", text)
    if texts:
        seed("jsonrpc", b"[" + b",".join(texts[:3]) + b"]")
        seed("lines", b"\xff\0" + b"\r\n".join(texts))
        piped = [(number % 2, text + b"\n") for number, text in enumerate(texts)]
        seed("stack", b"\x0b\0" + script(piped, lambda side: 3 | side << 2)[:4000])


for sample in sorted(pathlib.Path("../../samples").glob("*/*.pcapng")):
    capture(sample.read_bytes())
for block in re.findall(r"```filter\n(.*?)```", pathlib.Path("../../docs/filter.md").read_text(), re.S):
    for line in block.splitlines():
        seed("filter", line.split("   ")[0].encode())
# No sample asks for a name: an alias and its address.
seed("dns", bytes.fromhex("1234818000010002000000000161026e6c0000010001c00c000500010000003c00040162c00ec0240001"
                          "00010000003c00040a000001"))
for folder in sorted(pathlib.Path("corpus").iterdir()):
    files = list(folder.iterdir())
    print(f"{folder.name:<13} {len(files):>4} files {sum(file.stat().st_size for file in files):>8} bytes")
PYTHON
