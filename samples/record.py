"""Record what passes over the loopback interface into a pcapng file: `with recording(port_or_ports, path): ...`

tcpdump captures (it needs the right to, usually root's) and hands the packets over on its standard output; they are
written as pcapng with nanosecond times. Nothing about the machine goes into the file.
"""

import contextlib
import re
import struct
import subprocess
import threading
import time

INTERFACE = "lo"


@contextlib.contextmanager
def recording(ports, path):
    ports = [ports] if isinstance(ports, int) else ports
    expression = " or ".join(f"tcp port {port}" for port in ports)
    command = ["tcpdump", "-i", INTERFACE, "-n", "-U", "--immediate-mode", "--time-stamp-precision=nano", "-s", "0", "-w", "-", expression]
    tcpdump = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = []
    for line in tcpdump.stderr:
        said.append(line.decode())
        if "listening on" in said[-1]:
            break
    else:
        raise SystemExit("tcpdump: " + "".join(said).strip())
    pcap = bytearray()
    reader = threading.Thread(target=lambda: pcap.extend(tcpdump.stdout.read()))
    reader.start()
    try:
        yield
        time.sleep(0.3)  # the last acknowledgements
    finally:
        tcpdump.terminate()
        statistics = tcpdump.stderr.read().decode()
        reader.join()
        tcpdump.wait()
    dropped = re.search(r"(\d+) packets? dropped by kernel", statistics)
    if dropped and int(dropped[1]):
        raise SystemExit(f"tcpdump dropped {dropped[1]} packets: record again")
    with open(path, "wb") as file:
        file.write(pcapng(bytes(pcap)))


def pcapng(pcap):
    """A pcap file with nanosecond times as a pcapng file: one section, one interface, one block for each packet."""
    magic, _, _, _, _, snap_length, link_type = struct.unpack("<IHHiIII", pcap[:24])
    assert magic == 0xA1B23C4D, "tcpdump was asked for nanoseconds, on a little-endian machine"
    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    nanoseconds = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol 9, end of options
    out.append(block(1, struct.pack("<HHI", link_type, 0, snap_length) + nanoseconds))
    at = 24
    while at + 16 <= len(pcap):
        seconds, fraction, captured, original = struct.unpack_from("<IIII", pcap, at)
        moment = seconds * 1_000_000_000 + fraction
        data = pcap[at + 16:at + 16 + captured]
        out.append(block(6, struct.pack("<IIIII", 0, moment >> 32, moment & 0xFFFFFFFF, captured, original) + data))
        at += 16 + captured
    return b"".join(out)


def block(kind, body):
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length
