"""The SDK is imported in part, and the other part is there for whoever asks."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from vaultmem.mcp_server.sdk import import_sdk
import_sdk()
web = {"starlette", "uvicorn", "sse_starlette", "httpx2", "jsonschema"}
assert not web & set(sys.modules), web & set(sys.modules)
assert "mcp.client" not in sys.modules and "mcp.server.auth" not in sys.modules

import typing
assert "compile" not in vars(typing)
versions = lambda: [name for name in sys.modules if name.startswith("mcp_types._v")]
assert not versions()
from mcp_types import methods
asked = methods.parse_client_request("tools/call", "2025-06-18", {"name": "x"})
assert asked.params.name == "x" and len(versions()) == 1
try:
    methods.validate_client_request("tools/call", "2025-06-18", {"name": 1})
except ValueError as error:
    assert "name" in str(error)
else:
    raise AssertionError("a number is no name")
told = {"content": [{"type": "text", "text": "x"}], "resultType": "complete"}
for version in ("2025-06-18", "2026-07-28"):
    assert methods.serialize_server_result("tools/call", version, told)["content"]
assert len(versions()) == 2

import mcp_types as types
from pydantic import BaseModel
assert not BaseModel.model_config.get("defer_build")
made = types.CallToolResult(content=[types.TextContent(type="text", text="x")])
assert types.CallToolResult.model_validate(made.model_dump(by_alias=True)) == made

import mcp
assert mcp.Client.__module__ == "mcp.client.client"
from mcp.server import MCPServer
import starlette.applications
assert starlette.applications.Starlette.__init__ is not object.__init__
assert MCPServer("x").name == "x"
"""

_OTHER_RELEASE = """
import sys
from vaultmem.mcp_server import sdk
def fail(name):
    raise AttributeError("this release is built otherwise")
sdk._import_lazily = fail
sdk.import_sdk()
from mcp.server.lowlevel import Server
assert Server("x").streamable_http_app()
"""


def _run(script: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_server_does_not_need_is_imported_on_demand() -> None:
    _run(_SCRIPT)


def test_where_the_saving_fails_the_whole_is_imported() -> None:
    _run(_OTHER_RELEASE)
