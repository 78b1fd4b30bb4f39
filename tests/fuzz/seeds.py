#!/usr/bin/env python3
"""Builds the seeds of every fuzz target from the samples, captures and documents of the repository: seeds.py [FOLDER]

The folder, by default corpus/, has a folder for each target. What is in it already stays.
"""
import gzip, hashlib, itertools, json, pathlib, re, struct, sys, zlib

CLIENT, SERVER = 0, 1
# The order of the link types in the target `packet`.
LINKS = [1, 0, 101, 108, 113, 228, 229, 276, 147, 65_535, 9, 50, 51, 104, 105, 107, 127]
# Longer seeds make a fuzzer slow and reach nothing new.
LONGEST = 16_384
here = pathlib.Path(__file__).resolve().parent
tests = here.parent
corpus = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "corpus"


def seed(target, data):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def packets(capture):
    """Link type and bytes of each packet of a pcap or pcapng file in little endian."""
    if capture[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        link, at = struct.unpack_from("<H", capture, 20)[0], 24
        while at + 16 <= len(capture):
            length = struct.unpack_from("<I", capture, at + 8)[0]
            yield link, capture[at + 16:at + 16 + length]
            at += 16 + length
        return
    links, at = [], 0
    while at + 12 <= len(capture) and capture[:4] == b"\n\r\r\n":
        kind, length = struct.unpack_from("<II", capture, at)
        if kind == 0x0A0D0D0A:
            links = []
        if kind == 1:
            links.append(struct.unpack_from("<H", capture, at + 8)[0])
        if kind == 6 and at + 28 <= len(capture):
            interface, _, _, captured = struct.unpack_from("<IIII", capture, at + 8)
            if interface < len(links):
                yield links[interface], capture[at + 28:at + 28 + captured]
        at += max(length, 12)


def first(capture, count):
    """The pcapng file up to so many packets."""
    at = 0
    while count and at + 12 <= len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        count -= kind == 6
        at += max(length, 12)
    return capture[:at]


def pcap(found, order, magic):
    """Packets of one link type as a pcap file."""
    head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, found[0][0])
    record = lambda packet: struct.pack(order + "IIII", 1, 2, len(packet), len(packet)) + packet
    return head + b"".join(record(packet) for link, packet in found if link == found[0][0])


def layers(link, packet):
    """IP protocol, ports, the header and the payload of an IPv4 packet."""
    head = {0: 4, 1: 14, 101: 0, 113: 16, 228: 0, 276: 20}.get(link)
    if head is None or len(packet) <= head + 20 or packet[head] >> 4 != 4:
        return None
    ip = packet[head:head + struct.unpack_from(">H", packet, head + 2)[0]]
    transport = ip[(ip[0] & 15) * 4:]
    if len(transport) < {6: 20, 17: 8}.get(ip[9], 1 << 16):
        return None
    size = {6: (transport[12] >> 4) * 4, 17: 8}[ip[9]]
    if ip[9] == 6 and size < 20:
        return None
    return ip[9], struct.unpack_from(">HH", transport), transport[:size], transport[size:]


def script(pieces, what):
    """Pieces of a conversation, each behind what it is and how long."""
    cut = ((side, piece[at:at + 255]) for side, piece in pieces for at in range(0, len(piece), 255))
    return b"".join(bytes([what(side), len(piece)]) + piece for side, piece in cut)


def packets_of(steps):
    """A script of packets, for the targets that take one."""
    seed("stack", steps)
    seed("export", bytes([zlib.crc32(steps) % 10]) + steps)


def capture(data):
    found = list(packets(data))
    if len(data) <= LONGEST:
        seed("capture_file", data)
        seed("stack", data)
    if data[:4] == b"\n\r\r\n":
        for some in first(data, 6), first(data, 24):
            seed("capture_file", some[:LONGEST])
            seed("stack", some[:LONGEST])
    if not found:
        return
    for order, magic in ("<", 0xA1B2C3D4), (">", 0xA1B2C3D4), ("<", 0xA1B23C4D), (">", 0xA1B2CD34):
        seed("capture_file", pcap(found[:4], order, magic)[:LONGEST])
    for link in {link for link, _ in found} & set(LINKS):
        some = [packet for kind, packet in found if kind == link and len(packet) < 2_000][:12]
        seed("packet", bytes([LINKS.index(link), 0]) + b"".join(struct.pack(">H", len(p)) + p for p in some))
    flows, segments = {}, {}
    for part in filter(None, (layers(*packet) for packet in found[:2_000])):
        protocol, ports, header, payload = part
        if protocol == 17 and {53, 5353} & set(ports):
            seed("dns", payload)
            seed("stack", bytes([0x38, len(payload[:253]) + 2, 14, 0]) + payload[:253])
        if protocol != 6:
            continue
        key = tuple(sorted(ports))
        side = CLIENT if ports[0] > ports[1] else SERVER
        flows.setdefault(key, []).append((side, payload))
        segments.setdefault(key, []).append((side, header, payload))
    for pieces in itertools.islice(flows.values(), 6):
        conversation(pieces)
    for some in itertools.islice(segments.values(), 6):
        steps, starts = b"", {}
        for number, (side, header, payload) in enumerate(some[:40]):
            sequence, acknowledgment = struct.unpack_from(">II", header, 4)
            starts.setdefault(side, sequence)
            other = starts.setdefault(1 - side, acknowledgment)
            relative = struct.pack(">HH", (sequence - starts[side]) & 0x0FFF, (acknowledgment - other) & 0x0FFF)
            steps += bytes([number, side << 7, header[13] & 0x3F]) + relative + bytes([len(payload) % 90, 1, 0, 0, 0])
        seed("tcp", steps)


def conversation(pieces):
    pieces = [(side, piece) for side, piece in pieces if piece]
    sent = [b"".join(piece for side, piece in pieces if side == direction) for direction in (CLIENT, SERVER)]
    if any(piece.startswith(b"\x16\x03") for _, piece in pieces):
        cut = [(side, piece[at:at + 127]) for side, piece in pieces for at in range(0, len(piece), 127)]
        seed("tls", b"\x05\0" + b"".join(bytes([side | len(piece) << 1]) + piece for side, piece in cut[:60]))
        return
    asks = {side for side, piece in pieces if re.match(rb"[A-Z]+ /|PRI ", piece)}
    if not asks:
        return
    seed("mock_request", b"".join(piece for side, piece in pieces if side in asks)[:4096])
    whole = script(pieces, lambda side: 2 | side)
    for target in "http1", "http2":
        if (b"PRI * HTTP/2" in whole) == (target == "http2") or b"h2c" in whole:
            seed(target, whole[:4096])
    seed("proxy", script(pieces, lambda side: int(side not in asks))[:4096])
    steps = script(pieces, lambda side: side << 2)
    packets_of(b"\x10\0\x14\0" + steps[:4000] + b"\x18\0\x1c\0")
    for direction in sent:
        at = direction.find(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        header_blocks(direction[at + 24:] if at >= 0 else direction)
        end = direction.find(b"\r\n\r\n") + 4
        if re.search(rb"(?i)upgrade: websocket", direction[:end]):
            frames = direction[end:end + 2_000]
            cut = (frames[at:at + 127] for at in range(0, len(frames), 127))
            seed("websocket", b"".join(bytes([127]) + piece.ljust(127, b"\0") for piece in cut))
    messages = []
    for side, piece in pieces:
        found = re.findall(rb'^(?:data: )?({"?.*}|\[.*\])\r?$', piece, re.M)
        messages += [(side, text) for text in found]
        body = piece.split(b"\r\n\r\n", 1)[-1][:2_000]
        seed("coding", gzip.compress(body, mtime=0))
        seed("coding", zlib.compress(body))
        coded = re.search(rb"(?i)content-encoding: *(br|zstd|gzip|deflate)", piece)
        if coded:
            seed("coding", piece.split(b"\r\n\r\n", 1)[-1][:LONGEST])
        if b"data:" in body:
            seed("sse", b"\xff\0" + body)
            seed("sse", b"\x20\1" + body)
    recorded([(side, text) for side, text in messages if len(text) < 4_000])


def recorded(messages):
    """Seeds of the targets that take messages."""
    if not messages:
        return
    texts = [text for _, text in messages]
    for text in texts[:40]:
        seed("jsonrpc", text)
        seed("shape", text)
        seed("coding", b"\x28\xb5\x2f\xfd\x20" + bytes([min(len(text), 255)]) + struct.pack("<I", min(len(text), 255) << 3 | 1)[:3] + text[:255])
        for tool in re.findall(rb'"(?:inputSchema|outputSchema|requestedSchema)":({.*})', text):
            schema(tool)
    seed("jsonrpc", b"[" + b",".join(texts[:3]) + b"]")
    seed("lines", b"\xff\0" + b"\r\n".join(texts)[:4_000])
    seed("lines", b"\x10\3" + b"\n".join(texts)[:4_000])
    piped = [(side, text + b"\n") for side, text in messages]
    packets_of(b"\x0b\0" + script(piped, lambda side: 3 | side << 2)[:4000])
    lines = [b"><"[side:side + 1] + text for side, text in messages]
    answers = [re.sub(rb"\d", b"7", text.split(b'"result":', 1)[1][:-1]) for side, text in messages if side == SERVER and b'"result":' in text]
    seed("replay", b"\n".join(lines + [b"=" + answer for answer in answers])[:LONGEST])


def schema(text):
    """A seed from the JSON value that a text begins with."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text.decode())
    except ValueError:
        return
    names = list(value.get("properties", {}))
    values = [{}, {name: 1 for name in names}, {name: "a text that is no secret" for name in names}]
    lines = [json.dumps(each, separators=(",", ":")) for each in [value, *values]]
    for revision in 0, 2, 4:
        seed("schema", bytes([revision]) + "\n".join(lines).encode())


def header_blocks(frames):
    """The header blocks of HTTP/2 frames, as `hpack` takes them."""
    blocks, at = b"", 0
    while at + 9 <= len(frames):
        length, kind = int.from_bytes(frames[at:at + 3], "big"), frames[at + 3]
        if kind > 9 or length > 16_384:
            return
        block = frames[at + 9:at + 9 + length]
        if kind == 1 and len(block) < 256:
            blocks += bytes([len(block)]) + block
        at += 9 + length
    if blocks:
        seed("hpack", blocks)


def composed():
    """Scripts of units that the target writes itself, see src/core/pipeline/fuzz/script/composer.rs."""
    unit = lambda side, what, options=0, content=b"", flow=0: bytes([0x38 | side << 2 | flow, 2 + len(content), what, options]) + content
    opened = lambda flow=0: bytes([0x10 | flow, 0, 0x14 | flow, 0])
    closed = lambda flow=0: bytes([0x18 | flow, 0, 0x1C | flow, 0])
    message = lambda number, id=1, text=b"x": bytes([number, id]) + text
    calls = [(0, 1), (3, 4), (5, 6), (5, 7), (19, 20), (23, 8), (24, 25), (5, 26), (27, 6), (5, 28), (29, 12), (30, 30)]
    scripts = []
    for number, (ask, answer) in enumerate(calls):
        for options in number % 5, 8 | number % 5, 0x10, 0x20, 0x40:
            scripts.append(opened() + unit(0, 0, options, message(ask)) + unit(1, 0, options & 0x1F, message(answer)) + closed())
        stream = opened() + unit(0, 0, 0x10, message(ask)) + unit(1, 1, 8 | 0x10)
        for event in 31, 9, 13, 15, answer:
            stream += unit(1, 2, number % 16 | (1 + number % 3) << 4 | (number & 3) << 6, message(event, number))
        scripts.append(stream + unit(1, 4) + unit(0, 1, 0x50) + closed())
        h2 = unit(0, 7) + unit(1, 7) + unit(0, 8, 1) + unit(0, 9, 0x81, message(ask)) + unit(1, 8, 1) + unit(1, 9, 0x81, message(answer))
        scripts.append(opened() + h2 + closed())
        scripts.append(opened() + unit(0, 5, 1) + unit(1, 5, 1) + h2 + closed())
        for deflate in 0, 2:
            frame = lambda side, what: unit(side, 6, 1 | deflate << 4, message(what))
            scripts.append(opened() + unit(0, 5, deflate) + unit(1, 5, deflate) + frame(0, ask) + frame(1, answer) + unit(0, 6, 8) + closed())
        for flow in 0, 1, 2:
            tls = lambda side, what, options=0, content=b"": unit(side, what, options, content, flow)
            scripts.append(opened(flow) + tls(0, 10) + tls(1, 10) + tls(0, 0, 0x40, message(ask)) + tls(1, 0, 0, message(answer)) + closed(flow))
        scripts.append(opened() + unit(0, 11) + unit(1, 11) + unit(0, 10) + unit(1, 10) + h2 + closed())
        pipes = b"\x0b\0" + b"".join(bytes([0x3B | side << 2, len(text)]) + text for side, text in [(0, message(ask)), (1, message(9)), (1, message(answer))])
        scripts.append(pipes + b"\x13\0\x17\0\x1b\0")
    scripts.append(opened() + unit(0, 12, 0, b"x") + unit(1, 12, 0, b"x") + unit(0, 0, 0x40, message(5)) + unit(1, 0, 0x40, message(8)) + closed())
    scripts.append(opened() + unit(0, 1) + unit(1, 1, 8) + unit(1, 2, 0x20, b"/messages?session_id=1") + opened(1) + unit(0, 0, 0x80, message(0), 1) + unit(1, 0, 0x20, b"", 1) + unit(1, 2, 0x10, message(1)) + closed())
    scripts.append(unit(0, 14, 0, DNS) + unit(1, 14, 0, DNS) + unit(0, 14, 1, bytes([0xC3, 0, 0, 0, 1, 8]) + bytes(8) + bytes([0]) + bytes(60)))
    for one in scripts:
        packets_of(one)


def handmade():
    """What no capture of the repository has."""
    hello = lambda kind, suites, versions: (lambda extension: bytes([kind, 0, 0, 37 + len(suites) + len(extension), 3, 3]) + bytes([7]) * 32 + bytes([0]) + suites + bytes([0, len(extension)]) + extension)(bytes([0, 43, 0, len(versions)]) + versions)
    record = lambda content: bytes([22, 3, 3, 0, len(content)]) + content
    turn = lambda side, content: bytes([side | len(content) << 1]) + content
    sealed = lambda side, kind, content: bytes([side, 1 + len(content), kind]) + content
    opened = turn(0, record(hello(1, b"\0\x02\x13\x01\x01\0", b"\x02\x03\x04"))) + turn(1, record(hello(2, b"\x13\x01\0", b"\x03\x04")))
    for gap in 0, 3, 5:
        seed("tls", bytes([9, gap]) + opened + sealed(0, 22, b"\x14\0\0\x20" + bytes(32)) + sealed(0, 23, b"question") + sealed(1, 23, b"answer") + sealed(1, 22, b"\x18\0\0\x01\0") + sealed(0, 21, b"\x01\0"))
    old = turn(0, record(hello(1, b"\0\x02\xc0\x2f\x01\0", b"\x02\x03\x03"))) + turn(1, record(hello(2, b"\xc0\x2f\0", b"\x03\x03")))
    seed("tls", b"\x09\0" + old + turn(0, b"\x14\x03\x03\0\x01\x01") + turn(0, record(bytes(40))))
    frame = lambda first, payload, mask=b"": bytes([first, (0x80 if mask else 0) | len(payload)]) + mask + payload
    compressor = zlib.compressobj(wbits=-15)
    deflated = (compressor.compress(b'{"jsonrpc":"2.0"}') + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
    for frames in [frame(0x81, b"{}"), frame(0x01, b"[1,") + frame(0x89, b"p") + frame(0x80, b"2]")], [frame(0xC1, deflated), frame(0xC1, deflated)], [frame(0x81, b"xyz", bytes(4)), frame(0x88, b"\x03\xe8")]:
        piece = b"".join(frames)
        seed("websocket", bytes([len(piece) | 1]) + piece.ljust(len(piece) | 1, b"\0") + b"\x04" + bytes([len(piece) | 1]) + piece)
    # RFC 7541 appendix C: examples with literals, with the table, and with Huffman codes.
    examples = ["400a637573746f6d2d6b65790d637573746f6d2d686561646572", "040c2f73616d706c652f70617468", "828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865", "828684418cf1e3c2e5f23a6ba0ab90f4ff", "3fe11f88c0"]
    blocks = [bytes.fromhex(text) for text in examples]
    secret = bytes([0x10, 13]) + b"authorization" + bytes([13]) + b"Bearer secret"
    seed("hpack", b"".join(bytes([len(block)]) + block for block in blocks + [secret, secret]))
    for block in blocks:
        seed("hpack", bytes([len(block)]) + block)
    part = lambda kind, flags, stream, payload: len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + part(4, 0, 0, b""), part(1, 4, 1, blocks[2]), part(0, 8, 1, b"\x02body\0\0"), part(1, 0, 3, blocks[2][:5]), part(9, 4, 3, blocks[2][5:]), part(0, 1, 1, b"end"), part(8, 0, 0, bytes(4)), part(3, 0, 3, bytes(4)), part(7, 0, 0, bytes(8))]
    seed("http2", b"".join(bytes([2, len(piece)]) + piece for piece in sent) + b"".join(bytes([3, len(piece)]) + piece for piece in [part(4, 0, 0, b""), part(4, 1, 0, b""), part(1, 4, 1, b"\x88"), part(0, 1, 1, b"{}"), part(5, 4, 1, bytes(4) + b"\x82")]))
    for text in b"data: a\n\n", b"\xef\xbb\xbfid: 1\r\nevent: message\r\ndata: a\r\ndata: b\r\n\r\n", b":c\rretry: 5\rdata\r\r", b"event: endpoint\ndata: /m\n\nid: \0\ndata: x\n\n":
        seed("sse", b"\xff\0" + text)
        seed("sse", b"\x08\2" + text)
    labels = ["CLIENT_RANDOM", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"]
    seed("keylog", "".join(f"{label} {'07' * 32} {'05' * (48 if label == 'CLIENT_RANDOM' else 32)}\r\n" for label in labels).encode())
    for text in ['{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer","maximum":9}}}', '{"anyOf":[{"$ref":"#"},{"items":{"$ref":"#"}}]}', '{"pattern":"^(a+)+$","format":"uri"}', '{"$dynamicAnchor":"a","unevaluatedProperties":false,"allOf":[{"$dynamicRef":"#a"}]}', '{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}', '{"enum":[1,"a",null],"not":{"const":1},"if":{"minLength":2},"then":{"maxLength":3},"else":true}', '{"$id":"https://a/b","$anchor":"x","patternProperties":{"^a":{"$ref":"#x"}},"propertyNames":{"maxLength":9},"dependentRequired":{"a":["b"]}}']:
        schema(text.encode())
    for command in range(28):
        for database, damage in itertools.product(range(3), [b"", bytes([0, 0, 64, 0, 2, 9, 9]), bytes([1, 3, 0, 0])]):
            seed("database", bytes([database, command, 1]) + damage)
        for table in range(14):
            seed("database", bytes([2, command, 1 + command % 4]) + b"".join(bytes([2, table, column, 1, (command + column) % 6, 3, column, 200, 100]) for column in (1, 4, 7, 10, 13, 16)))


# No sample asks for a name: an alias and its address.
DNS = bytes.fromhex("1234818000010002000000000161026e6c0000010001c00c000500010000003c00040162c00ec0240001"
                    "00010000003c00040a000001")

captures = [*(tests.parent / "samples").glob("*/*.pcapng")]
for folder in "captures", "captures-public", "cases":
    captures += [path for path in (tests / folder).rglob("*") if re.search(r"\.(pcap|pcapng|cap)(\.gz)?$", path.name)]
for path in sorted(captures):
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        seed("capture_file", data[:LONGEST])
        data = gzip.decompress(data)
    # Some captures are damaged. What they hold until there is enough.
    try:
        capture(data)
    except (struct.error, IndexError):
        seed("capture_file", data[:LONGEST])
for path in sorted(tests.rglob("captures*/**/*key*log*")):
    if path.is_file():
        data = path.read_bytes()
        seed("keylog", b"".join(data.splitlines(True)[:5]))
        seed("keylog", data[:2_000])
for block in re.findall(r"```filter\n(.*?)```", (tests.parent / "docs/filter.md").read_text(), re.S):
    for line in block.splitlines():
        seed("filter", line.split("   ")[0].encode())
seed("dns", DNS)
composed()
handmade()
if sys.stdout.isatty() or len(sys.argv) < 2:
    for folder in sorted(corpus.iterdir()):
        files = list(folder.iterdir())
        print(f"{folder.name:<13} {len(files):>5} files {sum(file.stat().st_size for file in files):>9} bytes")
