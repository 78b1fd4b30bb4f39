"""A client made with the Python SDK, which tells on stdout what it sent and received, a JSON line each.

    client.py CALLS URL              Streamable HTTP, or HTTP+SSE where the URL ends in /sse
    client.py CALLS -- CMD ARG...    an STDIO server

CALLS is a JSON array of [tool, arguments].
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage


class Witness:
    """A stream of messages that tells what passes."""

    def __init__(self, stream, word):
        self.stream, self.word = stream, word

    def tell(self, item):
        if not isinstance(item, SessionMessage):
            raise item
        message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        print(json.dumps({self.word: message}), flush=True)

    async def send(self, item):
        self.tell(item)
        await self.stream.send(item)

    async def receive(self):
        item = await self.stream.receive()
        self.tell(item)
        return item

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self):
        await self.stream.aclose()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()


@asynccontextmanager
async def witnessed(transport):
    async with transport as (read, write):
        yield Witness(read, "received"), Witness(write, "sent")


def transport(where):
    if where[0] == "--":
        return stdio_client(StdioServerParameters(command=where[1], args=where[2:]))
    return sse_client(where[0]) if where[0].endswith("/sse") else streamable_http_client(where[0])


async def progress(*_):
    pass


async def main(calls, where):
    async with Client(witnessed(transport(where)), cache=None) as client:
        await client.list_tools()
        for name, arguments in calls:
            try:
                await client.call_tool(name, arguments, progress_callback=progress)
            except MCPError as error:
                print(json.dumps({"error": str(error)}), flush=True)
        capabilities = client.server_capabilities
        if capabilities.resources:
            await client.list_resources()
        if capabilities.prompts:
            await client.list_prompts()


asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2:]))
