"""A client made with the Python SDK that logs in by OAuth, as a browser of the user would: oauth.py URL"""
import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

METADATA = "https://conformance-test.local/client-metadata.json"


class Memory:
    """Holds tokens and the client's registration."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main(url):
    redirected = []

    async def browse(address):
        async with httpx.AsyncClient() as browser:
            redirected.append((await browser.get(address)).headers["location"])

    async def callback():
        query = parse_qs(urlsplit(redirected.pop()).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0])

    metadata = OAuthClientMetadata(
        client_name="mcptap test", redirect_uris=["http://localhost:3000/callback"],
        grant_types=["authorization_code", "refresh_token"], response_types=["code"])
    auth = OAuthClientProvider(url, metadata, Memory(), browse, callback, client_metadata_url=METADATA)
    async with httpx.AsyncClient(auth=auth) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            await client.list_tools()
            await client.call_tool("test-tool", {})


asyncio.run(main(sys.argv[1]))
