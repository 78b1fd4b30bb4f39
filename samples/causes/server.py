#!/usr/bin/env python3
"""Servers of the official Python SDK, each with one fault: server.py CASE [PORT]."""

import asyncio
import os
import sys

if sys.argv[1] == "crash-at-import":
    import weather_station_driver  # noqa: F401  There is no such module.

from mcp import types
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

case = sys.argv[1]
ANY_OBJECT = {"type": "object"}
ONE_OF_TWO = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "place": {"type": "string"}},
    "anyOf": [{"required": ["city"]}, {"required": ["place"]}],
}


class NoTokens:
    """Knows no token, so every request is refused."""

    async def verify_token(self, token):
        return None


def weather():
    auth = {}
    if case == "401":
        settings = AuthSettings(issuer_url="https://login.example.com", resource_server_url="http://127.0.0.1/mcp")
        auth = {"auth": settings, "token_verifier": NoTokens()}
    server = MCPServer("weather", **auth)

    @server.tool()
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        match case:
            case "hang":
                print("waiting for the weather station", file=sys.stderr, flush=True)
                await asyncio.sleep(60)
            case "crash-in-call":
                print(f"RuntimeError: the weather station of {city} is gone", file=sys.stderr, flush=True)
                os._exit(1)
        return f"{city}: 17 °C"

    return server


async def list_tools(context, params):
    if case == "second-page" and params and params.cursor:
        return types.ListToolsResult(tools=[types.Tool(name="get_forecast", input_schema=ANY_OBJECT)])
    tool = types.Tool(name="get_weather", input_schema=ONE_OF_TWO if case == "schema" else ANY_OBJECT)
    return types.ListToolsResult(tools=[tool], next_cursor="2" if case == "second-page" else None)


async def list_prompts(context, params):
    return types.ListPromptsResult(prompts=[])


async def low():
    handlers = {"on_list_prompts": list_prompts} if case == "capability" else {"on_list_tools": list_tools}
    server = Server("weather", **handlers)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if case in ("second-page", "schema", "capability"):
    asyncio.run(low())
elif len(sys.argv) > 2:
    weather().run("streamable-http", port=int(sys.argv[2]))
else:
    if case == "stdout":
        print("weather server: ready", flush=True)
    weather().run()
