#!/usr/bin/env python3
"""mcptap beside tshark and tcpdump on one capture: CPU time, speed and peak memory, all in one run on one core.

    cargo build --release && benches/versus.py CAPTURE [ROUNDS]

The programs run in turn, ROUNDS times each (3); the fastest round of each counts, since whatever else the machine does only adds. A program that is
not installed is left out. `bigpcap.py CAPTURE --size 65M` makes a capture. `save` writes a database beside the capture's copy in the folder for temporary files.
"""

import os
import shutil
import sys
import tempfile

MCPTAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "mcptap")


def measure(command):
    """CPU seconds and peak kilobytes of a command on one core, its output thrown away."""
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    capture, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    size = os.path.getsize(capture)
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "versus.db")
        commands = {
            "tcpdump": ["tcpdump", "-r", capture, "-w", os.devnull],
            "mcptap read": [MCPTAP, "read", "--json", capture],
            "mcptap read --save": [MCPTAP, "read", "--json", "--save", "--db", database, capture],
            "tshark": ["tshark", "-r", capture, "-o", "tcp.reassemble_out_of_order:TRUE",
                       "-Y", "json", "-T", "ek", "-J", "tcp http json"],
        }
        commands = {name: command for name, command in commands.items() if shutil.which(command[0])}
        best = {}
        for _ in range(rounds):
            for name, command in commands.items():
                for suffix in ("", "-wal", "-shm"):
                    if os.path.exists(database + suffix):
                        os.remove(database + suffix)
                seconds, memory = measure(command)
                before = best.get(name, (seconds, memory))
                best[name] = min(before[0], seconds), max(before[1], memory)
    read = best["mcptap read"][0]
    print(f"{capture}: {size / 1e6:.0f} MB, best of {rounds}")
    for name, (seconds, memory) in best.items():
        relative = f"{seconds / read:8.2f} times mcptap read's time"
        print(f"{name:20} {seconds:8.2f} CPU s {size / 1e6 / seconds:8.1f} MB/s {memory / 1024:7.0f} MB  {relative}")


if __name__ == "__main__":
    main()
