"""What fastmcp's client sees of a server."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

NOTE = "vaultmem://note/{+path}"


async def main() -> None:
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:], env=dict(os.environ))) as client:
        seen = {"tools": [each.name for each in await client.list_tools()]}

        found = await client.call_tool("recall", {"query": "pier oak", "limit": 1})
        seen["told"] = found.content[0].text
        await client.call_tool("session", {"action": "start", "goal": "Mend the pier"})
        kept = await client.call_tool("remember", {"text": "Bollards are of iron."})
        seen["path"] = kept.structured_content["path"]
        await client.call_tool("session", {"action": "close"})
        refused = await client.call_tool("recall", {}, raise_on_error=False)
        seen["refused"] = refused.is_error and refused.content[0].text
        seen["resources"] = [str(each.uri) for each in await client.list_resources()]
        seen["read"] = (await client.read_resource("vaultmem://note/notes/pier.md"))[0].text
        seen["prompts"] = [each.name for each in await client.list_prompts()]
        done = await client.complete(
            ResourceTemplateReference(uri=NOTE), {"name": "path", "value": "notes/p"}
        )
        seen["completed"] = done.values
        try:
            await client.call_tool("shell", {})
        except MCPError as error:
            seen["unknown"] = error.error.code
        print(json.dumps(seen))


asyncio.run(main())
