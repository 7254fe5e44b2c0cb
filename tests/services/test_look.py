"""Looking at a commit gives what a fresh clone checked out there would give."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem.core.search.query import NoteFilter, parse_query
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.packs.build import make_pack
from vaultmem.services.search.recall import recall
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.read_notes import get_note, list_notes
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault, open_vault

WORDS = ["gangway", "ferry", "tide", "mast", "anchor", "buoy", "rope", "sail"]
QUESTIONS = ["gangway tide", "ferry", "rope and sail anchor", "mast buoy gangway", "zebra"]


def answers(vault: Vault) -> list[Any]:
    """Return everything that a person can read of a vault, but for the names of refs."""
    found: list[Any] = [make_pack(vault, question).text for question in ("", *QUESTIONS[:2])]
    found = [text.partition("\n")[2] for text in found]
    for question in QUESTIONS:
        hits = recall(vault, parse_query(question, limit=30))
        found.append([(h.address, h.record.blob, round(h.score, 5), h.text) for h in hits])
    records = list_notes(vault, NoteFilter(any_state=True))
    found.append([(r.path, r.blob, r.title, r.state, r.tags, r.changed) for r in records])
    return found


@pytest.fixture
def fresh_answers(tmp_path: Path) -> Iterator[Callable[[Path, str], list[Any]]]:
    """Return a function that clones a vault, checks a commit out and reads everything there."""
    vaults = []

    def read(root: Path, commit: str) -> list[Any]:
        clone = tmp_path / f"clone-{len(vaults)}"
        git(root, "clone", "-q", "--no-local", str(root), str(clone))
        git(clone, "checkout", "-q", "--detach", commit)
        vaults.append(open_vault(clone))
        sync_vault(vaults[-1])
        return answers(vaults[-1])

    yield read
    for vault in vaults:
        vault.close()


def make_history(root: Path, seed: int) -> None:
    """Make twenty commits on two branches with merges: new, changed, removed, renamed notes."""
    chance = random.Random(seed)
    git(root, "branch", "side")
    for number in range(20):
        os.environ["GIT_COMMITTER_DATE"] = f"{1_700_000_000 + number * 4000} +0000"
        git(root, "checkout", "-q", chance.choice(["main", "side"]))
        for _ in range(chance.randrange(1, 4)):
            change_note(root, chance, number)
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", f"change {number}")
        if number % 7 == 6:
            git(root, "checkout", "-q", "main")
            git(root, "merge", "-q", "-X", "theirs", "--no-edit", "side", check=False)
            git(root, "add", "-A")
            git(root, "commit", "-q", "--allow-empty", "-m", "merged")
    del os.environ["GIT_COMMITTER_DATE"]
    git(root, "checkout", "-q", "main")


def change_note(root: Path, chance: random.Random, number: int) -> None:
    folder = chance.choice(["notes/a", "notes/b", "drafts"])
    path = root / f"{folder}/n{chance.randrange(8)}.md"
    text = " ".join(chance.choices(WORDS, k=12))
    state = chance.choice(["active", "stale", "archived"])
    if path.exists() and chance.random() < 0.3:
        path.unlink()
    elif path.exists() and chance.random() < 0.3:
        path.rename(path.with_name(f"renamed-{number}-{chance.random()}.md"))
    else:
        write_notes(root, {str(path): f"---\nstate: {state}\n---\n# N{number}\n\n{text}\n"})
    if chance.random() < 0.2:
        ignored = chance.choice(["drafts", "notes/b"])
        write_notes(root, {"vaultmem.yaml": f"ignore:\n  - {ignored}\nbudget: 900\n"})


@pytest.mark.parametrize(
    "seed", [pytest.param(1, marks=pytest.mark.campaign), pytest.param(2, marks=pytest.mark.long)]
)
def test_every_commit_gives_what_a_fresh_clone_gives(
    make_vault: Make, opened: Open, fresh_answers: Callable[[Path, str], list[Any]], seed: int
) -> None:
    root = make_vault({"notes/a/n1.md": "# One\n\ngangway tide\n"})
    make_history(root, seed)
    vault = opened(root)
    sync_vault(vault)
    commits = git(root, "rev-list", "--all").split()
    for commit in random.Random(seed).sample(commits, 6):
        assert answers(view_at(vault, commit)) == fresh_answers(root, commit), commit
    write_notes(root, {"notes/a/late.md": "# Late\n\ngangway not committed\n"})
    sync_vault(vault)
    commit = commits[len(commits) // 2]
    assert answers(view_at(vault, commit)) == fresh_answers(root, commit)


def test_only_what_was_never_seen_is_indexed(make_vault: Make, opened: Open) -> None:
    notes = {f"notes/n{n}.md": f"# Note {n}\n\ngangway {n}\n" for n in range(30)}
    root = make_vault(notes)
    git(root, "branch", "old")
    write_notes(root, {"notes/n3.md": "# Note 3\n\ngangway changed\n"})
    git(root, "commit", "-qam", "changed")
    vault = opened(root)
    sync_vault(vault)
    before = vault.index.documents()
    view_at(vault, "old")
    assert len(vault.index.documents() - before) == 1
    generation = vault.index.snapshot().generation
    view_at(vault, "old")
    assert vault.index.snapshot().generation == generation


def test_a_changed_file_is_read_from_git(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "# A\n\nThe gangway is blue.\n"})
    write_notes(root, {"notes/a.md": "# A\n\nThe gangway is green.\n"})
    vault = opened(root)
    sync_vault(vault)
    seen = view_at(vault, "HEAD")
    assert [hit.text for hit in recall(seen, parse_query("gangway"))] == ["The gangway is blue."]
    assert get_note(seen, "a").note.text == "# A\n\nThe gangway is blue.\n"
    assert [h.text for h in recall(vault, parse_query("gangway"))] == ["The gangway is green."]
    (root / "notes/a.md").unlink()
    sync_vault(vault)
    assert get_note(view_at(vault, "main"), "notes/a.md").note.title == "A"
    with pytest.raises(NoteNotFoundError):
        get_note(view_at(vault, "main"), "notes/b.md")


@pytest.mark.campaign
def test_a_date_is_the_last_commit_of_that_day(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "# A\n\none\n"})
    for day in (3, 5):
        write_notes(root, {"notes/a.md": f"# A\n\nday {day}\n"})
        os.environ["GIT_COMMITTER_DATE"] = f"2036-10-0{day}T12:00:00"
        git(root, "commit", "-qam", f"day {day}")
    del os.environ["GIT_COMMITTER_DATE"]
    vault = opened(root)
    sync_vault(vault)
    for when, text in (
        ("2036-10-05", "day 5"),
        ("2036-10-05T11:59", "day 3"),
        ("2036-10-04", "day 3"),
        ("2036-10-03", "day 3"),
        ("2036-10-03T11:00", "one"),
    ):
        assert get_note(view_at(vault, when), "a").note.body == f"# A\n\n{text}\n", when
    for early in ("2001-01-01", "1973-03-02", "1970-01-01", "1969-12-31"):
        with pytest.raises(NoteNotFoundError, match="no commit is that old"):
            view_at(vault, early)
    for ambiguous in ("10/11/2026", "2026/10/11", "1-2-2026", "11.10.2026", "2026-1-2"):
        with pytest.raises(RefusedError, match="ambiguous day"):
            view_at(vault, ambiguous)
    with pytest.raises(RefusedError, match="no such time"):
        view_at(vault, "2026-13-45")
    git(root, "tag", "2036-10-05")
    with pytest.raises(RefusedError, match="is a date and the name of a branch or tag"):
        view_at(vault, "2036-10-05")


@pytest.mark.parametrize(
    "name",
    [
        *("-x", "--all", "", " ", "a\nb", "no such", "HEAD:notes", "x" * 999),
        *("HEAD~1..HEAD", "HEAD~1...HEAD", "HEAD@{1}..main", "^HEAD", "HEAD^!", "HEAD^{tree}"),
    ],
)
def test_a_name_of_nothing_is_refused(make_vault: Make, opened: Open, name: str) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    git(root, "commit", "-q", "--allow-empty", "-m", "Fix a..b")
    vault = opened(root)
    sync_vault(vault)
    with pytest.raises(VaultError):
        vault.history.refs.resolve(name)
    head = vault.history.refs.resolve("HEAD").commit
    assert vault.history.refs.resolve("HEAD^{/a..b}").commit == head


def test_several_refs_together_name_what_holds_each_hit(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "# A\n\ngangway\n", "notes/b.md": "# B\n\ngangway lamp\n"})
    git(root, "checkout", "-q", "-b", "side")
    write_notes(root, {"notes/a.md": "# A\n\ngangway of the side\n"})
    git(root, "commit", "-qam", "side")
    git(root, "checkout", "-q", "main")
    write_notes(root, {"notes/c.md": "# C\n\ngangway, not committed\n"})
    vault = opened(root)
    sync_vault(vault)
    both = view_at(vault, "", ["side"])
    found = {(h.record.path, h.text): h.refs for h in recall(both, parse_query("gangway"))}
    assert found == {
        ("notes/a.md", "gangway"): ("main",),
        ("notes/a.md", "gangway of the side"): ("side",),
        ("notes/b.md", "gangway lamp"): ("main", "side"),
        ("notes/c.md", "gangway, not committed"): ("main",),
    }
    assert "on main, side" in make_pack(both, "gangway").text
    assert all(not hit.refs for hit in recall(vault, parse_query("gangway")))


def test_a_view_outlives_a_lost_index_and_a_lost_database(make_vault: Make, opened: Open) -> None:
    root = make_vault({f"notes/n{n}.md": f"# N{n}\n\ngangway {n}\n" for n in range(5)})
    write_notes(root, {f"notes/n{n}.md": f"# N{n}\n\nmast {n}\n" for n in range(5)})
    vault = opened(root)
    sync_vault(vault)
    expected = answers(view_at(vault, "HEAD"))
    vault.index.reset()
    sync_vault(vault)
    assert answers(view_at(vault, "HEAD")) == expected
    vault.close()
    for file in vault.state_folder.glob("state*.sqlite3*"):
        file.unlink()
    again = opened(root)
    sync_vault(again)
    assert answers(view_at(again, "HEAD")) == expected


@pytest.mark.campaign
def test_views_that_are_not_used_any_more_go_with_their_documents(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.storage.views.MAX_ROWS", 12)
    root = make_vault({"notes/a.md": "# A\n\ngangway\n"})
    vault = opened(root)
    for number in range(8):
        write_notes(root, {"notes/a.md": f"# A\n\ngangway {number}\n"})
        git(root, "commit", "-qam", f"{number}")
        sync_vault(vault)
        view_at(vault, "HEAD~1")
    assert len(vault.manifest.documents()) < 9
    hits = recall(view_at(vault, "HEAD~5"), parse_query("gangway"))
    assert [hit.text for hit in hits] == ["gangway 2"]


def test_many_that_look_at_a_commit_at_once_all_see_it(make_vault: Make) -> None:
    root = make_vault({f"notes/n{number}.md": f"# Ferry {number}\n" for number in range(30)})
    git(root, "commit", "-q", "--allow-empty", "-m", "empty")
    many = 4
    gate = threading.Barrier(many)

    def look(_: int) -> int:
        vault = open_vault(root)
        sync_vault(vault)
        gate.wait()
        found = len(list_notes(view_at(vault, "HEAD~1"), NoteFilter()))
        vault.close()
        return found

    with ThreadPoolExecutor(many) as pool:
        assert len(set(pool.map(look, range(many)))) == 1
