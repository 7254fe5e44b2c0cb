"""File events as hints: no folder goes unwatched, and it is known when all were heard."""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import wait_until
from watchdog.observers.api import BaseObserver

from vaultmem.storage import watcher
from vaultmem.storage.file_events import TreeEmitter
from vaultmem.storage.watcher import EVERYTHING, FolderWatcher

#: On which watchdog itself warns of its own races.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Begin = Callable[[], tuple[FolderWatcher, list[str]]]


@pytest.fixture
def begin(tmp_path: Path, emitter: str) -> Iterator[Begin]:
    """Return a function that watches `tmp_path`/root; the list gets what it tells."""
    running: list[FolderWatcher] = []

    def start() -> tuple[FolderWatcher, list[str]]:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        heard: list[str] = []
        ignored = {"drafts"}
        running.append(FolderWatcher(root, heard.append, lambda path: path in ignored))
        running[-1].start()
        return running[-1], heard

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def ours(emitter: str) -> None:
    """Skip what watchdog's own emitter cannot do."""
    if emitter != "ours":
        pytest.skip("watchdog's emitter loses folders, and knows neither which nor what it missed")


def expect(events: FolderWatcher, heard: list[str], *paths: str) -> None:
    """Expect that paths are told: at once by who can catch up, else in a moment."""
    if not events.catch_up():
        wait_until(lambda: set(paths) <= set(heard))
    assert set(paths) <= set(heard)


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


def count_watched(events: FolderWatcher, heard: list[str], root: Path) -> int:
    """Expect that no folder is left out; return how many there are."""
    assert events.catch_up()
    heard.clear()
    probes = [Path(folder) / "probe.md" for folder, _, _ in os.walk(root)]
    for probe in probes:
        probe.write_text("x")
    assert events.catch_up()
    assert {probe.relative_to(root).as_posix() for probe in probes} - set(heard) == set()
    return len(probes)


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.campaign
def test_no_folder_is_lost_in_a_storm_of_moves(tmp_path: Path, begin: Begin, seed: int) -> None:
    events, heard = begin()
    stir(tmp_path / "root", random.Random(seed), 300)
    count_watched(events, heard, tmp_path / "root")


@pytest.mark.long
@pytest.mark.usefixtures("ours")
def test_none_of_two_thousand_folders_is_lost(tmp_path: Path, begin: Begin) -> None:
    root = tmp_path / "root"
    events, heard = begin()
    count = 0
    for seed in range(1_000):
        stir(root, random.Random(seed), 400)
        count += count_watched(events, heard, root)
        if count >= 2_000:
            break
    assert count >= 2_000


@pytest.mark.usefixtures("ours")
def test_what_was_done_before_is_known_when_it_has_caught_up(tmp_path: Path, begin: Begin) -> None:
    events, heard = begin()
    for number in range(200):
        (tmp_path / "root" / f"n{number}.md").write_text("x")
        assert events.catch_up()
        assert heard[-1] == f"n{number}.md"


def test_what_is_hidden_is_not_told(tmp_path: Path, begin: Begin) -> None:
    root = tmp_path / "root"
    (root / ".obsidian").mkdir(parents=True)
    events, heard = begin()
    (root / ".obsidian/deep").mkdir()
    (root / ".obsidian/n.md").write_text("x")
    (root / ".n.md.swp").write_text("x")
    (root / ".checkpoint").write_text("x")
    expect(events, heard, ".checkpoint")
    assert set(heard) == {".checkpoint"}


@pytest.mark.usefixtures("ours")
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
    assert events.catch_up()
    assert heard == []


@pytest.mark.campaign
def test_an_overflow_asks_for_everything(tmp_path: Path, begin: Begin, emitter: str) -> None:
    if sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    events, heard = begin()
    root = tmp_path / "root"
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    source: Any = events._events._emitter  # type: ignore[union-attr]
    # Nothing is read meanwhile; but watchdog reads once more.
    with source._lock if emitter == "ours" else source._inotify_fd._lock:
        (root / "first.md").write_text("x")
        time.sleep(0.1)
        with open(root / "a.md", "w") as first, open(root / "b.md", "w") as second:
            for number in range(limit):
                file = (first, second)[number % 2]
                file.write("x")
                file.flush()
        (root / "new/deep").mkdir(parents=True)
    wait_until(lambda: EVERYTHING in heard)

    def is_told_now() -> bool:
        (root / "new/deep/n.md").write_text("x")
        return (events.catch_up() or emitter != "ours") and "new/deep/n.md" in heard

    if emitter == "ours":
        assert events.catch_up()
        assert is_told_now()
    else:  # It says first that events were lost, and then looks for folders.
        wait_until(is_told_now)


def test_what_sends_no_events_is_polled(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = watcher._find_remote(tmp_path)
    assert kind == ""
    monkeypatch.setattr(watcher, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(watcher, "_find_remote", lambda _: "nfs")
    events, heard = begin()
    assert "nfs does not report other machines' changes; everything is polled" in events.polling()
    assert not events.catch_up()
    events.stop()  # No event is told from now on.
    heard.clear()
    events.poll()
    assert heard == []
    (tmp_path / "root/n.md").write_text("x")
    events.poll()
    events.poll()
    assert heard == [EVERYTHING]


def test_what_is_in_a_new_folder_is_told(tmp_path: Path, begin: Begin) -> None:
    events, heard = begin()
    root = tmp_path / "root"
    (root / "deep").mkdir()
    expect(events, heard, EVERYTHING)
    (root / "deep/n.md").write_text("x")
    expect(events, heard, "deep/n.md")


@pytest.mark.parametrize("part", ["_emitter", "_first"])
def test_a_thread_that_ended_is_noticed(begin: Begin, part: str) -> None:
    events, _ = begin()
    assert events.is_healthy()
    getattr(events._events, part).stop()
    wait_until(lambda: not events.is_healthy())
    assert not events.catch_up()


def test_a_root_that_is_gone_is_noticed(tmp_path: Path, begin: Begin) -> None:
    events, _ = begin()
    os.rename(tmp_path / "root", tmp_path / "aside")
    (tmp_path / "root").mkdir()
    assert not events.is_healthy()


@pytest.mark.usefixtures("ours")
def test_what_happened_is_told_though_no_other_thread_gets_on(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is busy, others may have their turn seconds later."""
    goes_on = threading.Event()
    for kind, work in ((TreeEmitter, "queue_events"), (BaseObserver, "dispatch_events")):
        monkeypatch.setattr(kind, work, lambda *_: goes_on.wait())
    events, heard = begin()
    try:
        (tmp_path / "root/a.md").write_text("x")
        assert events.catch_up()
        assert heard[-1:] == ["a.md"]
    finally:
        goes_on.set()
