"""What the log of a hub shows of pushes, requests and sign-ins that came to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_serving import Team, push
from support import git, wait_until

from vaultmem.services.hub.audit import read_audit

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


def _list_refs(entry: object) -> list[str]:
    return [each["ref"] for each in entry.details["refs"]]  # type: ignore[attr-defined]
