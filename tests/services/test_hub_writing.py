"""A write through a hub's API is checked in process, and moves the ref of its repository."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hub_world import World, make_world

from vaultmem.core.new_memory import Memory
from vaultmem.errors import ForbiddenError
from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.clones import Clones
from vaultmem.services.hub.grants import revoke
from vaultmem.services.hub.hub_folder import read_audit
from vaultmem.services.hub.writing import move_ref
from vaultmem.services.memory.remember import remember
from vaultmem.vault import Vault

VAULT = {
    "vaultmem.yaml": "agent: \n",
    "notes/refunds/round.md": "# Refunds\n\nRefunds are rounded half up.\n",
}


@pytest.fixture
def world(home: Path, tmp_path: Path) -> World:
    return make_world(tmp_path, VAULT)


@pytest.fixture
def clones(world: World, tmp_path: Path) -> Iterator[Clones]:
    made = Clones(
        tmp_path / "pool", [VaultSource("payments", str(world.repository))], fresh_for=0.0
    )
    yield made
    made.close()


def write(
    world: World, clones: Clones, work: Callable[[Vault], str], who: str = "scout", branch: str = ""
) -> str:
    publish = partial(move_ref, world.hub.folder, "payments", world.grants[who].id, "api")
    return clones.write("payments", work, {"agent": who}, "", branch, publish)


def note(vault: Vault, text: str) -> str:
    return str(remember(vault, Memory(text)).path)


def git(world: World, *words: str) -> str:
    command = ["git", "--git-dir", world.repository, *words]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def test_a_write_is_in_the_repository_and_on_record_when_it_returns(
    world: World, clones: Clones
) -> None:
    before = world.tip()
    path = write(world, clones, partial(note, text="The crane lifts twelve tonnes."))
    assert "twelve tonnes" in git(world, "show", f"main:{path}")
    assert git(world, "log", "-1", "--format=%an <%ae>", "main") == "scout <scout@agents.localhost>"
    assert git(world, "reflog", "-1", "--format=%gs", "main") == "vaultmem: write"
    entry = world.last()
    assert (entry.who, entry.origin, entry.what, entry.outcome) == ("scout", "api", "push", "done")
    moved = {"ref": "refs/heads/main", "old": before, "new": world.tip()}
    assert entry.details == {"refs": [moved], "refused": []}
    branch = "proposals/scout/lamp"
    write(world, clones, partial(note, text="The lamp is green."), branch=branch)
    assert "lamp" in git(world, "show", "--stat", f"refs/heads/{branch}")
    assert world.tip() == moved["new"]
    assert git(world, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("count", [1, 120])
def test_the_repository_needs_no_object_of_the_clone(
    world: World, clones: Clones, tmp_path: Path, count: int
) -> None:
    def work(vault: Vault) -> str:
        texts = [f"Ship {number} carries {number**9} tonnes." for number in range(count)]
        return [note(vault, text) for text in texts][-1]

    path = write(world, clones, work)
    loose_objects = list((world.repository / "objects").glob("??/*"))
    assert all(file.stat().st_nlink == 1 for file in loose_objects) == (count > 100)
    shutil.rmtree(tmp_path / "pool")
    assert git(world, "fsck", "--strict", "--no-dangling") == ""
    assert f"Ship {count - 1} carries" in git(world, "show", f"main:{path}")


def test_a_write_that_a_push_overtakes_is_done_again(world: World, clones: Clones) -> None:
    calls = []

    def work(vault: Vault) -> str:
        calls.append(vault.history.head().commit)
        if len(calls) == 1:
            files = {**world.clone.files(world.tip()), "notes/tide.md": "# Tide\n"}
            who = ("Ada Harbour", "ada@ferry.example")
            world.take("ada", f"{world.clone.commit(files, [world.tip()], who)}:refs/heads/main")
        return note(vault, "The pilot is called Gesche.")

    write(world, clones, work)
    assert len(calls) == len(set(calls)) == 2
    assert git(world, "log", "--format=%an", "--first-parent", "-2", "main").split("\n") == [
        "scout",
        "Ada Harbour",
    ]
    outcomes = [(each.who, each.outcome) for each in read_audit(world.hub)]
    assert outcomes[:3] == [("scout", "done"), ("scout", "late"), ("ada", "done")]


def test_of_a_write_that_is_refused_the_repository_gets_no_object(
    world: World, clones: Clones
) -> None:
    write(world, clones, partial(note, text="The crane lifts twelve tonnes."))
    there = git(world, "cat-file", "--batch-all-objects", "--batch-check")
    # Bob may write in one folder, and is no agent.
    with pytest.raises(ForbiddenError, match="names the agent") as failed:
        write(world, clones, partial(note, text="The tide comes at noon."), "bob")
    assert "the hub's push check rejects it" in str(failed.value)
    assert world.last().outcome == "refused"
    revoke(world.hub, "scout", 1.0)
    with pytest.raises(ForbiddenError, match="does not count"):
        write(world, clones, partial(note, text="The tide comes at noon."))
    assert git(world, "cat-file", "--batch-all-objects", "--batch-check") == there
    paths = clones.read("payments", lambda vault: vault.manifest.paths())
    assert [path for path in paths if "tide" in path] == []
