"""No answer of a hub says where on its server anything is."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hub_serving import Team, play_at, push
from serving import call
from support import git
from test_pickling import _CALLS, _GIVEN

from vaultmem.mcp_server.tool_server import TOOLS
from vaultmem.services.hub.grants import FILE_NAME as GRANTS
from vaultmem.services.hub.hub_folder import CONFIG_NAME
from vaultmem.services.hub.pushed_refs import FILE_NAME as CLAIMS
from vaultmem.web.api.routes import OPERATIONS
from vaultmem.web.web_app import PAGES

pytestmark = pytest.mark.campaign


def test_neither_operations_nor_pages_nor_tools_name_a_folder_of_the_server(team: Team) -> None:
    answers: dict[str, str] = {}
    with team.client(team.person("maren", own="*")) as client:
        commit = git(team.hub.repositories / "harbour.git", "rev-parse", "main")
        asked = {"query": "oak", "receipt": "true"}
        receipt = client.get("/v/harbour/api/v1/pack", params=asked).json()["receipt"]
        given = {**_GIVEN, "receipt": receipt, "commit": commit}
        for each in OPERATIONS:
            if each.method == "GET":
                query = {"query": "pier"} if "query" in each.query else {}
                for names in (given, dict.fromkeys(given, "none")):
                    place = f"/v/harbour/api/v1{each.path.format(**names)}"
                    answers[place] = client.get(place, params=query).text
        for page in (each[4:] for each in PAGES if each.startswith("GET")):
            for name, value in (("{path:path}", "notes/pier.md"), ("{name:path}", commit)):
                page = page.replace(name, value)
            for more in ("", "?q=pier&look=1", f"?q=pier&says=oak&good={commit}"):
                place = f"/v/harbour{page.replace('{name}', receipt)}{more}"
                answers[place] = client.get(place, headers={"Accept": "text/html"}).text
        for place in ("/", "/?q=oak", "/api/v1/vaults", "/api/v1/pack?query=oak", "/metrics"):
            answers[place] = client.get(place).text
        assert client.get("/v/harbour/api/v1/status").json()["vault"] == "harbour"

    async def scene(client: Any) -> None:
        for tool in TOOLS:
            asked = dict(_CALLS[tool.name])
            if tool.name == "update_note":
                asked["blob"] = (await call(client, "read_note", path=asked["path"]))["blob"]
            answers[tool.name] = str(await call(client, tool.name, **asked))
        for each in (await client.list_resources()).resources:
            answers[str(each.uri)] = str(await client.read_resource(each.uri))

    play_at(f"{team.address}/v/harbour/mcp", team.agent("scout", write="*"), scene)
    assert len(answers) > 100
    assert not [place for place, answer in answers.items() if str(team.folder) in answer]


def test_no_failure_names_a_folder_of_the_server(team: Team) -> None:
    token = team.person("maren", own="*")
    clone = team.clone("harbour", "maren", token)
    git(clone, "commit", "-q", "--allow-empty", "-m", "more")
    told: list[str] = []
    with team.client(token) as client:
        assert client.get("/v/harbour/api/v1/status").status_code == 200
        (team.hub.folder / CLAIMS).write_text("{")
        refused = push(clone)
        assert "could not be checked" in refused.stderr
        told.append(refused.stderr)
        (team.hub.folder / CLAIMS).unlink()
        settings = (team.hub.folder / CONFIG_NAME).read_bytes()
        (team.hub.folder / CONFIG_NAME).write_bytes(b"\xff")
        told.append(push(clone).stderr)
        (team.hub.folder / CONFIG_NAME).write_bytes(settings)
        repository = team.hub.repositories / "harbour.git"
        os.rename(repository, team.folder / "away.git")
        written = {"text": "The crane lifts twelve tonnes.", "kind": "semantic_fact"}
        failed = client.post("/v/harbour/api/v1/notes", json=written)
        assert failed.status_code >= 400
        told.append(failed.text)
        (team.hub.folder / GRANTS).write_text("{")
        for place in ("/v/harbour/api/v1/status", "/", "/mcp", "/api/v1/vaults",
                      "/git/harbour.git/info/refs?service=git-upload-pack"):  # fmt: skip
            for shown in (f"Bearer {token}", "Bearer wrong"):
                answer = client.get(place, headers={"Authorization": shown})
                assert answer.status_code in {401, 404, 500}
                told.append(answer.text)
    assert any("grants.json: cannot be read" in each for each in told)
    assert not [each for each in told if str(team.folder) in each]
