"""Pools of clones in this process: the contract of all pools, and what becomes of a clone."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pool_contract import (
    NOTES,
    SCOUT,
    SCOUTS,
    MakePool,
    PoolContract,
    Remotes,
    WriteContract,
    count_notes,
    find_paths,
    git,
    note,
    remotes,
    three,
)

from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.fleet import clones as clones_module
from vaultmem.services.fleet.clone import VaultSource, check_sources, read_sources
from vaultmem.services.fleet.clones import Clones
from vaultmem.services.fleet.pool import LocalPool
from vaultmem.services.hub import writing
from vaultmem.services.hub.hub_folder import Refusal
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.services.search.run_query import Query
from vaultmem.services.views.open_view import view_at
from vaultmem.vault import Vault

__all__ = ["remotes", "three"]


class TestLocalPool(PoolContract, WriteContract):
    @pytest.fixture
    def make_pool(self) -> MakePool:
        return LocalPool


@pytest.fixture
def one(remotes: Remotes) -> VaultSource:
    return remotes.add("crew", NOTES["crew"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pool"


@pytest.fixture
def clones(one: VaultSource, folder: Path) -> Iterator[Clones]:
    """Return the clone of one vault, which follows its remote at once."""
    made = Clones(folder, [one], fresh_for=0.0)
    made.read("crew", count_notes)
    yield made
    made.close()


@pytest.mark.campaign
def test_a_check_is_asked_again_where_others_were_quicker(
    clones: Clones, remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, asked = writing.check_push, []

    def check_late(visit: ReceivedPush, claims: dict[str, str]) -> list[Refusal]:
        if not asked:
            remotes.commit("crew", "notes/tide.md", "# Tide\n")
        asked.append(check(visit, claims))
        return asked[-1]

    monkeypatch.setattr(writing, "check_push", check_late)
    work = partial(note, text="The cook is called Ole.")
    done = writing.write_checked(clones, "crew", work, SCOUT, "", "", SCOUTS)
    assert (asked, done.pending_updates, done.error) == ([[], []], (), None)
    place = remotes.folder / "crew.git"
    assert [each.new for each in done.moved_updates] == [git(place, "rev-parse", "main")]
    assert git(place, "show", "main:notes/tide.md") == "# Tide"


def test_vaults_that_cannot_be_had_are_told_of_and_tried_again(
    one: VaultSource, folder: Path
) -> None:
    pool = LocalPool([], folder)
    try:
        records = folder / "records"
        folder.mkdir()
        records.touch()
        with pytest.raises(OSError, match="records"):
            pool.hold([one])
        records.unlink()
        pool.hold([one])
        assert pool.run("crew", count_notes).result()
    finally:
        pool.close()


def _find(clones: Clones, text: str) -> list[str]:
    return clones.read("crew", partial(find_paths, text=text))


@pytest.mark.campaign
def test_what_is_being_written_shows_to_nobody_before_it_landed(
    one: VaultSource, folder: Path
) -> None:
    """And what takes long to read keeps nobody from writing."""
    with_pool = LocalPool([one], folder)
    wrote, go_on = threading.Event(), threading.Event()

    def write(vault: Vault) -> str:
        path = note(vault, "The cook is called Ole.")
        wrote.set()
        assert go_on.wait(20)
        return path

    try:
        asked = partial(find_paths, text="cook Ole")
        assert not with_pool.run("crew", asked).result()
        done = with_pool.write("crew", write, SCOUT)
        assert wrote.wait(20)
        assert not with_pool.run("crew", asked).result()
        assert not with_pool.each(None, asked).results["crew"]
        go_on.set()
        path = done.result()
        assert with_pool.run("crew", asked).result() == [path]
        go_on.clear()
        long = with_pool.run("crew", lambda _: go_on.wait(20), takes_long=True)
        with_pool.write("crew", partial(note, text="Tea is at four."), SCOUT).result()
        assert with_pool.run("crew", partial(find_paths, text="tea at four")).result()
        assert not long.done()
    finally:
        go_on.set()
        with_pool.close()


@pytest.mark.campaign
def test_a_write_that_is_killed_is_in_the_remote_or_nowhere(
    clones: Clones, one: VaultSource, remotes: Remotes
) -> None:
    """The process ends before its push, or as soon as that is done."""
    clones.close()
    for landed in (False, True):
        if not (child := os.fork()):
            _write_and_die(clones.folder, one, landed)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert (len(remotes.log("crew")) == 3) == landed
        assert bool(_find(clones, "cook Ole")) == landed
        assert not git(clones.folder / "clones/crew", "status", "--porcelain")
    clones.write("crew", partial(note, text="Tea is at four."), SCOUT)
    assert "tea" in remotes.log("crew")[0]


def _write_and_die(folder: Path, source: VaultSource, lands: bool) -> None:
    push = clones_module.push_ref

    def end(*given: object) -> None:
        if lands:
            push(*given)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        clones_module.push_ref = end  # type: ignore[assignment]
        own = Clones(folder, [source])
        own.write("crew", partial(note, text="The cook is called Ole."), SCOUT)
    finally:
        os._exit(1)


def _remove_clone(folder: Path, state: Path) -> None:
    shutil.rmtree(folder)


def _remove_state(folder: Path, state: Path) -> None:
    shutil.rmtree(state)


def _remove_note(folder: Path, state: Path) -> None:
    (folder / "notes/lamp.md").unlink()
    (folder / "notes/planted.md").write_text("# Planted\n\nThe lamp is black.\n")


def _remove_objects(folder: Path, state: Path) -> None:
    for each in (folder / ".git/objects").glob("??"):
        shutil.rmtree(each)
    _remove_note(folder, state)


def test_a_ref_that_goes_while_it_is_read_is_in_nobodys_way(
    clones: Clones, remotes: Remotes
) -> None:
    """As where a remote's refs are packed meanwhile: a name that leads to no file."""
    remotes.commit("crew", "notes/tide.md", "# Tide\n\nThe tide turns at four.\n")
    place = remotes.folder / "crew.git"
    git(place, "pack-refs", "--all")
    (place / "refs/heads/main").symlink_to("nowhere")
    assert _find(clones, "tide turns") == ["notes/tide.md"]


@pytest.mark.campaign
def test_a_clone_that_is_damaged_is_made_again(
    clones: Clones, one: VaultSource, remotes: Remotes
) -> None:
    """Noticed by who has it open, or by the next who opens it."""
    assert _find(clones, "lamp green") == ["notes/lamp.md"]
    others = Clones(clones.folder, [one])
    for harm in (_remove_clone, _remove_state, _remove_note, _remove_objects):
        harm(clones.folder / "clones/crew", clones.find("crew").state)
        others.close()
        for each in (others, clones) if harm is _remove_note else (clones, others):
            assert _find(each, "lamp green") == ["notes/lamp.md"], harm
    others.close()
    _remove_note(clones.folder / "clones/crew", Path())
    others.write("crew", partial(note, text="Tea is at four."), SCOUT)
    listed = git(remotes.folder / "crew.git", "ls-tree", "-r", "--name-only", "main")
    assert "lamp.md" in listed
    assert "planted" not in listed
    others.close()


def test_what_a_remote_says_of_its_files_runs_nothing(
    one: VaultSource, clones: Clones, remotes: Remotes, home: Path, tmp_path: Path
) -> None:
    """Not a filter that the user has for files of their own, nor an end of lines."""
    mark = tmp_path / "ran"
    config = home / ".gitconfig"
    config.write_text(f'{config.read_text()}[filter "own"]\n\tsmudge = touch {mark}; cat\n')
    remotes.commit("crew", ".gitattributes", "*.md text eol=crlf filter=own\n")
    remotes.commit("crew", "notes/fog.md", "# Fog\n\nThe fog horn sounds twice.\n")
    assert _find(clones, "fog horn") == ["notes/fog.md"]
    assert b"\r" not in (clones.folder / "clones/crew/notes/fog.md").read_bytes()
    assert not mark.exists()


@pytest.mark.campaign
def test_vaults_beyond_the_most_that_are_open_are_closed(
    three: list[VaultSource], folder: Path
) -> None:
    clones = Clones(folder, three, most_open=1)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(2):
        for name in NOTES:
            clones.read(name, count_notes)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 6
    clones.hold(three[:1])
    assert sorted(each.name for each in (folder / "clones").iterdir()) == ["crew"]
    clones.close()


@pytest.mark.campaign
def test_two_pools_may_have_one_folder(one: VaultSource, folder: Path, remotes: Remotes) -> None:
    pools = [LocalPool([one], folder) for _ in range(2)]
    try:
        texts = ["Eels are smoked.", "Crabs are boiled."]
        done = [
            pool.write("crew", partial(note, text=text), SCOUT)
            for pool, text in zip(pools, texts, strict=True)
        ]
        paths = {each.result() for each in done}
        place = remotes.folder / "crew.git"
        assert paths < set(git(place, "ls-tree", "-r", "--name-only", "main").splitlines())
        for pool in pools:
            assert pool.refresh().results == {"crew": git(place, "rev-parse", "main")}
            assert pool.run("crew", count_notes).result() == 6
    finally:
        for pool in pools:
            pool.close()


def test_sources_are_named_by_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "fleet.txt"
    file.write_text("# ours\ncrew ./crew.git  # the crew\npier https://host/pier.git notes\n\n")
    assert read_sources(file) == [
        VaultSource("crew", str(tmp_path / "crew.git")),
        VaultSource("pier", "https://host/pier.git", "notes"),
    ]
    for wrong in ("crew", "../crew x.git", "a b c d", "crew x.git\nCREW y.git", "crew --upload"):
        file.write_text(wrong)
        with pytest.raises(RefusedError):
            read_sources(file)
    with pytest.raises(RefusedError):
        check_sources([VaultSource("a/b", "x.git")])


def test_many_vaults_that_cannot_be_had_are_told_in_a_line(folder: Path) -> None:
    names = [f"v{number}" for number in range(14)]
    pool = LocalPool([VaultSource(name, str(folder / "gone.git")) for name in names], folder)
    with pytest.raises(VaultError) as told:
        pool.recall(None, Query("lamp"))
    assert str(told.value).startswith(f"Not asked: {', '.join(names[:12])} and 2 more (")
    assert str(told.value).count("gone.git") == 1
    pool.close()


def test_nothing_is_left_of_a_vault_whose_place_another_one_takes(
    clones: Clones, remotes: Remotes, tmp_path: Path
) -> None:
    old = git(remotes.folder / "crew.git", "rev-parse", "main")
    os.rename(remotes.folder / "crew.git", tmp_path / "aside.git")
    shutil.copytree(tmp_path / "aside.git", remotes.folder / "crew.git")
    place = remotes.folder / "crew.git"
    new = git(place, "commit-tree", f"{old}^{{tree}}", "-m", "Begin again")
    git(place, "update-ref", "refs/heads/main", new)
    clones.read("crew", count_notes)
    with pytest.raises(NoteNotFoundError):
        clones.read("crew", lambda vault: view_at(vault, old))


def test_no_vault_s_settings_lead_to_what_else_is_on_this_disk(
    clones: Clones, remotes: Remotes
) -> None:
    remotes.commit("crew", "vaultmem.yaml", "code_repository: ../payments\nbudget: 900\n")
    told = clones.read("crew", lambda vault: vault.config)
    assert (told.code_repository, told.budget) == ("", 900)
