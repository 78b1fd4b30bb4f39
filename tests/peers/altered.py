"""An STDIO server that is another one but for three tools: altered.py CHANGED DROPPED SLOWED CMD...

What CHANGED answers has " (changed)" behind its first text; DROPPED is not listed, and calls of it are refused; calls of SLOWED take 400 ms longer.
"""

import json
import subprocess
import sys
import threading
import time

changed, dropped, slowed, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
asked = {}
writing = threading.Lock()


def say(message):
    with writing:
        sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def requests():
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            tool = message["params"]["name"] if message["method"] == "tools/call" else None
            if tool == dropped:
                say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": f"no tool {tool}"}})
                continue
            asked[message["id"]] = (message["method"], tool)
            if tool == slowed:
                time.sleep(0.4)
        server.stdin.write(line.encode())
        server.stdin.flush()
    server.stdin.close()


sys.stdin.reconfigure(encoding="utf-8")
sys.stdout.reconfigure(encoding="utf-8")
threading.Thread(target=requests, daemon=True).start()
for line in server.stdout:
    message = json.loads(line)
    method, tool = asked.get(message.get("id"), (None, None)) if "method" not in message else (None, None)
    result = message.get("result", {})
    if method == "tools/list":
        result["tools"] = [tool for tool in result["tools"] if tool["name"] != dropped]
    if tool is not None and tool == changed:
        result["content"][0]["text"] += " (changed)"
    say(message)
