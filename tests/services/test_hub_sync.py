"""`vaultmem sync` of clones against a hub's repository: what the door lets in keeps them going."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_world import ADA, BOB, World, make_world
from in_process import run_here
from support import git, write_notes

from vaultmem.services.hub.audit import read_audit
from vaultmem.services.hub.grants import Kind, Scope, name_pusher

NOTES = {
    "vaultmem.yaml": "agent: \n",
    "notes/refunds/round.md": "# Refunds\n\nRefunds are rounded half up.\n",
    "notes/ledger/close.md": "# Close\n\nThe ledger closes on Friday.\n",
}


@pytest.fixture
def world(home: Path, tmp_path: Path) -> World:
    return make_world(tmp_path, NOTES)


Sync = Callable[..., Any]


def clone(world: World, name: str, who: tuple[str, str]) -> tuple[Path, Callable[..., Any]]:
    """Clone the vault for somebody, and return what runs commands there on a machine of its own."""
    root = world.repository.parents[2] / name
    subprocess.run(["git", "clone", "-q", world.repository, root], check=True)
    git(root, "config", "user.name", who[0])
    git(root, "config", "user.email", who[1])
    env = {f"XDG_{kind}_HOME": str(root.parent / f"{name}-{kind}")
           for kind in ("STATE", "CONFIG", "DATA")}  # fmt: skip
    env |= name_pusher(world.hub, world.grants[name])

    def run(*words: str) -> Any:
        done = run_here(*words, "--json", cwd=root, env=env)
        assert done.code in {0, 5}, done
        return done.json

    return root, run


def test_people_and_their_agents_come_together_at_a_hub(world: World) -> None:
    whose = {"emails": ["dora@x.org"], "agents": ["claude*"]}
    world.admit("dora", Kind.PERSON, {Scope.WRITE: ["*"]}, **whose)
    hers, ada = clone(world, "ada", ADA)
    theirs, dora = clone(world, "dora", ("Dora", "dora@x.org"))
    write_notes(hers, {"notes/refunds/fee.md": "# Fee\n\nThe fee is refunded, too.\n"})
    first = ada("sync")
    assert (first["outcome"], first["evidence"]) == ("synced", "done")
    dora("remember", "The quay is closed in winter.", "--agent", "claude-code")
    write_notes(theirs, {"notes/ledger/open.md": "# Open\n\nIt opens on Monday.\n"})
    second = dora("sync")
    assert (second["outcome"], second["evidence"]) == ("synced", "done")
    assert second["merged"]
    authors = git(theirs, "log", "--format=%ae", "-4").splitlines()
    assert {"claude-code@agents.localhost", "dora@x.org"} <= set(authors)
    assert (ada("sync")["outcome"], ada("sync")["pushed"]) == ("synced", 0)
    assert (hers / "notes/ledger/open.md").exists()
    refs = world.see()[0]
    assert refs.count("refs/vaultmem/machines/") == 3  # One came with the vault.
    assert {each.outcome for each in read_audit(world.hub)} == {"done"}


def test_what_travels_through_a_hub_is_shown_under_the_name_of_the_token(world: World) -> None:
    world.admit("dora", Kind.PERSON, {Scope.WRITE: ["*"]}, emails=["Dora Buoy <dora@x.org>"])
    hers, ada = clone(world, "ada", ADA)
    theirs, dora = clone(world, "dora", ("Dora Buoy", "dora@x.org"))
    path = dora("remember", "The quay is closed in winter.", "--agent", "codex")["path"]
    git(theirs, "add", "-A")
    git(theirs, "commit", "-q", "-m", "vault backup")
    dora("pack", "the quay of zanzibar", "--agent", "codex")
    assert dora("sync")["evidence"] == "done"
    assert ada("sync")["evidence"] == "done"

    (machine,) = ada("stats")["machines"]
    assert machine["name"].startswith("Dora Buoy (")
    line = ada("blame", path)[-1]
    assert (line["who"], line["claimed_by"]) == ("codex", machine["name"])
    assert not ada("receipts")["receipts"]
    objects = ("cat-file", "--batch-all-objects", "--batch", "--unordered")
    command = ["git", "--git-dir", world.repository, *objects]
    held = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"attribution" in held
    assert b"zanzibar" not in held
    assert git(hers, "for-each-ref", "refs/notes/vaultmem") == ""
    assert {each.outcome for each in read_audit(world.hub)} == {"done"}


def test_a_hub_that_refuses_what_a_machine_says_is_asked_once_a_day(world: World) -> None:
    root, bob = clone(world, "bob", BOB)
    for number in range(3):
        bob("recall", "refunds")
        write_notes(root, {f"notes/refunds/n{number}.md": f"# Refunds {number}\n"})
        assert bob("sync")["outcome"] == "synced"

    entries = [each for each in read_audit(world.hub) if each.outcome != "done"]
    assert [each.details["refused"][0].partition(": ")[2][:59] for each in entries] == [
        "is what a machine knows of the vault's use, and you may wri"
    ]


@pytest.mark.campaign
def test_what_the_door_refuses_is_told_and_kept(world: World) -> None:
    root, bob = clone(world, "bob", BOB)
    write_notes(root, {"notes/ledger/close.md": "# Close\n\nThe ledger closes on Thursday.\n"})
    told = bob("sync")
    assert told["outcome"] == "refused"
    assert "notes/ledger/close.md: is not yours to write" in told["told"]
    assert world.tip(told["rescued"]) == git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "-b", "proposals/bob/thursday")
    assert bob("sync")["outcome"] == "synced"
    assert world.tip("refs/heads/proposals/bob/thursday") == git(root, "rev-parse", "HEAD")
    key = "AKIA" + "Q3EGRZ7NVTPX2WLD"
    write_notes(root, {"notes/refunds/key.md": f"# Key\n\nThe key is {key}.\n"})
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "by hand")
    told = bob("sync")
    assert (told["outcome"], told["rescued"]) == ("refused", None)
    assert "key.md" in told["told"]
    assert key not in world.last().details["refused"][0]
