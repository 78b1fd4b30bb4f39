"""A server made with the Python SDK: server.py stdio | sse HOST PORT | http HOST PORT"""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("peer", version="1.0.0", log_level="WARNING")


@server.tool()
def echo(text: str) -> str:
    """What it was given."""
    return text


@server.tool()
def repeat(text: str, times: int) -> str:
    """The same many times: a large answer."""
    return text * times


@server.tool()
def fail(why: str) -> str:
    """Never succeeds."""
    raise ValueError(why)


@server.tool()
async def work(steps: int, context: Context) -> str:
    """Reports progress."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


@server.resource("note://today")
def note() -> str:
    """A note."""
    return "¡Hola! 你好 🙂"


@server.prompt()
def ask(about: str) -> str:
    """A question."""
    return f"What is {about}?"


transport, *address = sys.argv[1:]
if transport == "stdio":
    server.run("stdio")
else:
    # Once it listens it says so on stderr ("Uvicorn running on").
    server.settings.log_level = "INFO"
    host, port = address
    server.run({"sse": "sse", "http": "streamable-http"}[transport], host=host, port=int(port))
