"""A client over TLS: one request for each line of stdin, which says how.

    tls_client.py PORT VERSION      such as 4711 TLSv1_2
    new       on a new connection, which resumes the session of the one before
    same      on the connection of the last "same"

It prints the answer's result, without its padding.
"""

import http.client
import json
import ssl
import sys

port, version = int(sys.argv[1]), getattr(ssl.TLSVersion, sys.argv[2])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.minimum_version = context.maximum_version = version


class Connection(http.client.HTTPSConnection):
    """A connection that resumes a session."""

    session = None

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self.sock = context.wrap_socket(self.sock, server_hostname="mcp.test", session=Connection.session)


def ask(connection, number):
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}})
    connection.request("POST", "/mcp", body, {"Content-Type": "application/json"})
    result = json.loads(connection.getresponse().read())["result"]
    # TLS 1.3 sends the session after the handshake.
    Connection.session = connection.sock.session
    return {name: value for name, value in result.items() if name != "padding"}


same = None
print("ready", flush=True)
for number, line in enumerate(sys.stdin, 1):
    if line.strip() == "new":
        connection = Connection("127.0.0.1", port)
    else:
        connection = same = same or Connection("127.0.0.1", port)
    print(json.dumps(ask(connection, number)), flush=True)
    if connection is not same:
        connection.close()
