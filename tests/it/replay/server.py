#!/usr/bin/env python3
"""A small MCP server that can be told to behave otherwise, on STDIO or HTTP, with the standard library only.

  server.py [--http FILE] [--change TOOL] [--drop TOOL] [--slow TOOL] [--die-at N] [--token SECRET] [--forget-at N] [--forget TOOL] [--cut] [--hang TOOL] [--elsewhere URL] [--tls FILE] [--whole]

--http FILE    serve /mcp (Streamable HTTP) and /sse (HTTP+SSE) on a free port of the loopback, which is written to FILE
--change TOOL  that tool answers otherwise          --drop TOOL  that tool does not exist
--slow TOOL    that tool takes 300 ms longer        --hang TOOL  that tool never answers
--die-at N     end without a word at the Nth request
--token T      401 for requests without "Authorization: Bearer T"
--forget-at N  at the Nth request the session is unknown (404)
--forget TOOL  for that tool each session is unknown (404)
--elsewhere U  /away and /away-sse are redirected to U; /old is redirected to /mcp, /old-sse to /sse
/stream is HTTP+SSE at an address that does not say so
--tls FILE     HTTPS, with the key and the certificate in FILE (server.pem and authority.pem, which is its own authority, were made for these tests: for 127.0.0.1, until 2126)
--whole        the address that /sse announces is a whole URL, at the Host that was asked
--cut          streams of answers are closed before the answer, which comes to who resumes
"""
import argparse
import json
import os
import queue
import ssl
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = argparse.ArgumentParser()
for name in ["--http", "--change", "--drop", "--slow", "--hang", "--forget", "--token", "--elsewhere", "--tls"]:
    options.add_argument(name)
for name in ["--die-at", "--forget-at"]:
    options.add_argument(name, type=int, default=0)
for name in ["--cut", "--whole"]:
    options.add_argument(name, action="store_true")
options = options.parse_args()

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TOOLS = {
    "echo": ({"readOnlyHint": True}, ["text"]),
    "add": ({"readOnlyHint": True}, ["a", "b"]),
    "now": ({"readOnlyHint": True}, []),
    "count": ({}, []),
    "ask": ({}, ["question"]),
    "open_ticket": ({"readOnlyHint": False, "destructiveHint": False}, ["title"]),
    "close_ticket": ({"readOnlyHint": False, "destructiveHint": False}, ["ticket"]),
    "wipe": ({"readOnlyHint": False, "destructiveHint": True}, []),
}
requests_seen = 0
counting = threading.Lock()


class Refused(Exception):
    """Code and text of an error."""


class Session:
    """One client. `send` is how a message reaches it."""

    def __init__(self, send):
        self.send = send
        self.tickets = {}
        self.cursor = uuid.uuid4().hex
        self.note = f"note://{uuid.uuid4().hex[:12]}/first"
        self.waiting = {}

    def heard(self, message):
        """An answer of the client."""
        if message.get("id") in self.waiting:
            self.waiting.pop(message["id"]).put(message)

    def answer(self, message, send):
        global requests_seen
        with counting:
            requests_seen += 1
            number = requests_seen
        if number == options.die_at:
            print("fatal: told to die", file=sys.stderr, flush=True)
            os._exit(3)
        try:
            result = self.result(message["method"], message.get("params", {}), send)
            send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        except Refused as error:
            code, text = error.args
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}})

    def result(self, method, params, send):
        if method == "initialize":
            wanted = params["protocolVersion"]
            return {
                "protocolVersion": wanted if wanted in REVISIONS else REVISIONS[-1],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "workbench", "version": "1.0"},
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            tools = [
                {"name": name, "annotations": notes, "inputSchema": {"type": "object", "required": required}}
                for name, (notes, required) in TOOLS.items()
                if name != options.drop
            ]
            half = len(TOOLS) // 2
            if params.get("cursor") is None:
                return {"tools": tools[:half], "nextCursor": self.cursor}
            if params["cursor"] != self.cursor:
                raise Refused(-32602, "bad cursor")
            return {"tools": tools[half:]}
        if method == "resources/list":
            return {"resources": [{"uri": self.note, "name": "first"}]}
        if method == "resources/read":
            if params["uri"] != self.note:
                raise Refused(-32002, "no such resource")
            return {"contents": [{"uri": self.note, "text": "a note"}]}
        if method == "tools/call":
            return self.call(params["name"], params.get("arguments", {}), params.get("_meta", {}), send)
        raise Refused(-32601, f"no method {method}")

    def call(self, tool, arguments, meta, send):
        if tool == options.drop or tool not in TOOLS:
            raise Refused(-32602, f"unknown tool {tool}")
        if tool == options.slow:
            time.sleep(0.3)
        if tool == options.hang:
            time.sleep(3600)
        text, structured = getattr(self, tool)(arguments, meta, send)
        if tool == options.change:
            text += " (changed)"
        result = {"content": [{"type": "text", "text": text}]}
        if structured is not None:
            result["structuredContent"] = structured
        if text.startswith("cannot"):
            result["isError"] = True
        return result

    def echo(self, arguments, meta, send):
        return arguments["text"], None

    def add(self, arguments, meta, send):
        total = arguments["a"] + arguments["b"]
        return str(total), {"sum": total}

    def now(self, arguments, meta, send):
        return f"It is {time.time_ns()} in Quito", {"at": time.time_ns(), "place": "Quito"}

    def count(self, arguments, meta, send):
        for step in range(1, 4):
            if "progressToken" in meta:
                progress = {"progressToken": meta["progressToken"], "progress": step, "total": 3}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        return "counted to 3", None

    def ask(self, arguments, meta, send):
        mine = f"server-{uuid.uuid4().hex[:6]}"
        answered = self.waiting[mine] = queue.Queue()
        params = {"message": arguments["question"], "requestedSchema": {"type": "object", "properties": {}}}
        send({"jsonrpc": "2.0", "id": mine, "method": "elicitation/create", "params": params})
        said = answered.get(timeout=20)
        return json.dumps(said.get("result", said.get("error"))), None

    def open_ticket(self, arguments, meta, send):
        ticket = f"T-{uuid.uuid4().hex[:10]}"
        self.tickets[ticket] = arguments["title"]
        return f"opened {ticket}", {"ticket": ticket}

    def close_ticket(self, arguments, meta, send):
        title = self.tickets.pop(arguments["ticket"], None)
        return (f"cannot close: no ticket {arguments['ticket']}" if title is None else f"closed {title}"), None

    def wipe(self, arguments, meta, send):
        print("wiped", file=sys.stderr, flush=True)
        return "wiped", None


def stdio():
    lock = threading.Lock()

    def send(message):
        with lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    session = Session(send)
    threads = []
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            session.heard(message)
        elif "id" in message:
            threads.append(threading.Thread(target=session.answer, args=(message, send), daemon=True))
            threads[-1].start()
            if message["method"] in ("initialize", "tools/list"):
                threads[-1].join()
    for thread in threads:
        thread.join(timeout=0.5)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions = {}
    cut_off = {}

    def log_message(self, *_):
        pass

    def reply(self, status, message=None, fields=()):
        body = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        if message is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def open_stream(self, fields=()):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()

    def event(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def admitted(self):
        if options.token and self.headers.get("Authorization") != f"Bearer {options.token}":
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.reply(401, None, [("WWW-Authenticate", 'Bearer realm="workbench"')])
            return False
        return True

    def moved(self):
        away = {"/old": "/mcp", "/old-sse": "/sse", "/away": options.elsewhere, "/away-sse": options.elsewhere}
        if self.path not in away:
            return False
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply(307, None, [("Location", away[self.path])])
        return True

    def do_GET(self):
        if not self.admitted() or self.moved():
            return
        if self.path in ("/sse", "/stream"):
            return self.legacy_stream()
        last = self.headers.get("Last-Event-ID")
        if last in self.cut_off:
            self.open_stream()
            self.event(f"id: {last}-2\ndata: {json.dumps(self.cut_off.pop(last))}\n\n")
            return self.end_stream()
        self.reply(405)

    def do_DELETE(self):
        self.sessions.pop(self.headers.get("Mcp-Session-Id"), None)
        self.reply(200)

    def legacy_stream(self):
        name = uuid.uuid4().hex
        outbox = queue.Queue()
        self.sessions[name] = Session(outbox.put)
        self.open_stream()
        origin = f"http://{self.headers['Host']}" if options.whole else ""
        self.event(f"event: endpoint\ndata: {origin}/messages?session_id={name}\n\n")
        try:
            while True:
                self.event(f"event: message\ndata: {json.dumps(outbox.get())}\n\n")
        except OSError:
            pass

    def do_POST(self):
        global requests_seen
        if not self.admitted() or self.moved():
            return
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/stream":
            return self.reply(405)
        if self.path.startswith("/messages"):
            session = self.sessions[self.path.split("=")[1]]
            self.reply(202)
            if "method" not in message:
                session.heard(message)
            elif "id" in message:
                # The connection is free for the client's next word, which may be what this call waits for.
                threading.Thread(target=session.answer, args=(message, session.send), daemon=True).start()
            return
        name = self.headers.get("Mcp-Session-Id")
        if message.get("method") == "initialize":
            name = uuid.uuid4().hex
            self.sessions[name] = Session(None)
        if options.forget_at and requests_seen + 1 == options.forget_at and "id" in message:
            requests_seen += 1
            self.sessions.pop(name, None)
        called = (message.get("params") or {}).get("name")
        if name not in self.sessions or options.forget and called == options.forget:
            return self.reply(404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}})
        session = self.sessions[name]
        fields = [("Mcp-Session-Id", name)]
        if "method" not in message:
            session.heard(message)
            return self.reply(202, None, fields)
        if "id" not in message:
            return self.reply(202, None, fields)
        streams = message["method"] == "tools/call" and message["params"]["name"] in ("count", "ask")
        if not streams and not options.cut:
            return session.answer(message, lambda answer: self.reply(200, answer, fields))
        self.open_stream(fields)
        if not options.cut:
            session.answer(message, lambda said: self.event(f"event: message\ndata: {json.dumps(said)}\n\n"))
            return self.end_stream()
        said = []
        session.answer(message, said.append)
        event = uuid.uuid4().hex
        self.cut_off[event] = said[-1]
        self.event(f"id: {event}\nretry: 5\ndata:\n\n")
        self.end_stream()


if options.http:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(options.http + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(options.http + ".new", options.http)
    server.serve_forever()
else:
    stdio()
