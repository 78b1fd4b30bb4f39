#!/usr/bin/env python3
"""One call of a weather tool, by the Python SDK's client and server over Streamable HTTP, recorded from loopback.

    make.py             record capture.pcapng anew (tcpdump needs root)
    make.py serve PORT  only the server
    make.py call PORT   only the client
"""

import asyncio
import pathlib
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
PORT = 8931

WEATHER = {"Quito": "17 °C, light rain", "Guayaquil": "29 °C, sunny", "Cuenca": "15 °C, cloudy"}


def serve(port):
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("weather", host="127.0.0.1", port=port, log_level="CRITICAL")

    @server.tool()
    def get_weather(city: str) -> str:
        """Current weather of a city."""
        return f"{city}: {WEATHER[city]}"

    server.run(transport="streamable-http")


async def call(port):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import Implementation

    client = Implementation(name="weather-sample", version="1.0.0")
    async with streamablehttp_client(f"http://127.0.0.1:{port}/mcp") as (incoming, outgoing, _):
        async with ClientSession(incoming, outgoing, client_info=client) as session:
            await session.initialize()
            tools = await session.list_tools()
            print("tools:", ", ".join(tool.name for tool in tools.tools))
            answer = await session.call_tool("get_weather", {"city": "Quito"})
            print("get_weather:", answer.content[0].text)


def make():
    from record import recording

    server = subprocess.Popen([sys.executable, __file__, "serve", str(PORT)])
    try:
        wait_for(server)
        with recording(PORT, HERE / "capture.pcapng"):
            subprocess.run([sys.executable, __file__, "call", str(PORT)], check=True)
    finally:
        server.terminate()
        server.wait()


def wait_for(server):
    while server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"the server ended at once, status {server.returncode}: is port {PORT} in use?")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            make()
        case ["serve", port]:
            serve(int(port))
        case ["call", port]:
            asyncio.run(call(int(port)))
        case _:
            raise SystemExit(__doc__)
