"""Recall signals: noted down at once by any number of processes, each taken in once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vaultmem.storage.query_log import MAX_CALLS, LoggedQuery, SignalStore, append
from vaultmem.storage.session_table import add_had, log_error
from vaultmem.storage.state import StateDatabase


def call(
    at: float, query: str = "q", kind: str = "recall", session: str = "s", found: int = 1
) -> LoggedQuery:
    return LoggedQuery(at, kind, query, "claude", session, 10, 100, found)


@pytest.fixture
def store(tmp_path: Path) -> SignalStore:
    return SignalStore(StateDatabase(tmp_path), tmp_path)


def _append_many(folder: Path, start: int) -> None:
    for number in range(50):
        append(folder, call(start + number), [(f"n{start}.md", "", 1.0)])


def test_lines_of_many_processes_are_all_there_and_each_is_taken_in_once(
    tmp_path: Path, store: SignalStore
) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append_many, args=(tmp_path, n * 1_000)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(store.calls()) == 0
    kept = (tmp_path / "calls.log").read_bytes()
    store.fold()
    assert len(store.calls()) == 100
    (tmp_path / "calls.folding").write_bytes(kept)  # As a crash before the end leaves it.
    store.fold()
    store.fold()
    assert len(store.calls()) == 100
    assert {p: s.times for p, s in store.surfaced().items()} == {"n0.md": 50, "n1000.md": 50}
    assert store.accounts()[0].calls == 100


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed on this system")
@pytest.mark.parametrize(
    ("name", "add"),
    [
        ("calls.log", lambda folder: append(folder, call(1), [("n.md", "", 1.0)])),
        ("hook-trouble.jsonl", lambda folder: log_error(folder, "prompt", "it failed")),
        ("had/s", lambda folder: add_had(folder, "s", ["n"])),
    ],
)
def test_nothing_is_appended_through_a_link(
    tmp_path: Path, name: str, add: Callable[[Path], object]
) -> None:
    other = tmp_path / "of-the-user"
    other.write_text("mine\n")
    folder = tmp_path / "state"
    file = folder / name
    file.parent.mkdir(parents=True)
    file.symlink_to(other)
    assert not add(folder)
    assert other.read_text() == "mine\n"
    file.unlink()
    add(folder)
    assert file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_processes_that_take_in_at_once_take_in_each_line_once(tmp_path: Path) -> None:
    def fold(_: int) -> None:
        state = StateDatabase(tmp_path)
        SignalStore(state, tmp_path).fold()
        state.close()

    with ThreadPoolExecutor(4) as pool:
        for start in range(15):
            _append_many(tmp_path, start * 1_000)
            list(pool.map(fold, range(4)))

    assert SignalStore(StateDatabase(tmp_path), tmp_path).accounts()[0].calls == 15 * 50


def test_line_that_was_cut_off_spoils_no_other(tmp_path: Path, store: SignalStore) -> None:
    append(tmp_path, call(1), [("a.md", "H", 2.5)])
    with open(tmp_path / "calls.log", "ab") as log:
        log.write(b'["cut", 1.0, "rec\n\xff\xfe\n[]\n{}\n')
    append(tmp_path, call(2), [("a.md", "H", 1.5)])
    store.fold()
    signals = store.signals("a.md")
    assert [(s.at, s.query, s.rank, s.score, s.heading) for s in signals] == [
        (2.0, "q", 1, 1.5, "H"),
        (1.0, "q", 1, 2.5, "H"),
    ]
    assert store.surfaced()["a.md"].best == 2.5


@pytest.mark.campaign
def test_only_the_newest_calls_are_kept_and_the_sums_of_all(
    tmp_path: Path, store: SignalStore
) -> None:
    for number in range(MAX_CALLS + 30):
        append(tmp_path, call(number, found=number % 2), [("a.md", "", 1.0)])
    store.fold()
    calls = store.calls(limit=2 * MAX_CALLS)
    assert (len(calls), calls[-1].at) == (MAX_CALLS, 30.0)
    assert len(store.signals("a.md")) == MAX_CALLS
    account = store.accounts()[0]
    assert (account.calls, account.sent, account.empty) == (
        MAX_CALLS + 30,
        10 * (MAX_CALLS + 30),
        5015,
    )
    assert store.surfaced()["a.md"].times == MAX_CALLS + 30


def test_signals_move_with_a_note(tmp_path: Path, store: SignalStore) -> None:
    append(tmp_path, call(1), [("old.md", "", 1.0), ("new.md", "", 3.0)])
    store.rename("old.md", "new.md")
    assert (store.surfaced()["new.md"].times, "old.md" in store.surfaced()) == (2, False)
    assert len(store.signals("new.md")) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_takes_nothing_fails_nobody(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert append(tmp_path, call(1), []) == 0


def test_missing_folder_fails_nobody(tmp_path: Path) -> None:
    assert append(tmp_path / "nowhere", call(1), []) == 0
