"""What a pool promises, whichever engine runs it: a class of cases for each engine's own tests.

Whoever runs them gives a fixture `make_pool`: (sources, folder, **settings) to a Pool.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import Make, Open

from vaultmem.core.new_memory import Memory
from vaultmem.core.packs.receipt import Expectation
from vaultmem.core.packs.vault_parts import describe_missing
from vaultmem.errors import ForbiddenError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.clones import TIMEOUT_REASON
from vaultmem.services.fleet.pool import Lane, Pool
from vaultmem.services.hub.grants import Grant, GrantKind, GrantScope
from vaultmem.services.hub.hub_access import PushIdentity
from vaultmem.services.hub.hub_folder import PushLimits
from vaultmem.services.hub.writing import write_checked
from vaultmem.services.memory.remember import remember
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.packs.evaluate import judge_vault
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.vault import Vault

MakePool = Callable[..., Pool]

ANNA = {"by_person": True}
SCOUT = {"agent": "scout"}
SCOUTS = PushIdentity(
    "crew",
    Grant(
        "1",
        "scout",
        GrantKind.AGENT,
        agents=("scout",),
        scopes={GrantScope.WRITE: ("crew:notes/inbox",)},
    ),
    frozenset({"ben"}),
    PushLimits(),
)

NOTES = {
    "crew": {
        "notes/lamp.md": "# The lamp\n\nThe lamp of the mole is green at night.\n",
        "notes/rope.md": "# Ropes\n\nRopes are coiled to the right.\n",
    },
    "pier": {
        "notes/lamp.md": "# Lamps\n\nA lamp at the pier is red, and green when boats may pass.\n",
        "notes/gate.md": "# The gate\n\nThe gate shuts at nine.\n",
    },
    "yard": {"notes/crane.md": "# The crane\n\nIts lamp is white; it lifts six tons.\n"},
}


class Remotes:
    """Bare repositories, and what others do to them."""

    def __init__(self, folder: Path, make_vault: Make) -> None:
        self.folder = folder
        self._make = make_vault

    def add(self, name: str, notes: dict[str, str] | None = None) -> VaultSource:
        """Make one of a vault with notes; with none, one without a commit."""
        place = self.folder / f"{name}.git"
        if notes is None:
            git(self.folder.parent, "init", "-q", "--bare", "-b", "main", str(place))
        else:
            root = self._make(notes, f"seed-{name}")
            shutil.copytree(root / ".git", place)
            (place / "config").write_text("[core]\n\trepositoryFormatVersion = 0\n\tbare = true\n")
        return VaultSource(name, str(place))

    def commit(self, name: str, path: str, text: str) -> None:
        """Have somebody else push a commit that writes a note."""
        body = text.encode()
        told = (
            b"commit refs/heads/main\ncommitter Ben <ben@example.org> 1800000000 +0000\ndata 4\n"
            b"Ben\n\nfrom refs/heads/main^0\nM 100644 inline %s\ndata %d\n%s\n"
        )
        given = told % (path.encode(), len(body), body)
        command = ("git", "fast-import", "--quiet")
        subprocess.run(command, cwd=self.folder / f"{name}.git", input=given, check=True)

    def refuse(self, name: str, why: str) -> None:
        """Have a hook refuse what is pushed."""
        hook = self.folder / f"{name}.git/hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho '{why}' >&2\nexit 1\n")
        hook.chmod(0o755)

    def log(self, name: str, ref: str = "main") -> list[str]:
        """Return the commits of a branch, newest first: who, and what."""
        place = self.folder / f"{name}.git"
        return git(place, "log", "--format=%an <%ae> %s", ref, "--").splitlines()


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.removesuffix("\n")


@pytest.fixture
def remotes(tmp_path: Path, make_vault: Make) -> Remotes:
    (tmp_path / "remotes").mkdir()
    return Remotes(tmp_path / "remotes", make_vault)


@pytest.fixture
def three(remotes: Remotes) -> list[VaultSource]:
    return [remotes.add(name, notes) for name, notes in NOTES.items()]


def count_notes(vault: Vault) -> int:
    return vault.view.totals()[0]


def find_paths(vault: Vault, text: str) -> list[str]:
    return [hit.record.path for hit in run_query(vault, Query(text, counts=False)).hits]


def note(vault: Vault, text: str) -> str:
    return remember(vault, Memory(text)).path


def note_and_fail(vault: Vault) -> None:
    note(vault, "What fails is not kept, says the mate.")
    raise VaultError("it went wrong")


def leak(vault: Vault) -> None:
    """Commit a key past vaultmem, and take it out again."""
    file = vault.root / "notes/inbox/key.md"
    file.parent.mkdir(exist_ok=True)
    own = ("-c", "user.name=scout", "-c", "user.email=scout@agents.localhost")
    for text in ("AKIA" + "Q3EGRZ7NVTPX2WLD", "It is kept elsewhere."):
        file.write_text(text)
        git(vault.root, "add", str(file))
        git(vault.root, *own, "commit", "-qm", "key\n\nAgent-Id: scout")


def sleep(vault: Vault, seconds: float) -> float:
    """Return when it has slept, by the clock."""
    time.sleep(seconds)
    return time.time()


class PoolContract:
    """Cases of several vaults, wherever they are."""

    def test_each_vault_answers_where_it_is(
        self, three: list[VaultSource], make_pool: MakePool, remotes: Remotes, tmp_path: Path
    ) -> None:
        none = remotes.add("none")
        away = VaultSource("away", str(tmp_path / "nowhere.git"))
        stray = remotes.add("stray", NOTES["yard"])._replace(branch="stray")
        pool = make_pool([*three, none, away, stray], tmp_path / "pool")
        try:
            found = pool.each(None, count_notes)
            assert found.results == {name: len(notes) + 2 for name, notes in NOTES.items()}
            assert "no commit yet" in found.missing["none"]
            assert "does not exist" in found.missing["away"] or "no clone" in found.missing["away"]
            assert "no branch stray" in found.missing["stray"]
            assert pool.run("pier", count_notes).result() == 4
            with pytest.raises(NoteNotFoundError, match="ghost"):
                pool.run("ghost", count_notes)
            stats = pool.stats().results
            assert stats["crew"].notes == 4
            assert stats["crew"].commit == git(Path(three[0].remote), "rev-parse", "main")
            assert min(stats["crew"].clone_bytes, stats["crew"].index_bytes) > 10_000
            assert 0 <= stats["crew"].age < 60
            assert "no commit yet" in stats["none"].problem
            expected = Expectation("lamp", texts=("white",))
            told = pool.each(None, partial(judge_vault, expected=expected))
            assert not told.results["yard"]
            assert told.results["crew"]
            long = pool.run("crew", partial(sleep, seconds=0.5), takes_long=True)
            meanwhile = pool.each(["crew"], partial(sleep, seconds=0.0)).results["crew"]
            assert meanwhile < long.result()
            late = pool.each(["crew", "pier"], partial(sleep, seconds=0.3), seconds=0.01)
            assert late.missing == {"crew": TIMEOUT_REASON, "pier": TIMEOUT_REASON}
        finally:
            pool.close()

    def test_a_question_to_all_is_answered_as_by_one_process(
        self,
        three: list[VaultSource],
        make_pool: MakePool,
        opened: Open,
        remotes: Remotes,
        tmp_path: Path,
    ) -> None:
        pool = make_pool([*three, remotes.add("none")], tmp_path / "pool")
        try:
            asked = Query("which lamp is green", counts=False)
            found = pool.recall(None, asked)
            roots = [tmp_path / f"seed-{name}" for name in NOTES]
            named = zip(NOTES, roots, strict=True)
            vaults = [replace(opened(root), name=name) for name, root in named]
            expected = run_query(vaults, asked)
            shown = [(hit.address, hit.score, hit.text) for hit in found.answer.hits]
            assert shown == [(hit.address, hit.score, hit.text) for hit in expected.hits]
            assert len(shown) == 3
            assert "no commit yet" in found.missing["none"]
            with pytest.raises(RefusedError, match="no vault"):
                pool.recall([], asked)
            wanted = AskPack("which lamp is green", counts=False, receipt=False)
            pack = pool.pack(None, wanted)
            alike = ask_pack(vaults, wanted._replace(notices=describe_missing(found.missing)))
            assert pack.answer.pack.text == alike.pack.text
            assert "\nNot asked: none (its remote has no commit yet).\n" in alike.pack.text
        finally:
            pool.close()


class WriteContract:
    """Cases of one vault that is written to."""

    @pytest.fixture
    def one(self, remotes: Remotes, make_pool: MakePool, tmp_path: Path) -> Iterator[Pool]:
        """Return a pool of one vault, which sees at once what its remote has."""
        source = remotes.add("crew", NOTES["crew"])
        pool = make_pool([source], tmp_path / "pool", fresh_for=0.0)
        yield pool
        pool.close()

    def test_what_is_written_counts_once_the_remote_has_it(
        self, one: Pool, remotes: Remotes
    ) -> None:
        before = one.run("crew", count_notes).result()
        text = "The harbour master is called Maike."
        path = one.write("crew", partial(note, text=text), SCOUT).result()
        assert remotes.log("crew")[0].startswith("scout <scout@agents.localhost> checkpoint: ")
        assert "Maike" in git(remotes.folder / "crew.git", "show", f"main:{path}")
        assert one.run("crew", partial(find_paths, text="who is Maike")).result() == [path]
        assert one.run("crew", count_notes).result() == before + 1
        who = "Anna Pier <anna@example.org>"
        again = partial(note, text="Buoys are counted on Mondays.")
        one.write("crew", again, ANNA, who, "proposals/anna/buoys").result()
        assert remotes.log("crew", "proposals/anna/buoys")[0].startswith(who)
        assert remotes.log("crew")[0].startswith("scout")
        assert one.run("crew", count_notes).result() == before + 1
        there = {**ANNA, "ref": "proposals/anna/buoys"}
        assert one.run("crew", count_notes, there).result() == before + 2

    def test_what_others_push_is_followed_and_a_write_is_done_again_on_it(
        self, one: Pool, remotes: Remotes
    ) -> None:
        one.run("crew", count_notes).result()
        remotes.commit("crew", "notes/fog.md", "# Fog\n\nThe fog horn sounds twice.\n")
        assert one.run("crew", partial(find_paths, text="fog horn")).result() == ["notes/fog.md"]
        late = partial(_note_late, folder=str(remotes.folder))
        done = one.submit(
            "crew", write_checked, late, SCOUT, "", "", SCOUTS, lane=Lane.WRITE
        ).result()
        assert [each.new for each in done.moved_updates] == [
            git(remotes.folder / "crew.git", "rev-parse", "main")
        ]
        assert {"Ben <ben@example.org> Ben"} < set(remotes.log("crew"))
        assert one.run("crew", partial(find_paths, text="tide table")).result() == ["notes/tide.md"]
        assert one.run("crew", partial(find_paths, text="pilot Gesche")).result()
        place = remotes.folder / "crew.git"
        git(place, "update-ref", "refs/heads/main", git(place, "rev-parse", "main~2"))
        assert one.refresh().results == {"crew": git(place, "rev-parse", "main")}
        assert not one.run("crew", partial(find_paths, text="tide table")).result()

    def test_of_a_write_that_is_refused_nothing_stays(
        self, one: Pool, remotes: Remotes, tmp_path: Path
    ) -> None:
        before = one.run("crew", count_notes).result()
        tip = git(remotes.folder / "crew.git", "for-each-ref")
        with pytest.raises(VaultError, match="it went wrong"):
            one.write("crew", note_and_fail, SCOUT).result()
        done = one.submit(
            "crew", write_checked, leak, SCOUT, "", "", SCOUTS, lane=Lane.WRITE
        ).result()
        assert isinstance(done.error, ForbiddenError)
        assert (done.moved_updates, len(done.pending_updates), len(done.refused)) == ((), 1, 1)
        assert "line 1 (aws-access-token) looks like a credential" in done.refused[0]
        remotes.refuse("crew", "crew: only on Sundays")
        for branch in ("", "proposals/scout/x"):
            work = partial(note, text="Nobody ever reads this line.")
            refused = one.write("crew", work, SCOUT, "", branch)
            with pytest.raises(RefusedError, match="only on Sundays"):
                refused.result()
        assert git(remotes.folder / "crew.git", "for-each-ref") == tip
        assert one.run("crew", count_notes).result() == before
        assert not one.run("crew", partial(find_paths, text="Nobody reads mate")).result()
        with pytest.raises(NoteNotFoundError):
            one.run("crew", count_notes, {"ref": "proposals/scout/x"}).result()
        place = remotes.folder / "crew.git"
        place.rename(tmp_path / "away.git")
        with pytest.raises(VaultError, match="not written"):
            one.write("crew", partial(note, text="Nor is this."), SCOUT).result()
        assert one.run("crew", count_notes).result() == before
        assert "not reached" in one.stats().results["crew"].problem
        assert "not reached" in one.refresh().missing["crew"]
        (tmp_path / "away.git").rename(place)
        assert one.run("crew", count_notes).result() == before
        assert not one.stats().results["crew"].problem

    def test_a_vault_begins_with_its_first_write(
        self, make_pool: MakePool, remotes: Remotes, tmp_path: Path
    ) -> None:
        pool = make_pool([remotes.add("none")], tmp_path / "pool", fresh_for=0.0)
        try:
            with pytest.raises(VaultError, match="no commit yet"):
                pool.run("none", count_notes).result()
            pool.write("none", partial(note, text="The first note is this."), SCOUT).result()
            assert remotes.log("none")[1:] == ["scout <scout@agents.localhost> init: new vault"]
            assert pool.run("none", partial(find_paths, text="first note")).result()
        finally:
            pool.close()


def _note_late(vault: Vault, folder: str) -> str:
    """Write after somebody else has pushed what this writer has not seen, the first time."""
    if not (vault.root / "notes/tide.md").exists():
        Remotes(Path(folder), None).commit(  # type: ignore[arg-type]
            "crew", "notes/tide.md", "# Tide\n\nThe tide table hangs in the hall.\n"
        )
    return note(vault, "The pilot is called Gesche.")
