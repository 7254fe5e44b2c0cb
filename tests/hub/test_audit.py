"""What the log of a hub shows of pushes, requests and sign-ins that came to nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hub_serving import Team, play_at, push
from in_process import run_here
from serving import refused
from support import git, wait_until

from vaultmem.hub.authentication import RequestLog
from vaultmem.services.hub.hub_folder import read_audit
from vaultmem.services.hub.repositories import make_repository
from vaultmem.workers import HubPrincipal

_NOTE = {"text": "Lamp is green."}
_REFS = "/git/harbour.git/info/refs?service=git-upload-pack"

pytestmark = pytest.mark.campaign


def _change(root: Path, text: str) -> None:
    (root / "notes" / f"{text.split()[0]}.md").write_text(f"# {text}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", text)


def _write_hook(file: Path, command: str) -> None:
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o700)


def _list_pushes(team: Team) -> list[tuple[str, str]]:
    return [(each.who, each.outcome) for each in read_audit(team.hub, what="push")]


def test_a_push_that_came_second_is_late_and_not_refused(team: Team) -> None:
    first = team.clone("harbour", "maren", team.person("maren", own="*"))
    second = team.clone("harbour", "jonas", team.person("jonas", write="*"))
    _change(first, "Quay is long")
    _change(second, "Lamp is green")
    # Git's client runs it when it has read where the hub's branches are.
    _write_hook(second / ".git/hooks/pre-push", f"env -u GIT_DIR git -C {first} push -q")
    done = push(second)
    assert "another push came first; fetch first (`vaultmem sync`, or `git pull`)" in done.stderr
    assert "[remote rejected]" in done.stderr
    assert _list_pushes(team) == [("jonas", "late"), ("maren", "done")]
    (late,) = read_audit(team.hub, outcome="late")
    assert [each["new"] for each in late.details["refs"]] == [git(second, "rev-parse", "HEAD")]
    assert not list(read_audit(team.hub, outcome="refused"))
    git(second, "pull", "-q", "--rebase")  # What the message says ends the problem.
    (second / ".git/hooks/pre-push").unlink()
    assert push(second).returncode == 0


def test_refs_of_a_late_push_that_nobody_else_moved_are_done(team: Team) -> None:
    first = team.clone("harbour", "maren", team.person("maren", own="*"))
    second = team.clone("harbour", "jonas", team.person("jonas", write="*"))
    _change(first, "Quay is long")
    _change(second, "Lamp is green")
    _write_hook(second / ".git/hooks/pre-push", f"env -u GIT_DIR git -C {first} push -q")
    assert push(second, "origin", "HEAD", "HEAD:refs/heads/proposals/jonas/lamp").returncode
    found = [(each.outcome, *_list_refs(each)) for each in read_audit(team.hub, who="jonas")]
    assert found == [
        ("late", "refs/heads/main"),
        ("done", "refs/heads/proposals/jonas/lamp"),
    ]
    assert team.tip("harbour", "refs/heads/proposals/jonas/lamp")


def test_a_push_that_another_overtakes_after_its_check_is_late(team: Team) -> None:
    clone = team.clone("harbour", "maren", team.person("maren", own="*"))
    bare, tip = team.hub.repositories / "harbour.git", team.tip("harbour")
    tree = git(bare, "rev-parse", "main^{tree}")
    quicker = git(bare, "commit-tree", "-p", tip, "-m", "Quicker", tree)
    _write_hook(team.hub.hooks / "update", f"git update-ref refs/heads/main {quicker}")
    _change(clone, "Quay is long")
    assert "[remote rejected]" in push(clone).stderr
    wait_until(lambda: _list_pushes(team)[0] == ("maren", "late"))
    assert not list(read_audit(team.hub, outcome="refused"))
    assert team.tip("harbour") == quicker


def test_gits_first_request_without_a_password_is_no_rejected_sign_in(team: Team) -> None:
    token = team.person("maren", own="*")
    askpass = team.folder / "askpass"
    _write_hook(askpass, f"echo {token}")
    place = team.url("harbour").replace("http://", "http://maren@")
    git(team.folder, "-c", f"core.askPass={askpass}", "clone", "-q", place, "maren")
    with team.client() as client:
        assert client.get("/api/v1/vaults").status_code == 401
        assert client.get("/mcp").status_code == 401
    assert not list(read_audit(team.hub, what="sign-in"))
    for shown in ("Basic Og==", "Basic bWFyZW46"):  # A name alone, or not even that.
        with team.client(Authorization=shown) as client:
            assert client.get(_REFS).status_code == 401
    assert not list(read_audit(team.hub, what="sign-in"))


def test_what_api_and_mcp_refuse_is_logged(team: Team) -> None:
    reader, scribe = team.agent("nosy", read="harbour"), team.agent("scribe", propose="harbour")
    two = team.agent("two", read="harbour", propose="lighthouse")
    with team.client(reader) as client:
        assert client.post("/v/harbour/api/v1/notes", json=_NOTE).status_code == 403
        assert client.get("/v/payments/api/v1/recall?query=pier").status_code == 404
        assert client.get("/v/payments/note/notes/pier.md").status_code == 404
        assert client.get("/api/v1/recall?query=pier&vaults=payments").status_code == 404
        assert client.post("/v/payments/mcp", json={}).status_code == 404
    with team.client(scribe) as client:
        assert client.post("/v/harbour/api/v1/notes?ref=main", json=_NOTE).status_code == 403

    source = str(team.hub.repositories / "harbour.git")
    make_repository(team.hub, "lighthouse", os.environ, source, "main")
    with team.client(two) as client:
        wait_until(lambda: "lighthouse" in client.get("/api/v1/vaults").text)

    async def scene(client: Any) -> None:
        assert "no such tool" in await refused(client, "remember", text="Lamp is green.")

    async def scene_over_all(client: Any) -> None:
        assert "no such vault" in await refused(client, "read_note", vault="payments", path="x.md")
        assert "only read" in await refused(client, "remember", vault="harbour", text="No.")

    play_at(f"{team.address}/v/harbour/mcp", reader, scene)
    play_at(f"{team.address}/mcp", two, scene_over_all)
    clone = team.clone("harbour", "nosy", reader)
    git(clone, "commit", "-q", "--allow-empty", "-m", "Nothing")
    assert push(clone).returncode
    git(clone, "ls-remote", team.url("payments", reader), check=False)
    rows = [
        (each.who, each.what, each.origin, each.vaults, each.details["operation"])
        for each in read_audit(team.hub, outcome="refused")
    ]
    here, hidden = ("harbour",), ("payments",)
    assert rows[::-1] == [
        ("nosy", "write", "api", here, "remember"),
        ("nosy", "ask", "api", hidden, ""),
        ("nosy", "ask", "page", hidden, ""),
        ("nosy", "ask", "api", hidden, "recall"),
        ("nosy", "ask", "mcp", hidden, ""),
        ("scribe", "write", "api", here, "remember"),
        ("nosy", "write", "mcp", here, "remember"),
        ("two", "ask", "mcp", hidden, "read_note"),
        ("two", "write", "mcp", here, "remember"),
        ("nosy", "push", "127.0.0.1", here, "git"),
        ("nosy", "fetch", "127.0.0.1", hidden, "git"),
    ]
    shown = run_here("hub", "log", "--refused", "--hub", team.hub.folder).out
    assert "harbour: you may only read this vault" in shown
    assert "this hub has no such vault, or not for you" in shown


def test_tables_are_answered_and_logged(team: Team) -> None:
    addresses = (
        "/v/harbour/api/v1/notes?",
        "/v/harbour/api/v1/recall?query=pier&",
        "/api/v1/recall?query=pier&",
    )
    with team.client(team.agent("scout", read="harbour")) as client:
        for address in addresses:
            answer = client.get(f"{address}format=csv")
            kind = answer.headers["content-type"]
            assert (answer.status_code, kind) == (200, "text/csv; charset=utf-8"), address
            assert "," in answer.text.splitlines()[0]
    assert [each.details["operation"] for each in read_audit(team.hub, what="ask")] == [
        "recall",
        "recall",
        "list_notes",
    ]


def test_what_the_vault_or_the_check_of_a_push_refuses_has_one_row(team: Team) -> None:
    porter = team.agent("porter", write="harbour:notes/team")
    with team.client(porter) as client:
        assert client.post("/v/harbour/api/v1/notes", json=_NOTE).status_code == 403
        key = {**_NOTE, "text": "The key is AKIA" + "Q3EGRZ7NVTPX2WLD."}
        assert client.post("/v/harbour/api/v1/notes", json=key).status_code == 422
    by_vault, by_check = read_audit(team.hub, outcome="refused")
    assert (by_check.what, by_vault.what) == ("push", "write")
    assert "is not yours to write" in by_check.details["refused"][0]
    assert "looks like a credential" in by_vault.details["refused"][0]
    assert "Q3EGRZ7NVTPX2WLD" not in str(by_vault)


def test_one_who_is_refused_all_the_time_does_not_fill_the_log(team: Team) -> None:
    clock = iter([0.0] * 1_001 + [61.0])
    log, nosy = RequestLog(team.hub, lambda: next(clock)), HubPrincipal("nosy", "1")
    for _ in range(1_000):
        log.add_refusal(["payments"], nosy, "ask", "recall", "not for you")
    assert len(list(read_audit(team.hub, who="nosy"))) == 20
    log.add_refusal(["payments"], HubPrincipal("other", "2"), "ask", "recall", "not for you")
    assert len(list(read_audit(team.hub, who="other"))) == 1
    log.add_refusal(["payments"], nosy, "ask", "recall", "not for you")
    last = next(read_audit(team.hub, who="nosy"))
    assert last.details["refused"][1] == "980 refused requests before it without a row"


def _list_refs(entry: object) -> list[str]:
    return [each["ref"] for each in entry.details["refs"]]  # type: ignore[attr-defined]
