#!/usr/bin/env python3
"""mcptap beside tshark and tcpdump: wall-clock time and peak memory, all in one run, as ratios.

    cargo build --release --features full && benches/versus.py [--rounds N] [--size 65M] [--large 5G] [--folder DIR]

Makes its captures (`bigpcap.py`, `tls.py`). The programs run in turn, N rounds (3). A ratio is the median of the ratios of the
rounds. What is not installed is left out. --large also measures the memory for a capture of that size, which takes minutes."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MCPTAP = os.environ.get("MCPTAP", os.path.join(HERE, "..", "target", "release", "mcptap"))
TSHARK = ["tshark", "-o", "tcp.reassemble_out_of_order:TRUE", "-Y", "json", "-T", "ek", "-J", "tcp http json", "-r"]


def measure(command):
    """Wall-clock seconds, CPU seconds and peak megabytes of a command whose output is thrown away."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def generated(script, out, *options):
    subprocess.run([sys.executable, os.path.join(HERE, script), out, *options], check=True, stdout=subprocess.DEVNULL)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", default="65M")
    parser.add_argument("--large")
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        compare(folder, options)


def compare(folder, options):
    plain = generated("bigpcap.py", os.path.join(folder, "plain.pcap"), "--size", options.size)
    tls = generated("tls.py", os.path.join(folder, "tls.pcap"))
    database = os.path.join(folder, "versus.db")
    keys = tls + ".keys"
    commands = {
        "tcpdump": ["tcpdump", "-r", plain, "-w", os.devnull],
        "read": [MCPTAP, "read", plain],
        "read --json": [MCPTAP, "read", "--json", plain],
        "read --save": [MCPTAP, "read", "--save", "--db", database, plain],
        "tshark": [*TSHARK, plain],
        "TLS: read --json": [MCPTAP, "read", "--json", "--keylog", keys, tls],
        "TLS: tshark": [*TSHARK, tls, "-o", f"tls.keylog_file:{keys}", "-d", "tcp.port==8080,tls"],
    }
    commands = {name: command for name, command in commands.items() if shutil.which(command[0])}
    rounds = []
    for _ in range(options.rounds):
        figures = {}
        for name, command in commands.items():
            for suffix in ("", "-wal", "-shm"):
                if os.path.exists(database + suffix):
                    os.remove(database + suffix)
            figures[name] = measure(command)
        rounds.append(figures)
    print(f"{os.path.getsize(plain) / 1e6:.0f} MB, TLS {os.path.getsize(tls) / 1e6:.0f} MB, {options.rounds} rounds\n")
    print("| command | wall-clock s | CPU s | peak MB |\n|---|---|---|---|")
    for name in commands:
        wall, cpu, memory = (statistics.median(column) for column in zip(*(figures[name] for figures in rounds)))
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |")
    print("\n| ratio of wall-clock time | today | lowest to highest | aim |\n|---|---|---|---|")
    for above, below, aim in (
        ("tshark", "read --json", "50"),
        ("read --json", "tcpdump", "4"),
        ("read --save", "read", "2"),
        ("TLS: tshark", "TLS: read --json", "50"),
    ):
        if above in commands and below in commands:
            ratios = [figures[above][0] / figures[below][0] for figures in rounds]
            print(f"| {above} / {below} | {statistics.median(ratios):.1f} | {min(ratios):.1f} to {max(ratios):.1f} | {aim} |")
    if options.large:
        os.remove(plain)
        large = generated("bigpcap.py", plain, "--size", options.large)
        wall, _, memory = measure([MCPTAP, "read", "--json", large])
        print(f"\n{os.path.getsize(large) / 1e6:.0f} MB: read --json takes {wall:.0f} s and {memory:.0f} MB (aim: 200 MB)")


if __name__ == "__main__":
    main()
