"""What the SDK before the one that vaultmem is built on sees of a server: mcp 1."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, ResourceTemplateReference

NOTE = "vaultmem://note/{+path}"


async def main() -> None:
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as pipes, ClientSession(*pipes) as client:
        begun = await client.initialize()
        seen = {"server": begun.serverInfo.name, "protocol": begun.protocolVersion}
        seen["tools"] = [each.name for each in (await client.list_tools()).tools]

        async def call(name: str, **given: object) -> CallToolResult:
            done = await client.call_tool(name, given)
            assert not done.isError, done
            return done

        seen["told"] = (await call("recall", query="pier oak", limit=1)).content[0].text
        await call("session", action="start", goal="Mend the pier")
        done = await call("remember", text="Bollards are of iron.")
        seen["path"] = done.structuredContent["path"]
        await call("session", action="close")
        refused = await client.call_tool("recall", {})
        seen["refused"] = refused.isError and refused.content[0].text
        seen["resources"] = [str(each.uri) for each in (await client.list_resources()).resources]
        read = await client.read_resource("vaultmem://note/notes/pier.md")
        seen["read"] = read.contents[0].text
        seen["prompts"] = [each.name for each in (await client.list_prompts()).prompts]
        ref = ResourceTemplateReference(type="ref/resource", uri=NOTE)
        done = await client.complete(ref, {"name": "path", "value": "notes/p"})
        seen["completed"] = done.completion.values
        try:
            await client.call_tool("shell", {})
        except McpError as error:
            seen["unknown"] = error.error.code
        print(json.dumps(seen))


asyncio.run(main())
