"""The SDK is imported in part, and the other part is there for whoever asks.

The first test fails where a new release of the SDK or of pydantic is made so that nothing is
saved any more; with any release a server must answer, as the others show.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

#: What `import_sdk` patches, and looked at after it: all is as it was.
_PATCHED = """
import sys, typing
from pydantic import BaseModel, TypeAdapter
def look():
    return TypeAdapter.__init__, dict(BaseModel.model_config), [*sys.meta_path], {*vars(typing)}
before = look()
"""

_SCRIPT = """
import sys
from vaultmem.mcp_server.sdk import import_sdk
import_sdk()
import mcp_types as types
assert not types.CallToolResult.__pydantic_complete__, "pydantic makes validators at once"
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

_USED = """
from vaultmem.mcp_server.sdk import import_sdk
import_sdk()
assert look() == before
import mcp_types as types
assert types.CallToolResult.model_validate({"content": []}).content == []
from mcp.server.lowlevel import Server
assert Server("x").name == "x"
"""

_HTTP = """
assert Server("x").streamable_http_app()
"""


def _run(script: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_server_does_not_need_is_imported_on_demand() -> None:
    _run(_SCRIPT)


def test_what_is_patched_for_the_import_is_put_back() -> None:
    _run(_PATCHED + _USED)


@pytest.mark.parametrize("broken", ["_import_lazily", "_build_on_use", "_make_empty", "_Message"])
def test_where_the_saving_fails_the_whole_is_imported(broken: str) -> None:
    fail = f"from vaultmem.mcp_server import sdk\nsdk.{broken} = lambda *_: 1 / 0\n"
    _run(_PATCHED + fail + _USED + _HTTP)
