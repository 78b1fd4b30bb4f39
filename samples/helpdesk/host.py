"""The host of the story: an assistant that talks to three servers at once."""

import http.client
import subprocess
import sys

import story
from story import HERE, is_call


class Directory:
    """A child process, under a wrapper where one is given."""

    def __init__(self, wrap):
        command = [*wrap, sys.executable, str(HERE / "directory.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        return self.process.stdout.readline().decode().rstrip("\n")

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit(f"Directorio ended with status {self.process.returncode}")


class ServiceDesk:
    """One connection for the event stream, one for the POSTs."""

    def __init__(self, port):
        self.events = http.client.HTTPConnection("127.0.0.1", port)
        self.events.request("GET", "/sse", headers={"Accept": "text/event-stream", "Cache-Control": "no-store"})
        self.stream = self.events.getresponse()
        self.endpoint = self.receive()
        self.calls = http.client.HTTPConnection("127.0.0.1", port)

    def receive(self):
        data = []
        while line := self.stream.readline().decode().rstrip("\r\n"):
            field, _, value = line.partition(": ")
            if field == "data":
                data.append(value)
        return "\n".join(data)

    def send(self, text):
        self.calls.request("POST", self.endpoint, text.encode(), {"Content-Type": "application/json"})
        answer = self.calls.getresponse()
        answer.read()
        if answer.status != 202:
            raise SystemExit(f"Mesa de servicios answered {answer.status}")

    def close(self):
        self.stream.read()
        self.events.close()
        self.calls.close()


class Mail:
    """A request for each call, the answer in the body of the response."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def send(self, text):
        self.connection.request("POST", "/rpc", text.encode(), {"Content-Type": "application/json"})

    def receive(self):
        return self.connection.getresponse().read().decode()

    def close(self):
        self.connection.close()


def run(wrap, service_desk_port, mail_port):
    servers = {
        "Directorio": Directory(wrap),
        "Mesa de servicios": ServiceDesk(service_desk_port),
        "Correo": Mail(mail_port),
    }
    for row in story.rows():
        server = servers[row["server"]]
        if is_call(row):
            server.send(row["raw"])
        else:
            story.expect(row, server.receive())
    for server in servers.values():
        server.close()
