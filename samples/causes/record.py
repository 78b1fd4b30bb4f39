#!/usr/bin/env python3
"""Records the cases anew: record.py MCPTAP PYTHON, where PYTHON has the official SDK (`pip install mcp`)."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

here = pathlib.Path(__file__).resolve().parent
mcptap, python = sys.argv[1:3]
client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "assistant", "version": "1.0"}}
begin = [{"id": 1, "method": "initialize", "params": client}, {"method": "notifications/initialized"}]
list_tools = {"id": 2, "method": "tools/list"}
call = {"id": 3, "method": "tools/call", "params": {"name": "get_weather", "arguments": {"city": "Quito"}}}
cancel = {"method": "notifications/cancelled", "params": {"requestId": 3, "reason": "timed out"}}
STORIES = {
    "healthy": [*begin, list_tools, call],
    "stdout": [*begin, list_tools, call],
    "hang": [*begin, list_tools, call, cancel, "wait"],
    "crash-at-import": [*begin],
    "crash-in-call": [*begin, list_tools, call],
    "schema": [*begin, list_tools],
    "second-page": [*begin, list_tools],
    "capability": [*begin, list_tools],
}

for case, story in STORIES.items():
    folder = here / case
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        lines = pathlib.Path(temporary, "story")
        lines.write_text("".join((line if line == "wait" else json.dumps(line)) + "\n" for line in story))
        db = f"{temporary}/mcptap.db"
        server = [python, "server.py", case]
        wrapped = [mcptap, "--db", db, "wrap", "--name", "weather", "--", *server]
        subprocess.run([sys.executable, "host.py", str(lines), *wrapped], cwd=here, check=True)
        export = [mcptap, "--db", db, "export", "latest", "--format", "pcapng", "-o", str(folder / "stdio.pcapng")]
        subprocess.run(export, check=True)


def post(port, message, session):
    """Sends a message. Returns the session id that the server assigned."""
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        fields |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", body, fields)
    try:
        with urllib.request.urlopen(request) as response:
            response.read()
            return response.headers.get("Mcp-Session-Id")
    except urllib.error.HTTPError as error:
        error.read()


def listening(port, process):
    """Waits until somebody listens on a port."""
    while process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return process
    raise SystemExit("the server ended")


def serve(case, port):
    return listening(port, subprocess.Popen([python, "server.py", case, str(port)], cwd=here))


def over_http(case, server_port, proxy_port):
    folder = here / case
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        db = f"{temporary}/mcptap.db"
        server = serve(case, server_port)
        listen, to = f"127.0.0.1:{proxy_port}", f"http://127.0.0.1:{server_port}"
        proxy = [mcptap, "--db", db, "proxy", "--listen", listen, "--to", to]
        proxy = listening(proxy_port, subprocess.Popen(proxy))
        session = post(proxy_port, begin[0], None)
        if case == "404":
            for message in [begin[1], list_tools]:
                post(proxy_port, message, session)
            server.terminate()
            server.wait()
            server = serve(case, server_port)
            post(proxy_port, call, session)
        proxy.terminate()
        proxy.wait()
        server.terminate()
        server.wait()
        export = [mcptap, "--db", db, "export", "latest", "--format", "pcapng", "-o", str(folder / "capture.pcapng")]
        subprocess.run(export, check=True)


over_http("401", 18201, 18202)
over_http("404", 18203, 18204)
