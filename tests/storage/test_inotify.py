"""Our emitter says in watchdog's words what watchdog's own says."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import wait_until
from watchdog.events import (
    DirModifiedEvent,
    FileClosedNoWriteEvent,
    FileOpenedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from vaultmem.storage.file_events import TreeEmitter

Told = tuple[str, ...]


class Notes(FileSystemEventHandler):
    """Keeps the events below a folder, but for those that our emitter leaves out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.told: list[Told] = []

    def on_any_event(self, event: FileSystemEvent) -> None:
        if not isinstance(event, DirModifiedEvent | FileOpenedEvent | FileClosedNoWriteEvent):
            paths = filter(None, (event.src_path, event.dest_path))
            places = [os.path.relpath(os.fsdecode(path), self._root) for path in paths]
            self.told.append((type(event).__name__.removesuffix("Event"), *places))


@pytest.fixture(params=["ours", "watchdog's"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Notes]:
    """Return what is told of `tmp_path`/root."""
    root = tmp_path / "root"
    root.mkdir()
    found = Notes(root)
    observer = BaseObserver(TreeEmitter) if request.param == "ours" else Observer()
    observer.schedule(found, str(root), recursive=True)
    with observer:
        yield found


def make_outside(root: Path) -> None:
    (root.parent / "out").mkdir()
    (root.parent / "out/m.md").write_text("x")


Step = tuple[Callable[[Path], object], set[Told]]

STEPS: list[Step] = [
    (
        lambda root: (root / "a.md").write_text("x"),
        {("FileCreated", "a.md"), ("FileModified", "a.md"), ("FileClosed", "a.md")},
    ),
    (lambda root: os.chmod(root / "a.md", 0o600), {("FileAttrib", "a.md")}),
    (lambda root: os.rename(root / "a.md", root / "b.md"), {("FileMoved", "a.md", "b.md")}),
    (lambda root: os.mkdir(root / "d"), {("DirCreated", "d")}),
    (lambda root: os.link(root / "b.md", root / "d/n.md"), {("FileCreated", "d/n.md")}),
    (lambda root: os.chmod(root / "d", 0o700), {("DirAttrib", "d")}),
    (
        lambda root: os.rename(root / "d", root / "e"),
        {("DirMoved", "d", "e"), ("FileMoved", "d/n.md", "e/n.md")},
    ),
    (lambda root: os.rename(root / "e/n.md", root / "c.md"), {("FileMoved", "e/n.md", "c.md")}),
    (make_outside, set()),
    (
        lambda root: os.rename(root.parent / "out", root / "in"),
        {("DirCreated", "in"), ("FileCreated", "in/m.md")},
    ),
    (lambda root: os.rename(root / "in/m.md", root.parent / "m.md"), {("FileDeleted", "in/m.md")}),
    (lambda root: os.rename(root / "in", root.parent / "out"), {("DirDeleted", "in")}),
    (lambda root: os.unlink(root / "b.md"), {("FileDeleted", "b.md")}),
    (lambda root: shutil.rmtree(root / "e"), {("DirDeleted", "e")}),
]


def test_each_change_is_told_as_watchdog_tells_it(tmp_path: Path, notes: Notes) -> None:
    for step, expected in STEPS:
        notes.told.clear()
        step(tmp_path / "root")
        wait_until(lambda wanted=expected: wanted <= set(notes.told))
        assert set(notes.told) == expected


def test_a_root_that_is_removed_is_told(tmp_path: Path, notes: Notes) -> None:
    (tmp_path / "root").rmdir()
    wait_until(lambda: ("DirDeleted", ".") in notes.told)


def test_what_is_said_of_a_file_alone_is_said_of_no_other(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("x")
    found = Notes(tmp_path)
    with BaseObserver(TreeEmitter) as observer:
        observer.schedule(found, str(tmp_path / "a.md"))
        (tmp_path / "b.md").write_text("y")
        (tmp_path / "a.md").write_text("y")
        wait_until(lambda: ("FileClosed", "a.md") in found.told)
    assert {place for _, place in found.told} == {"a.md"}


def test_moves_by_many_at_once_add_up(tmp_path: Path, notes: Notes) -> None:
    """Moves into each other's names: where halves are told apart, one is gone and one is new."""
    root = tmp_path / "root"

    def move(worker: int) -> None:
        (root / f"{worker}-0.md").write_text("x")
        for number in range(50):
            os.rename(root / f"{worker}-{number}.md", root / f"{worker}-{number + 1}.md")

    workers = [threading.Thread(target=move, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    (root / "last.md").touch()
    wait_until(lambda: ("FileClosed", "last.md") in notes.told)
    there: set[str] = set()
    for what, *places in notes.told:
        there -= {places[0]} if what in {"FileMoved", "FileDeleted"} else set()
        there |= {places[-1]} if what in {"FileMoved", "FileCreated"} else set()
    assert there == {"last.md"} | {f"{worker}-50.md" for worker in range(4)}
