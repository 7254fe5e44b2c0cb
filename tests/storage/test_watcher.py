"""File events as hints: no folder goes unwatched, and it is known when all were heard."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import wait_until

from vaultmem.storage import watcher
from vaultmem.storage.watcher import EVERYTHING, FolderWatcher

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

Begin = Callable[..., tuple[FolderWatcher, list[str]]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that watches `tmp_path`/root; the list gets what it tells."""
    running: list[FolderWatcher] = []

    def start(native: bool = True) -> tuple[FolderWatcher, list[str]]:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        heard: list[str] = []
        ignored = {"drafts"}
        running.append(FolderWatcher(root, heard.append, lambda path: path in ignored))
        running[-1].start(native)
        return running[-1], heard

    yield start
    for each in running:
        each.stop()


def stir(root: Path, chance: random.Random, times: int) -> None:
    """Make, move and remove folders, into each other and out of the root and back."""
    names = "abcd"
    for _ in range(times):
        folders = [Path(folder) for folder, _, _ in os.walk(root)]
        folder, target = chance.choice(folders), chance.choice(folders) / chance.choice(names)
        what = chance.random()
        if what < 0.45:
            (folder / chance.choice(names) / chance.choice(names)).mkdir(
                parents=True, exist_ok=True
            )
        elif folder == root or (what < 0.7 and (target.exists() or folder in target.parents)):
            continue
        elif what < 0.7:
            os.rename(folder, target)
        elif what < 0.85:
            shutil.rmtree(folder)
        else:
            os.rename(folder, root.with_name("out"))
            os.rename(root.with_name("out"), folder)


@linux
@pytest.mark.parametrize("seed", range(5))
def test_no_folder_is_lost_in_a_storm_of_moves(tmp_path: Path, begin: Begin, seed: int) -> None:
    events, heard = begin()
    root = tmp_path / "root"
    stir(root, random.Random(seed), 300)
    assert events.catch_up()
    heard.clear()
    folders = [Path(folder) for folder, _, _ in os.walk(root)]
    for folder in folders:
        (folder / "probe.md").write_text("x")
    assert events.catch_up()
    expected = {(folder / "probe.md").relative_to(root).as_posix() for folder in folders}
    assert expected - set(heard) == set()


@linux
def test_what_was_done_before_is_known_when_it_has_caught_up(tmp_path: Path, begin: Begin) -> None:
    events, heard = begin()
    for number in range(200):
        (tmp_path / "root" / f"n{number}.md").write_text("x")
        assert events.catch_up()
        assert heard[-1] == f"n{number}.md"


@linux
def test_what_is_never_read_is_neither_watched_nor_told(tmp_path: Path, begin: Begin) -> None:
    root = tmp_path / "root"
    passed_over = ("drafts", ".git", ".obsidian", "media", "transcripts", "notes/code")
    for folder in passed_over:
        (root / folder / "deep").mkdir(parents=True)
    (root / "notes/code/.git").mkdir()
    os.symlink(tmp_path, root / "link")
    events, heard = begin()
    for folder in passed_over:
        (root / folder / "deep/n.md").write_text("x")
    (tmp_path / "outside.md").write_text("x")
    (root / ".n.md.swp").write_text("x")
    assert events.catch_up()
    assert heard == []
    (root / ".checkpoint").write_text("x")
    assert events.catch_up()
    assert set(heard) == {".checkpoint"}


@linux
def test_an_overflow_asks_for_everything(tmp_path: Path, begin: Begin) -> None:
    events, heard = begin()
    root = tmp_path / "root"
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with events._events._lock:  # Nothing is read meanwhile.
        with open(root / "a.md", "w") as first, open(root / "b.md", "w") as second:
            for number in range(limit):
                file = (first, second)[number % 2]
                file.write("x")
                file.flush()
        (root / "new/deep").mkdir(parents=True)
    wait_until(lambda: EVERYTHING in heard)
    assert events.catch_up()
    heard.clear()
    (root / "new/deep/n.md").write_text("x")
    assert events.catch_up()
    assert "new/deep/n.md" in heard


@linux
def test_what_sends_no_events_is_polled(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = watcher._find_remote(tmp_path)
    assert kind == ""
    monkeypatch.setattr(watcher, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(watcher, "_REMOTE", ("",))  # Every file system counts as such.
    events, heard = begin()
    assert "tells nothing of other machines' changes; everything is polled" in events.polling()
    assert not events.catch_up()
    events.stop()  # No event is told from now on.
    heard.clear()
    events.poll()
    assert heard == []
    (tmp_path / "root/n.md").write_text("x")
    events.poll()
    events.poll()
    assert heard == [EVERYTHING]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # watchdog warns of its own races.
def test_watchdog_serves_other_systems(tmp_path: Path, begin: Begin) -> None:
    events, heard = begin(native=False)
    root = tmp_path / "root"
    (root / "deep").mkdir()
    wait_until(lambda: EVERYTHING in heard)
    (root / "deep/n.md").write_text("x")
    (root / "deep/.n.md.swp").write_text("x")
    wait_until(lambda: "deep/n.md" in heard)
    assert not any("swp" in path for path in heard)
    assert not events.catch_up()
    assert events.is_healthy()
    for emitter in events._events._observer.emitters:
        emitter.stop()
    wait_until(lambda: not events.is_healthy())
