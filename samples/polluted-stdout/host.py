#!/usr/bin/env python3
"""A client that does not lose its temper: host.py CMD ARG... says its part to the server, however that answers."""

import json
import select
import subprocess
import sys

STORY = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "patient", "version": "1.0"}}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {"id": 3, "method": "tools/call", "params": {"name": "add_note", "arguments": {"title": "todo", "text": "print to stderr"}}},
    {"id": 4, "method": "tools/call", "params": {"name": "read_note", "arguments": {"title": "diary"}}},
    {"id": 5, "method": "ping"},
]

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for message in [None, *STORY]:
    if message:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
    # Whatever it says until it is silent.
    while select.select([server.stdout], [], [], 0.5)[0]:
        server.stdout.read1()
server.stdin.close()
print(f"the server ended with status {server.wait()}")
