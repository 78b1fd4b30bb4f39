#!/usr/bin/env python3
"""Record MCP over WebSockets: on HTTP/1.1, on HTTP/2 (RFC 8441), and with compression.

    record.py OUT.pcapng PEERS

It needs Python with mcp[ws] 1.x, hypercorn and h2, a folder PEERS with the npm packages ws and @modelcontextprotocol/sdk, the right to
capture on loopback, and dumpcap and editcap.
"""
import json, os, signal, socket, subprocess, sys, tempfile, time

PORT = 18091

SERVER = '''
import sys
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.websocket import websocket_server

server = Server("echo", "1")

@server.list_tools()
async def tools():
    return [types.Tool(name="echo", description="Says it again", inputSchema={"type": "object"})]

@server.call_tool()
async def call(name, arguments):
    return [types.TextContent(type="text", text=arguments["text"] * arguments.get("times", 1))]

async def app(scope, receive, send):
    if scope["type"] == "websocket":
        async with websocket_server(scope, receive, send) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
'''

# The client of the TypeScript SDK, without compression.
PLAIN_CLIENT = """
import { WebSocket } from 'ws';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
globalThis.WebSocket = class extends WebSocket { constructor(url, names) { super(url, names, { perMessageDeflate: false }); } };
const client = new Client({ name: 'plain', version: '1' });
await client.connect(new WebSocketClientTransport(new URL(process.argv[2])));
await client.listTools();
for (const times of [1, 20, 9000]) await client.callTool({ name: 'echo', arguments: { text: 'plain ', times } });
await client.close();
process.exit(0);
"""

# The client of the Python SDK. Its WebSocket offers compression.
COMPRESSING_CLIENT = '''
import asyncio, sys
from mcp import ClientSession
from mcp.client.websocket import websocket_client

async def main():
    async with websocket_client(sys.argv[1]) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for times in [1, 20]:
            await session.call_tool("echo", {"text": "compressed ", "times": times})

asyncio.run(main())
'''


def frame(message):
    """A masked frame of a WebSocket (RFC 6455)."""
    payload, key = json.dumps(message).encode(), os.urandom(4)
    length = bytes([0x80 | len(payload)]) if len(payload) < 126 else bytes([0xfe]) + len(payload).to_bytes(2, "big")
    return b"\x81" + length + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))


def over_http2(port):
    """A client with the h2 library. Two WebSockets take turns on one connection. Frames are cut into DATA of 50 bytes."""
    import h2.config, h2.connection, h2.events
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.initiate_connection()
    flush = lambda: sock.sendall(connection.data_to_send())
    flush()
    received, opened = {}, set()

    def wait(done):
        while not done():
            for event in connection.receive_data(sock.recv(65536)):
                if isinstance(event, h2.events.ResponseReceived):
                    opened.add(event.stream_id)
                if isinstance(event, h2.events.DataReceived):
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    received[event.stream_id] = received.get(event.stream_id, 0) + event.data.count(b'"jsonrpc"')
            flush()

    wait(lambda: connection.remote_settings.enable_connect_protocol == 1)
    streams = [connection.get_next_available_stream_id(), connection.get_next_available_stream_id() + 2]
    for stream in streams:
        connection.send_headers(stream, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/ws"),
                                         (":authority", f"127.0.0.1:{port}"), ("sec-websocket-version", "13"), ("sec-websocket-protocol", "mcp"),
                                         ("authorization", "Bearer secret")])
    flush()
    wait(lambda: len(opened) == 2)

    def ask(stream, message):
        before = received.get(stream, 0)
        data = frame({"jsonrpc": "2.0", **message})
        for at in range(0, len(data), 50):
            connection.send_data(stream, data[at:at + 50])
            flush()
        if "id" in message:
            wait(lambda: received.get(stream, 0) > before)

    for stream in streams:
        ask(stream, {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                                  "clientInfo": {"name": f"stream {stream}", "version": "1"}}})
        ask(stream, {"method": "notifications/initialized"})
    for number, times in enumerate([1, 400, 3], 2):
        for stream in streams:
            ask(stream, {"id": number, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": f"stream {stream} ", "times": times}}})
    for stream in streams:
        connection.send_data(stream, b"\x88\x82\0\0\0\0\x03\xe8", end_stream=True)
    flush()
    time.sleep(0.3)
    sock.close()


def main(out, peers):
    out, modules = os.path.abspath(out), os.path.abspath(os.path.join(peers, "node_modules"))
    os.chdir(tempfile.mkdtemp())
    open("server.py", "w").write(SERVER)
    open("plain.mjs", "w").write(PLAIN_CLIENT)
    open("compressing.py", "w").write(COMPRESSING_CLIENT)
    os.symlink(modules, "node_modules")
    server = subprocess.Popen([sys.executable, "-m", "hypercorn", "-b", f"127.0.0.1:{PORT}", "server:app"], start_new_session=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            break
        except OSError:
            time.sleep(0.05)
    capture = subprocess.Popen(["dumpcap", "-q", "-P", "-i", "lo", "-f", f"tcp port {PORT}", "-w", "capture.pcap"],
                               stderr=subprocess.PIPE, text=True)
    while "File:" not in capture.stderr.readline():
        pass
    url = f"ws://127.0.0.1:{PORT}/ws"
    subprocess.run(["node", "plain.mjs", url], check=True, timeout=30)
    subprocess.run([sys.executable, "compressing.py", url], check=True, timeout=30)
    over_http2(PORT)
    time.sleep(1)
    capture.terminate()
    capture.wait()
    # This removes what dumpcap writes about the machine.
    subprocess.run(["editcap", "-F", "pcapng", "capture.pcap", out], check=True)
    os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
