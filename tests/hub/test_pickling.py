"""What pages, programs and agents have done over a pool goes to other processes and back."""

from __future__ import annotations

from typing import Any

import pytest
from hub_serving import PicklingPool, Team, play_at
from serving import call
from support import git

from vaultmem.mcp_server.tool_server import TOOLS
from vaultmem.web.api.routes import OPERATIONS
from vaultmem.web.web_app import PAGES

pytestmark = pytest.mark.campaign

_GIVEN = {
    **dict.fromkeys(("id", "receipt", "session", "task", "artifact", "source"), "x"),
    "path": "notes/pier.md",
}

#: Of each tool a call that is answered.
_CALLS: dict[str, dict[str, Any]] = {
    "recall": {"query": "pier"},
    "context_pack": {},
    "remember": {"text": "The lamp is green."},
    "read_note": {"path": "notes/pier.md"},
    "update_note": {"path": "notes/pier.md", "old_text": "oak", "new_text": "pine"},
    "promote": {"paths": ["notes/pier.md"]},
    "session": {"action": "start"},
    "task": {"action": "add", "title": "Paint the pier"},
    "checkpoint": {"note": "Looked at the pier"},
    "history": {"action": "log"},
    "forget": {"path": "notes/inbox/the-lamp-is-green.md"},
}


@pytest.fixture(autouse=True)
def _pickling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaultmem.hub.pool_workers.LocalPool", PicklingPool)


def test_all_pages_and_operations_that_read(team: Team) -> None:
    with team.client(team.person("maren", own="*")) as client:
        commit = git(team.hub.repositories / "harbour.git", "rev-parse", "main")
        for place in (each[4:] for each in PAGES if each.startswith("GET")):
            for name, value in (("{path:path}", "notes/pier.md"), ("{name:path}", commit)):
                place = place.replace(name, value)
            for asked in ("", "?q=pier&look=1", f"?q=pier&says=oak&good={commit}"):
                address = f"/v/harbour{place.replace('{name}', 'x')}{asked}"
                found = client.get(address, headers={"Accept": "text/html"})
                assert found.status_code < 500, (address, found.text)
        for each in OPERATIONS:
            if each.method == "GET":
                place = each.path.format(**_GIVEN, commit=commit)
                query = {"query": "pier"} if "query" in each.query else {}
                found = client.get(f"/v/harbour/api/v1{place}", params=query)
                assert found.status_code < 500, (each.name, found.text)


def test_all_tools(team: Team) -> None:
    async def scene(client: Any) -> None:
        for tool in TOOLS:
            given = dict(_CALLS[tool.name])
            if tool.name == "update_note":
                given["blob"] = (await call(client, "read_note", path=given["path"]))["blob"]
            assert await call(client, tool.name, **given)
        assert await client.list_resources()

    play_at(f"{team.address}/v/harbour/mcp", team.agent("scout", write="*"), scene)
