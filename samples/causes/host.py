#!/usr/bin/env python3
"""A client that sends a story: host.py STORY CMD ARG... It writes each line of the file STORY to the server.

Before the next line it reads the answer, if the line is a request. The line "wait" waits for a second. The server may end at any time.
"""

import json
import select
import subprocess
import sys

server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def answered(wanted):
    """Reads lines until the answer comes. Returns after two seconds without a line."""
    while select.select([server.stdout], [], [], 2.0)[0]:
        line = server.stdout.readline()
        if not line:
            return
        try:
            if json.loads(line).get("id") == wanted:
                return
        except ValueError:
            pass


for line in open(sys.argv[1]):
    if line.strip() == "wait":
        select.select([], [], [], 1.0)
        continue
    message = {"jsonrpc": "2.0", **json.loads(line)}
    try:
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()
    except BrokenPipeError:
        break
    if "id" in message:
        answered(message["id"])
try:
    server.stdin.close()
except BrokenPipeError:
    pass
server.wait()
