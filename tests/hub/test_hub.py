"""A hub over HTTP: git's own client, programs and browsers, each by their token."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from hub_serving import Team, push
from in_process import run_here
from support import git, wait_until

from vaultmem.errors import VaultError
from vaultmem.hub import principals
from vaultmem.services.hub.grants import (
    Grant,
    GrantKind,
    GrantScope,
    find_grant,
    make_grant,
    revoke,
)
from vaultmem.services.hub.hub_folder import make_hub

_WRITTEN = {"text": "The crane lifts twelve tonnes.", "kind": "semantic_fact"}
_PLACE = "notes/inbox/the-crane-lifts-twelve-tonnes.md"


@pytest.mark.campaign
def test_people_and_agents_come_by_git_and_by_the_api(team: Team) -> None:
    maren, scribe = team.person("maren", own="*"), team.agent("scribe", propose="harbour")
    clone = team.clone("harbour", "maren", maren)
    (clone / "notes/tide.md").write_text("# Tide\n\nThe tide comes at noon.\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Add tide")
    assert push(clone).returncode == 0

    with team.client(maren) as person, team.client(scribe) as agent:
        found = person.get("/v/harbour/api/v1/recall", params={"query": "tide"}).json()
        assert [hit["path"] for hit in found["hits"]] == ["notes/tide.md"]
        made = person.post("/v/harbour/api/v1/notes", json=_WRITTEN)
        assert made.status_code == 201
        assert made.headers["location"] == f"/v/harbour/api/v1/notes/{_PLACE}"
        assert git(clone, "ls-remote", "origin", "main").split()[0] == team.tip("harbour")

        before = team.tip("harbour")
        proposed = agent.post("/v/harbour/api/v1/notes", json={**_WRITTEN, "text": "It is red."})
        assert proposed.json()["ref"] == "proposals/scribe/notes"
        assert team.tip("harbour") == before
        assert agent.get("/v/payments/api/v1/notes").status_code == 404
        asked = {"query": "tide of payments", "receipt": "true"}
        assert person.get("/api/v1/pack", params=asked).json()["receipt"]
        person.get("/api/v1/recall", params={"query": "tide of payments"})
        for place in ("receipts", "recent"):
            told = agent.get(f"/v/harbour/api/v1/{place}").text
            assert "notes/tide.md" in told
            assert "tide of payments" not in told

    repository = team.hub.repositories / "harbour.git"
    who = "--format=%an <%ae> %(trailers:key=Agent,valueonly)"
    assert git(repository, "log", "-1", who, "main").strip() == "maren <maren@example.org>"
    assert "scribe@agents.localhost" in git(repository, "log", "-1", who, "proposals/scribe/notes")


def test_a_token_that_ends_as_it_is_looked_up_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = make_hub(tmp_path / "hub")
    _, token = make_grant(hub, "scout", GrantKind.AGENT, {GrantScope.READ: ["*"]}, time.time())

    def find_and_end(*given: Any) -> Grant | None:
        found = find_grant(*given)
        with contextlib.suppress(VaultError):
            revoke(hub, "scout", time.time())
        return found

    monkeypatch.setattr(principals, "find_grant", find_and_end)
    known = principals.Principals(hub)
    assert known.find(token)
    assert known.find(token) is None


@pytest.mark.campaign
def test_a_sync_that_can_only_read_succeeds_without_its_usage_data(team: Team) -> None:
    clone = team.clone("harbour", "reader", team.agent("reader", read="harbour"))
    assert run_here("pack", "pier", "--agent", "reader", cwd=clone).code == 0

    done = run_here("sync", "--json", "--agent", "reader", cwd=clone)
    again = run_here("sync", "--agent", "reader", cwd=clone)

    assert (done.code, done.json["outcome"], done.json["evidence"]) == (0, "synced", "refused")
    assert (again.out, again.code) == ("main and origin have the same.\n", 0)


@pytest.mark.campaign
def test_doctor_reports_what_a_member_can_repair_in_a_clone(team: Team) -> None:
    maren = team.person("maren", own="*")
    clone = team.clone("harbour", "maren", maren)
    rule = "---\nkind: policy_rule\ncreated: 2090-01-01\n---\n# Rule\n\nTwo people tie a ship.\n"
    (clone / "notes/rule.md").write_text(rule)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Add a rule")
    assert push(clone).returncode == 0

    with team.client(maren) as person:
        answer = person.get("/v/harbour/api/v1/doctor").json()

    assert answer["ok"]
    (found,) = [each for each in answer["checks"] if each["verdict"] != "ok"]
    assert found["paths"] == ["notes/rule.md: 2090-01-01"]
    assert not {"trust", "merge driver", "sync"} & {each["name"] for each in answer["checks"]}


@pytest.mark.campaign
def test_a_new_vault_can_be_written_at_once(team: Team) -> None:
    added = run_here("hub", "add", "quay", "--hub", team.hub.folder)
    assert "added   quay, 1 commit on main" in added.out, added.err
    bare = team.hub.repositories / "quay.git"
    assert {"vaultmem.yaml", ".gitignore", "MEMORY.md"} <= set(
        git(bare, "ls-tree", "-r", "--name-only", "main").splitlines()
    )
    git(bare, "fsck", "--strict")
    porter, scribe = team.agent("porter", write="quay"), team.agent("scribe", propose="quay")
    with team.client(porter) as writer, team.client(scribe) as proposer:
        wait_until(lambda: writer.get("/v/quay/api/v1/notes").status_code == 200)
        assert writer.post("/v/quay/api/v1/notes", json=_WRITTEN).status_code == 201
        proposed = proposer.post("/v/quay/api/v1/notes", json={"text": "It is red."})
        assert proposed.json()["ref"] == "proposals/scribe/notes"
    clone = team.clone("quay", "jonas", team.person("jonas", write="quay"))
    assert (clone / _PLACE).exists()
    assert run_here("remember", "The quay is long.", cwd=clone).code == 0
    synced = run_here("sync", cwd=clone)
    assert synced.code == 0, synced.err
    assert team.tip("quay") == git(clone, "rev-parse", "HEAD")
    other = run_here("hub", "add", "pier", "--branch", "trunk", "--hub", team.hub.folder)
    assert "added   pier, 1 commit on trunk" in other.out
