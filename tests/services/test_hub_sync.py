"""`vaultmem sync` of clones against a hub's repository: what the door lets in keeps them going."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_world import ADA, BOB, World, make_world
from in_process import run_here
from support import git, write_notes

from vaultmem.services.hub.grants import GrantKind, GrantScope, build_pusher_environment
from vaultmem.services.hub.hub_folder import read_audit

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
    env |= build_pusher_environment(world.hub, world.grants[name])

    def run(*words: str, as_text: bool = False) -> Any:
        done = run_here(*words, *([] if as_text else ["--json"]), cwd=root, env=env)
        assert done.code in {0, 5}, done
        return done.out if as_text else done.json

    return root, run


@pytest.mark.campaign
def test_people_and_their_agents_come_together_at_a_hub(world: World) -> None:
    whose = {"emails": ["dora@x.org"], "agents": ["claude*"]}
    world.admit("dora", GrantKind.PERSON, {GrantScope.WRITE: ["*"]}, **whose)
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


@pytest.mark.campaign
def test_what_travels_through_a_hub_is_shown_under_the_name_of_the_token(world: World) -> None:
    world.admit(
        "dora", GrantKind.PERSON, {GrantScope.WRITE: ["*"]}, emails=["Dora Buoy <dora@x.org>"]
    )
    hers, ada = clone(world, "ada", ADA)
    theirs, dora = clone(world, "dora", ("Dora Buoy", "dora@x.org"))
    path = dora("remember", "The quay is closed in winter.", "--agent", "codex")["path"]
    git(theirs, "add", "-A")
    git(theirs, "commit", "-q", "-m", "vault backup")
    dora("pack", "the quay of zanzibar", "--agent", "codex")
    assert dora("sync")["evidence"] == "done"
    assert ada("sync")["evidence"] == "done"

    line = ada("blame", path)[-1]
    assert line["who"] == "codex"
    assert line["claimed_by"].startswith("Dora Buoy (")
    assert not ada("receipts")["receipts"]
    objects = ("cat-file", "--batch-all-objects", "--batch", "--unordered")
    command = ["git", "--git-dir", world.repository, *objects]
    held = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"attribution" in held
    assert b"zanzibar" not in held
    assert git(hers, "for-each-ref", "refs/notes/vaultmem") == ""
    assert {each.outcome for each in read_audit(world.hub)} == {"done"}


@pytest.mark.campaign
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
    assert "notes/ledger/close.md: is not yours to write" in told["message"]
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
    assert "key.md" in told["message"]
    assert key not in world.last().details["refused"][0]


def test_the_remedy_for_a_wrong_author_can_be_copied(world: World) -> None:
    world.admit(
        "dora", GrantKind.PERSON, {GrantScope.WRITE: ["*"]}, emails=["Dora Buoy <dora@x.org>"]
    )
    root, dora = clone(world, "dora", ("dora", "dora@laptop"))
    write_notes(root, {"notes/refunds/fee.md": "# Fee\n\nThe fee is refunded, too.\n"})
    message = dora("sync")["message"]
    assert "its author is dora <dora@laptop>; you write as Dora Buoy <dora@x.org>" in message
    assert "--push-as" not in message
    commands = re.findall("`git ([^`]*)`", message)
    for command in commands[:3]:
        git(root, *shlex.split(command))
    assert commands[:2] == ["config user.name 'Dora Buoy'", "config user.email dora@x.org"]
    assert dora("sync")["outcome"] == "synced"


def propose(
    world: World, name: str, topic: str, notes: dict[str, str], who: tuple[str, str]
) -> str:
    """Push a proposal made upon the vault's branch; return its commit."""
    tip = world.tip()
    commit = world.clone.commit({**world.clone.files(tip), **notes}, [tip], who)
    world.take(name, f"{commit}:refs/heads/proposals/{name}/{topic}")
    return commit


@pytest.mark.campaign
def test_a_proposal_is_seen_accepted_and_removed(world: World) -> None:
    root, ada = clone(world, "ada", ADA)
    assert ada("sync")["proposals"] == 0
    lamp = {"notes/lamp.md": "# Lamp\n\nThe lamp is green.\n"}
    made = propose(world, "cleo", "lamp", lamp, ("Cleo", "cleo@ferry.example"))
    assert ada("sync", as_text=True).endswith('\n1 proposal waits; run "vaultmem review"\n')
    assert "to decide   1: 1 proposal; `vaultmem review`\n" in ada("status", as_text=True)
    shown = ada("review", as_text=True)
    assert "1 proposal\n" in shown
    question = "Merge this proposal?\n    y  --accept  it is merged\n"
    assert f"  > The lamp is green.\n  {question}" in shown
    (item,) = ada("review")["items"]
    assert item["action"] == "proposal"
    assert item["reason"].startswith("proposals/cleo/lamp: 1 file, 20")
    assert item["evidence"] == ["adds notes/lamp.md"]
    assert [note["text"] for note in item["notes"]] == ["# Lamp\n\nThe lamp is green."]
    write_notes(root, {"notes/refunds/fee.md": "# Fee\n\nSaved a moment ago.\n"})
    (done,) = ada("review", "--accept", item["id"])["decided"]
    assert done["message"] == "it is merged"
    assert git(root, "log", "-1", "--format=%s") == "merge: origin/proposals/cleo/lamp into main"
    assert (root / "notes/lamp.md").read_text() == lamp["notes/lamp.md"]
    assert ada("review")["items"] == []
    assert world.tip("refs/heads/proposals/cleo/lamp") == made  # Nobody else has the merge yet.
    told = ada("sync", as_text=True)
    assert "\nremoved proposals/cleo/lamp, which was decided\n" in told
    assert "waits" not in told
    assert world.tip("refs/heads/proposals/cleo/lamp") == ""
    assert git(root, "for-each-ref", "refs/vaultmem/decided", "refs/remotes/origin/proposals") == ""


@pytest.mark.campaign
def test_review_shows_the_lines_that_a_proposal_changes(world: World) -> None:
    tip = world.tip()
    lamp = {"notes/lamp.md": "# Lamp\n\nThe lamp is green.\n\nIt is old.\n"}
    base = world.clone.commit({**world.clone.files(tip), **lamp}, [tip], ADA)
    world.take("ada", f"{base}:refs/heads/main")
    _, ada = clone(world, "ada", ADA)
    changed = {"notes/lamp.md": "# Lamp\n\nThe lamp is red.\n\nIt is old.\n"}
    propose(world, "cleo", "red", changed, ("Cleo", "cleo@ferry.example"))
    ada("sync")
    (item,) = ada("review")["items"]
    lines = ["-The lamp is green.", "+The lamp is red."]
    assert [line for line in item["notes"][0]["changed"] if line[0] in "-+"] == lines
    assert "  -The lamp is green.\n  +The lamp is red.\n" in ada("review", as_text=True)


@pytest.mark.campaign
def test_a_proposal_is_rejected_with_a_reason_that_its_author_finds(world: World) -> None:
    root, ada = clone(world, "ada", ADA)
    other, cleo = clone(world, "cleo", ("Cleo", "cleo@ferry.example"))
    lamp = {"notes/lamp.md": "# Lamp\n\nThe lamp is green.\n"}
    propose(world, "cleo", "lamp", lamp, ("Cleo", "cleo@ferry.example"))
    ada("sync")
    assert cleo("sync")["proposals"] == 1
    (item,) = ada("review")["items"]
    (done,) = ada("review", "--reject", item["id"], "--reason", "The lamp is red.")["decided"]
    assert done["message"] == "it is rejected"
    assert ada("status")["git"]["proposals"] == 0
    assert ada("sync")["removed"] == ["proposals/cleo/lamp"]
    assert world.tip("refs/heads/proposals/cleo/lamp") == ""
    assert cleo("sync")["proposals"] == 0
    assert not (root / "notes/lamp.md").exists()
    (event,) = cleo("log", "--event", "review")["commits"]
    assert event["subject"] == "review: proposals/cleo/lamp is rejected"
    assert "The lamp is red." in git(other, "log", "-1", "--format=%b", event["commit"])


@pytest.mark.campaign
def test_a_proposal_that_went_on_meanwhile_stays(world: World) -> None:
    root, ada = clone(world, "ada", ADA)
    lamp = {"notes/lamp.md": "# Lamp\n\nThe lamp is green.\n"}
    made = propose(world, "cleo", "lamp", lamp, ("Cleo", "cleo@ferry.example"))
    ada("sync")
    git(root, "merge", "-q", "--no-edit", "origin/proposals/cleo/lamp")
    assert ada("status")["git"]["proposals"] == 0
    git(root, "reset", "-q", "--hard", "origin/main")
    ada("merge", "origin/proposals/cleo/lamp")
    more = {**world.clone.files(made), "notes/fog.md": "# Fog\n\nThe fog horn is loud.\n"}
    on = world.clone.commit(more, [made], ("Cleo", "cleo@ferry.example"))
    world.take("cleo", f"{on}:refs/heads/proposals/cleo/lamp")
    told = ada("sync")
    assert (told["removed"], told["kept"], told["proposals"]) == ([], [], 1)
    assert world.tip("refs/heads/proposals/cleo/lamp") == on


@pytest.mark.campaign
def test_only_those_who_may_write_remove_others_proposals(world: World) -> None:
    world.admit("dora", GrantKind.PERSON, {GrantScope.WRITE: ["*"]}, emails=["dora@x.org"])
    world.admit("eve", GrantKind.PERSON, {GrantScope.PROPOSE: ["*"]}, emails=["eve@x.org"])
    notes = {"notes/lamp.md": "# Lamp\n\nThe lamp is green.\n"}
    made = propose(world, "cleo", "lamp", notes, ("Cleo", "cleo@ferry.example"))
    removal = ":refs/heads/proposals/cleo/lamp"
    for name in ("eve", "rita", "bob"):  # Bob writes in a folder alone.
        assert world.push(name, removal)[0] != 0, name
    assert world.push("dora", f"+{world.tip()}:refs/heads/proposals/cleo/lamp")[0] != 0
    assert world.tip("refs/heads/proposals/cleo/lamp") == made
    world.take("dora", removal)
    made = propose(world, "cleo", "lamp", notes, ("Cleo", "cleo@ferry.example"))
    world.take("ada", f"{made}:refs/heads/main")
    world.take("bob", removal)
