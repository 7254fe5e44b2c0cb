"""`sync_vault`: the index equals the folder, whatever happened in between."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from conftest import Make, Open
from support import hash_tree, write_notes

from vaultmem.cli.output import ProgressLine, following
from vaultmem.core.search.query import parse_query
from vaultmem.core.search.terms import count_terms
from vaultmem.errors import SystemFailureError
from vaultmem.services.search.recall import recall
from vaultmem.services.views import update_index
from vaultmem.services.views.update_index import sync_paths, sync_vault, update_index_nonblocking
from vaultmem.vault import Vault


def _hits(vault: Vault, query: str) -> list[tuple[str, str, float]]:
    sync_vault(vault)
    found = recall(vault, parse_query(query, limit=100))
    return [(hit.record.path, hit.section.heading, round(hit.score, 4)) for hit in found]


def _paths(vault: Vault, query: str) -> list[str]:
    return [path for path, _, _ in _hits(vault, query)]


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files}


def _settled(vault: Vault) -> Vault:
    """Return the vault after a sync that finds every file old enough to be believed."""

    def young() -> bool:
        sync_vault(vault)
        return any(0 in stat[2:] for stat in vault.manifest.stats().values())

    for _ in range(200):
        if not young():
            return vault
        os.sched_yield()
        subprocess.run(["sleep", "0.02"], check=True)
    raise AssertionError("the manifest never settled")


def test_an_unchanged_vault_is_not_written_to(make_vault: Make, opened: Open) -> None:
    root = make_vault({f"notes/n{n}.md": f"gangway {n}\n" for n in range(5)})
    _settled(opened(root)).close()
    vault = opened(root)
    before, files = _stamps(vault.state_folder), hash_tree(root)

    report = sync_vault(vault)
    vault.close()

    assert report.read == report.added == report.changed == report.removed == 0
    assert _stamps(vault.state_folder) == before
    assert hash_tree(root) == files


def test_an_edit_of_the_same_size_and_time_is_noticed(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "gangway\n"})
    vault = _settled(opened(root))
    old = (root / "notes/a.md").stat()

    (root / "notes/a.md").write_text("mooring\n")
    os.utime(root / "notes/a.md", ns=(old.st_atime_ns, old.st_mtime_ns))
    new = (root / "notes/a.md").stat()

    assert (new.st_size, new.st_mtime_ns) == (old.st_size, old.st_mtime_ns)
    assert _paths(vault, "mooring") == ["notes/a.md"]
    assert _paths(vault, "gangway") == []


def test_an_edit_right_after_a_sync_is_noticed(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    vault = opened(root)
    file = root / "notes/a.md"
    file.parent.mkdir(exist_ok=True)
    for number in range(30):
        file.write_text(f"word{number:02}\n")
        assert _paths(vault, f"word{number:02}") == ["notes/a.md"]


def test_a_rename_indexes_one_file_again(make_vault: Make, opened: Open) -> None:
    names = [f"notes/n{n}.md" for n in range(20)]
    root = make_vault({name: f"gangway {name}\n" for name in names})
    vault = _settled(opened(root))

    (root / "notes/n7.md").rename(root / "notes/moved.md")
    report = sync_vault(vault)

    assert (report.read, report.added, report.changed, report.removed) == (1, 1, 0, 1)
    assert "notes/moved.md" in _paths(vault, "gangway")
    assert "notes/n7.md" not in _paths(vault, "gangway")


def test_a_touched_but_unchanged_note_keeps_its_document(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "gangway\n"})
    vault = _settled(opened(root))
    before = vault.manifest.files()["notes/a.md"].document
    stamp = vault.index.stamp()

    os.utime(root / "notes/a.md")
    sync_vault(vault)

    assert vault.manifest.files()["notes/a.md"].document == before
    assert vault.index.stamp() == stamp


def test_a_removed_note_and_a_removed_folder_are_gone(make_vault: Make, opened: Open) -> None:
    root = make_vault({f"notes/{n}/a.md": "gangway\n" for n in "abc"})
    vault = opened(root)
    assert len(_paths(vault, "gangway")) == 3

    (root / "notes/a/a.md").unlink()
    shutil.rmtree(root / "notes/b")

    assert _paths(vault, "gangway") == ["notes/c/a.md"]


@pytest.mark.parametrize("kind", ["link", "folder", "large"])
def test_a_note_that_becomes_something_else_is_gone(
    make_vault: Make, opened: Open, kind: str
) -> None:
    root = make_vault({"notes/a.md": "gangway\n", "notes/b.md": "gangway\n"})
    vault = opened(root)
    assert _paths(vault, "gangway") == ["notes/a.md", "notes/b.md"]
    before = len(vault.manifest.documents())
    note = root / "notes/a.md"
    note.unlink()
    if kind == "link":
        note.symlink_to("b.md")
    elif kind == "folder":
        note.mkdir()
    else:
        note.write_bytes(b"gangway " * 200_000)

    report = sync_vault(opened(root))

    assert report.removed == 1
    assert _paths(vault, "gangway") == ["notes/b.md"]
    assert len(vault.manifest.documents()) == before - 1
    assert [path for path, _ in vault.manifest.problems()] == ["notes/a.md"] * (kind != "folder")
    assert sync_vault(opened(root)).removed == 0


@pytest.mark.campaign
def test_many_random_changes_leave_the_index_of_a_fresh_state(
    make_vault: Make, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault()
    chance = random.Random(3)
    words = ["gangway", "ferry", "mooring", "crew", "timetable", "holm"]
    vault = opened(root)
    for _ in range(25):
        for _ in range(chance.randrange(1, 6)):
            path = f"notes/{chance.choice('ab')}/n{chance.randrange(12)}.md"
            if chance.random() < 0.3 and (root / path).exists():
                (root / path).unlink()
            else:
                parts = [f"# {w}\n\n{' '.join(chance.choices(words, k=9))}\n" for w in words[:3]]
                write_notes(root, {path: "\n".join(parts)})
        sync_vault(vault)
    answers = [_hits(vault, query) for query in [*words, "crew timetable"]]

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "fresh"))

    assert [_hits(opened(root), query) for query in [*words, "crew timetable"]] == answers
    assert any(answers)


def test_the_numbers_of_the_index_are_those_of_a_count_by_hand(
    make_vault: Make, opened: Open
) -> None:
    texts = {
        f"notes/n{n}.md": f"ferry {'gangway ' * (n % 4)}" + ("mooring" if n % 3 else "")
        for n in range(40)
    }
    vault = opened(make_vault(texts))
    sync_vault(vault)
    paths = {record.document: record.path for record in vault.view.records()}
    snapshot = vault.index.snapshot()

    for word in ("ferri", "gangway", "moor"):
        rows, codes = snapshot.term(word)
        documents, counts = snapshot.column("document")[rows], snapshot.counts[codes, 2]
        found = {
            paths[int(d)]: int(c)
            for d, c in zip(documents, counts, strict=True)
            if c and paths[int(d)].startswith("notes/n")
        }
        by_hand = {path: count_terms(text).get(word, 0) for path, text in texts.items()}
        assert found == {path: count for path, count in by_hand.items() if count}


@pytest.mark.campaign
def test_two_processes_that_sync_at_once_leave_one_right_index(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault()
    for number in range(4):
        write_notes(root, {f"notes/n{n}.md": f"gangway {number} {n}\n" for n in range(120)})
        command = [sys.executable, "-m", "vaultmem", "index", "--vault", str(root)]
        running = [
            subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for process in running:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err.decode()
    vault = opened(root)

    assert len(set(_paths(vault, "gangway"))) == 100  # The limit that was asked for.
    held = vault.index.documents()
    assert set(vault.view.documents()) <= held
    for number in range(3):
        assert _paths(vault, f"gangway {number}")[:1] != []


def test_a_sync_that_fails_in_the_middle_is_taken_up_by_the_next(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault()
    write_notes(root, {f"notes/n{n}.md": f"gangway {n}\n" for n in range(10)})
    real = os.fstat
    left = 0

    def fstat(descriptor: int) -> os.stat_result:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return real(descriptor)

    for number in range(12):
        left, vault = number, opened(root)
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr("vaultmem.storage.files.os.fstat", fstat)
            sync_vault(vault)
        vault.close()

    assert len(_paths(opened(root), "gangway")) == 10


def test_who_stops_a_long_sync_hears_what_is_kept_of_it(
    make_vault: Make,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    vault = opened(make_vault())
    sync_vault(vault)
    write_notes(vault.root, {f"notes/n{n}.md": f"gangway {n}\n" for n in range(300)})
    monkeypatch.setattr(update_index, "_FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(ProgressLine, "is_open", True)

    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), following(vault):
        sync_vault(vault, stop)

    told = capsys.readouterr().err
    # The vault's own two are among the first 200, where they are as new as their index.
    kept = vault.view.totals()[0]
    assert kept in {200, 202}
    assert told == (
        f"\nvaultmem: stopped; {kept} of 302 notes are indexed; the next command goes on\n"
    )
    assert sync_vault(vault).added == 302 - kept


def test_one_bad_note_never_stops_the_others(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/good.md": "gangway\n", "notes/bad.md": b"\xff\0 gangway"})
    vault = opened(root)

    sync_vault(vault)

    assert _paths(vault, "gangway") == ["notes/good.md"]
    assert "NUL" in dict(vault.manifest.problems())["notes/bad.md"]


def test_a_bad_note_that_is_mended_is_indexed(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/n.md": b"\0 gangway"})
    vault = opened(root)
    assert _paths(vault, "gangway") == []

    (root / "notes/n.md").write_text("gangway\n")

    assert _paths(vault, "gangway") == ["notes/n.md"]
    assert vault.manifest.problems() == []


def test_a_commit_by_somebody_else_changes_no_answer(make_vault: Make, opened: Open) -> None:
    from support import git

    root = make_vault({"notes/a.md": "gangway\n"})
    vault = opened(root)
    before = _hits(vault, "gangway")
    (root / "notes/b.md").write_text("ferry\n")
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "theirs")

    after = _hits(vault, "gangway")

    assert [path for path, _, _ in after] == [path for path, _, _ in before]
    assert vault.state.get("head") == git(root, "rev-parse", "HEAD")


def test_templates_transcripts_and_hidden_folders_are_no_notes(
    make_vault: Make, opened: Open
) -> None:
    hidden = ["templates/t.md", "transcripts/t.md", "media/m.md", ".hidden/h.md", "CONTEXT.md"]
    shown = ["build/b.md", "node_modules/n.md", "notes/templates/x.md", "notes/a.md", "b/a.md"]
    vault = opened(make_vault(dict.fromkeys([*hidden, *shown], "gangway\n")))

    assert sorted(_paths(vault, "gangway")) == sorted(shown)


def test_ignored_paths_of_the_configuration_are_passed_over(make_vault: Make, opened: Open) -> None:
    notes = {"vaultmem.yaml": "ignore: [drafts, '*.draft.md']\n"}
    notes |= dict.fromkeys(["drafts/a.md", "notes/b.draft.md", "notes/c.md"], "gangway\n")

    assert _paths(opened(make_vault(notes)), "gangway") == ["notes/c.md"]


def test_what_is_left_for_later_is_indexed_by_the_next_write_or_sync(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/one.md": "# One\n\nharbour\n"})
    vault, other = opened(root), opened(root)
    sync_vault(vault)
    before = vault.index.documents()
    vault = replace(vault, postpones_index=True)
    write_notes(root, {"notes/two.md": "# Two\n\nharbour\n"})

    sync_paths(vault, [PurePosixPath("notes/two.md")])
    assert vault.state.get("index") == ""
    assert vault.index.documents() == before

    write_notes(root, {"notes/three.md": "# Three\n\nharbour\n"})
    sync_paths(other, [PurePosixPath("notes/three.md")])
    assert _paths(other, "harbour") == ["notes/one.md", "notes/three.md", "notes/two.md"]


def test_a_disk_that_takes_no_index_is_told_to_who_writes_and_read_around(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/a.md": "alpha\n"})
    sync_vault(opened(root))
    write_notes(root, {"notes/b.md": "beta\n"})

    def fail(*_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "index")

    monkeypatch.setattr(update_index, "repair_index", fail)

    with pytest.raises(SystemFailureError, match=r"^the index is not updated: index: Read-only"):
        sync_vault(opened(root))
    vault = opened(root)
    update_index_nonblocking(vault)
    assert vault.notices.stale.startswith(
        "without what was saved since the last look: index: Read-only"
    )
