#!/usr/bin/env python3
"""An STDIO server whose author prints to stdout: a banner, a log line, pretty-printed JSON, a progress text, a traceback."""

import json
import sys
import traceback

NOTES = {"groceries": "bread, olives"}


def answer(id, result, indent=None):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}, indent=indent), flush=True)


def call(id, name, arguments):
    if name == "add_note":
        print("saving ... ", end="")  # no end of line: the answer follows in the same one
        NOTES[arguments["title"]] = arguments["text"]
        answer(id, {"content": [{"type": "text", "text": "saved"}]})
    elif name == "read_note":
        answer(id, {"content": [{"type": "text", "text": NOTES[arguments["title"]]}]})


print("\x1b[1m── notes 0.3 ──\x1b[0m\nListening on stdin.", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method, parameters = message.get("id"), message["method"], message.get("params", {})
    if method == "initialize":
        capabilities = {"tools": {}}
        server = {"name": "notes", "version": "0.3"}
        answer(id, {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server})
    elif method == "notifications/initialized":
        print("INFO:notes:client is ready", flush=True)
    elif method == "tools/list":
        schema = {"type": "object"}
        answer(id, {"tools": [{"name": name, "inputSchema": schema} for name in ("add_note", "read_note")]}, indent=2)
    elif method == "tools/call":
        try:
            call(id, parameters["name"], parameters["arguments"])
        except KeyError:
            print("no such note", file=sys.stderr, flush=True)
            print(traceback.format_exc(), end="", flush=True)
    elif method == "ping":
        answer(id, {})
sys.exit(3)
