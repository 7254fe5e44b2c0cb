"""A note that one moves and another edits before a commit: its lines keep their authors."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from branching import change
from conftest import Make, Open
from support import git, write_notes

from vaultmem import Memory, Vault, promote_notes, remember, save_checkpoint, sync_vault
from vaultmem.services.changes.edit_notes import change_tags
from vaultmem.services.changes.ownership import find_pending
from vaultmem.services.history.blame import blame_note, trace_note
from vaultmem.services.history.explain import explain_text
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.services.memory.new_note import NoteUpdate, update_note
from vaultmem.services.memory.rename import rename_note
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.syncing.sync import sync_remote

MAREN = "Maren Person"

PIER = """\
---
kind: semantic_fact
state: candidate
---
# Pier

The pier opens at six in the morning.

The crane of the pier lifts four tonnes at most.

Call Bo.
"""

#: Who wrote the lines of the note before anybody moves it.
BEFORE = {
    "# Pier": "Ann",
    "The pier opens at six in the morning.": "Ann",
    "The crane of the pier lifts four tonnes at most.": "Ann",
    "Call Bo.": "Ann",
    "The keeper of the pier is Tuuli Aho.": "codex",
}


class Place:
    """A vault at work: each method is something that one of its authors does."""

    def __init__(self, root: Path, opened: Open) -> None:
        self.root, self._opened = root, opened
        self.who: dict[str, str] = dict(BEFORE)

    def open(self, agent: str = "", session: str = "") -> Vault:
        vault = self._opened(self.root, agent=agent, session=session)
        sync_vault(vault)
        return vault

    def move(self, agent: str, old: str, new: str) -> None:
        rename_note(self.open(agent), old, new)

    def move_by_hand(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(exist_ok=True)
        (self.root / old).rename(self.root / new)

    def edit(self, agent: str, path: str, old: str, new: str) -> None:
        update_note(self.open(agent), PurePosixPath(path), NoteUpdate(old_text=old, new_text=new))
        self._learn(agent, path)

    def edit_by_hand(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        file.write_text(change(file.read_text(), old, new))
        self._learn("", path)

    def _learn(self, agent: str, path: str) -> None:
        lines = (self.root / path).read_text().partition("\n---\n")[2].splitlines()
        self.who = {
            line: self.who.get(line, agent or MAREN) for line in lines if line and "[[" not in line
        }


FIVE = ("lifts four tonnes", "lifts five tonnes")
SEVEN = ("opens at six", "opens at seven")
MORE = ("Call Bo.\n", "Call Bo.\n\nAsk him twice.\n")


def _agent_moves(at: Place) -> str:
    at.move("codex", "pier", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)
    return "quay.md"


def _agent_moves_into_a_folder(at: Place) -> str:
    at.move("codex", "pier", "harbour/quay.md")
    at.edit_by_hand("harbour/quay.md", *FIVE)
    at.edit_by_hand("harbour/quay.md", *MORE)
    return "harbour/quay.md"


def _agent_moves_twice(at: Place) -> str:
    at.move("codex", "pier", "dock.md")
    at.move("codex", "dock", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)
    return "quay.md"


def _two_agents_move(at: Place) -> str:
    at.move("codex", "pier", "dock.md")
    at.move("claude", "dock", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)
    return "quay.md"


def _agent_and_person_move(at: Place) -> str:
    at.move("codex", "pier", "dock.md")
    at.move_by_hand("dock.md", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)
    return "quay.md"


def _person_moves(at: Place) -> str:
    at.move("", "pier", "quay.md")
    at.edit("codex", "quay.md", *FIVE)
    return "quay.md"


def _person_moves_by_hand(at: Place) -> str:
    at.move_by_hand("pier.md", "harbour/quay.md")
    at.edit("codex", "harbour/quay.md", *FIVE)
    return "harbour/quay.md"


def _person_moves_and_edits(at: Place) -> str:
    at.move_by_hand("pier.md", "quay.md")
    at.edit_by_hand("quay.md", *SEVEN)
    at.edit("codex", "quay.md", *FIVE)
    at.edit_by_hand("quay.md", *MORE)
    return "quay.md"


def _another_agent_edits(at: Place) -> str:
    at.move("codex", "pier", "quay.md")
    at.edit("claude", "quay.md", *FIVE)
    return "quay.md"


def _all_of_them_edit(at: Place) -> str:
    at.move("codex", "pier", "quay.md")
    at.edit("claude", "quay.md", *FIVE)
    at.edit_by_hand("quay.md", *MORE)
    return "quay.md"


def _agent_edits_and_person_moves(at: Place) -> str:
    at.edit("codex", "pier.md", *SEVEN)
    at.move_by_hand("pier.md", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)
    return "quay.md"


def _agent_edits_and_moves(at: Place) -> str:
    at.edit("codex", "pier.md", *SEVEN)
    at.move("codex", "pier", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)
    return "quay.md"


MOVES = [
    *(_agent_moves, _agent_moves_into_a_folder, _agent_moves_twice, _two_agents_move),
    *(_agent_and_person_move, _person_moves, _person_moves_by_hand, _person_moves_and_edits),
    *(_another_agent_edits, _all_of_them_edit),
    *(_agent_edits_and_person_moves, _agent_edits_and_moves),
]


def _checkpoint(at: Place, path: str) -> None:
    save_checkpoint(at.open(), "all")


def _agents_checkpoint(at: Place, path: str) -> None:
    save_checkpoint(at.open("codex"), "all")


def _promote(at: Place, path: str) -> None:
    promote_notes(at.open(), [path])


def _promote_by_hand(at: Place, path: str) -> None:
    file = at.root / path
    file.write_text(change(file.read_text(), "state: candidate", "state: active"))
    save_checkpoint(at.open(), "promoted")


def _close(at: Place, path: str) -> None:
    vault = at.open("codex")
    close_session(vault, start_session(vault, NewSession(goal="Tidy up")).session.facts.id)
    save_checkpoint(at.open(), "the rest")


def _plain_git(at: Place, path: str) -> None:
    git(at.root, "add", "--all")
    git(at.root, "commit", "-q", "-a", "-m", "vault backup")


def _sync(at: Place, path: str) -> None:
    remote = at.root.parent / "remote.git"
    git(at.root.parent, "init", "-q", "--bare", str(remote))
    sync_remote(at.open(), str(remote))


COMMITS = [
    *(_checkpoint, _agents_checkpoint, _promote, _promote_by_hand, _close, _plain_git, _sync),
]


def _prepare(make_vault: Make, opened: Open) -> Place:
    root = make_vault({"tides.md": "# Tides\n\nSee [[pier]] for the times.\n"})
    write_notes(root, {"pier.md": PIER})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "pier", "--author", "Ann <ann@example.org>")
    at = Place(root, opened)
    keeper = "Call Bo.\n\nThe keeper of the pier is Tuuli Aho.\n"
    at.edit("codex", "pier.md", "Call Bo.\n", keeper)
    save_checkpoint(at.open("codex"), "keeper")
    return at


def _blame(vault: Vault, path: str) -> dict[str, str]:
    lines = blame_note(vault, path).lines[4:]
    return {line.text: line.author for line in lines if line.text}


def _name(function: Callable[..., object]) -> str:
    return function.__name__.strip("_").replace("_", "-")


def _pairs() -> Iterator[Any]:
    """Yield each move with each commit; one of either kind is in every run."""
    for commit, move in itertools.product(COMMITS, MOVES):
        is_quick = commit is _checkpoint or move is _agent_moves
        marks = () if is_quick else (pytest.mark.campaign,)
        yield pytest.param(move, commit, marks=marks, id=f"{_name(commit)}-{_name(move)}")


@pytest.mark.campaign
@pytest.mark.parametrize(("move", "commit"), list(_pairs()))
def test_a_note_that_was_moved_and_edited_keeps_the_authors_of_its_lines(
    make_vault: Make,
    opened: Open,
    move: Callable[[Place], str],
    commit: Callable[[Place, str], None],
) -> None:
    at = _prepare(make_vault, opened)
    path = move(at)
    before = _blame(at.open(), path)
    commit(at, path)
    vault = at.open()

    assert before == at.who
    assert _blame(vault, path) == at.who
    steps = explain_text(vault, "pier opens", 1)[0].steps
    assert sum(s.lines for s in steps if s.author == "Ann") >= 4
    assert trace_note(vault, path).versions[-1].author == "Ann"
    assert git(at.root, "log", "--follow", "-M", "--format=%an", "--", path).endswith("Ann")
    assert not set(find_pending(vault).files) & {path, "pier.md"}


def _log(root: Path, count: int) -> list[str]:
    """Return author, subject and changed files of the last commits, oldest first."""
    shown = git(
        root, "log", "--reverse", f"-{count}", "--name-status", "-M", "--format=%x00%an: %s"
    )
    return [" ".join(each.split()) for each in shown.split("\0")[1:]]


@pytest.mark.campaign
def test_a_persons_tag_leaves_an_agents_words_to_it_where_the_person_moved_them(
    make_vault: Make, opened: Open
) -> None:
    at = _prepare(make_vault, opened)
    path = _agent_edits_and_person_moves(at)

    change_tags(at.open(), PurePosixPath(path), ("tide",), ())
    save_checkpoint(at.open(), "all")

    blamed = _blame(at.open(), path)
    assert {text: blamed[text] for text in at.who} == at.who


def test_a_living_sessions_move_is_committed_whole_with_a_persons_edit_of_it(
    make_vault: Make, opened: Open
) -> None:
    at = _prepare(make_vault, opened)
    codex = at.open("codex", "s-1")
    start_session(codex, NewSession(id="s-1", pid=os.getpid()), pick_up=False)
    rename_note(codex, "pier", "quay.md")
    at.edit_by_hand("quay.md", *FIVE)

    save_checkpoint(at.open("bot"), "mine")

    assert _blame(at.open(), "quay.md") == at.who
    assert "codex: write: quay R100 pier.md quay.md" in _log(at.root, 3)


def test_a_removal_with_a_reason_keeps_its_commit_where_the_text_is_elsewhere_now(
    make_vault: Make, opened: Open
) -> None:
    at = _prepare(make_vault, opened)
    vault = at.open("codex")
    path = remember(vault, Memory((at.root / "pier.md").read_text().partition("---\n# ")[2])).path
    with (at.root / path).open("a") as file:
        file.write("Ring the bell.\n")

    forget_notes(vault, select_notes(at.open("codex"), ["pier"]).notes, "said elsewhere")

    assert _log(at.root, 1) == ["codex: forget: pier D pier.md"]


def test_what_a_person_removed_is_not_moved_by_an_agent_that_says_it_again(
    make_vault: Make, opened: Open
) -> None:
    at = _prepare(make_vault, opened)
    text = (at.root / "pier.md").read_text().partition("---\n# ")[2]
    (at.root / "pier.md").unlink()
    path = remember(at.open("codex"), Memory(text, title="Pier")).path

    save_checkpoint(at.open(), "all")

    shown = _log(at.root, 3)
    assert any(each.startswith(MAREN) and each.endswith("D pier.md") for each in shown)
    assert any(each.startswith("codex") and each.endswith(f"A {path}") for each in shown)


@pytest.mark.campaign
def test_notes_that_are_moved_together_each_keep_their_authors(
    make_vault: Make, opened: Open
) -> None:
    at = _prepare(make_vault, opened)
    texts = {f"log/{n}.md": f"## Log\n\nShip number {n} came in at noon.\n" for n in range(9)}
    write_notes(at.root, texts)
    git(at.root, "add", "--all")
    git(at.root, "commit", "-q", "-m", "log", "--author", "Ann <ann@example.org>")
    for path in texts:
        at.move("codex", path, f"old/{Path(path).name}")
        with (at.root / f"old/{Path(path).name}").open("a") as file:
            file.write("\nIt left at six.\n")

    save_checkpoint(at.open(), "all")

    for path, text in texts.items():
        lines = blame_note(at.open(), f"old/{Path(path).name}").lines
        assert {line.author for line in lines if line.text in text.splitlines()[::2]} == {"Ann"}
