#!/usr/bin/env python3
"""The two servers of the story that speak HTTP.

Mesa de servicios (HTTP+SSE, MCP 2024-11-05): GET /sse is an event stream; its first event, `endpoint`, says where to POST.
Each POST is answered 202, and what it asks for comes as an event on the stream. Correo: POST /rpc, the answer in the body.
"""

import http.server
import queue
import threading

import story

SESSION = "c0ffee0090271"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "helpdesk/1.0", ""
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"])).decode()

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ServiceDesk(Handler):
    calls = queue.Queue()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event("endpoint", f"/messages/?session_id={SESSION}")
        story.play("Mesa de servicios", self.calls.get, lambda text: self.event("message", text))
        self.wfile.write(b"0\r\n\r\n")

    def event(self, name, data):
        text = f"event: {name}\r\ndata: {data}\r\n\r\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

    def do_POST(self):
        call = self.body()
        self.answer(202, "text/plain; charset=utf-8", b"Accepted")
        self.calls.put(call)


class Mail(Handler):
    def do_POST(self):
        def send(text):
            self.answer(200, "application/json", text.encode())

        story.play("Correo", self.body, send)


def start(handler, port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
