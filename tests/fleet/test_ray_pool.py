"""A fleet on a cluster of three machines, all of them here: what is lost comes back by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from remotes import git, list_pushed, make_remotes, push_note
from works import (
    list_notes,
    read_slowly,
    remember_ferry,
    tell_machine,
    tell_process,
    write_and_die,
    write_note,
)

from vaultmem.errors import LockTimeoutError, NoteNotFoundError, VaultError
from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.clones import TIMEOUT_REASON
from vaultmem.services.fleet.pool import LocalPool
from vaultmem.services.search.run_query import Query

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]

NAMES = [f"agent-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the remotes of the fleet's vaults."""
    folder = tmp_path_factory.mktemp("fleet")
    make_remotes(folder, NAMES)
    return folder


@pytest.fixture(scope="module")
def sources(place: Path) -> list[VaultSource]:
    return [VaultSource(name, str(place / f"{name}.git")) for name in NAMES]


@pytest.fixture(scope="module")
def pool(cluster: Any, place: Path, sources: list[VaultSource]) -> Iterator[Any]:
    from vaultmem.ray_fleet.ray_pool import start_fleet

    made = start_fleet(cluster.address, sources, str(place / "clones/{node}"), fresh_for=0.5)
    assert not made.refresh().missing
    yield made
    made.stop()
    made.close()


def wait_for(is_so: Callable[[], bool], seconds: float) -> float:
    """Wait until something is so; return for how many seconds that was."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return time.monotonic() - began


def answers(pool: Any) -> bool:
    return not pool.each(None, list_notes, seconds=20).missing


def keep_writing(pool: Any, name: str, end: float) -> tuple[list[str], int]:
    """Write notes until a time; return those that were acknowledged, and how many may be there."""
    written, unknown = [], 0
    for number in count():
        if time.monotonic() > end:
            break
        try:
            pool.write(name, partial(write_note, name=f"w-{number}"), {"agent": "bot"}).result(60)
            written.append(f"w-{number}")
        except VaultError as error:
            unknown += "may be written or not" in str(error)
            time.sleep(0.5)
    return written, unknown


def test_each_vault_answers_where_it_is_and_as_in_one_process(
    pool: Any, sources: list[VaultSource], tmp_path: Path
) -> None:
    local = LocalPool(sources, tmp_path)
    assert pool.each(None, list_notes) == local.each(None, list_notes)
    assert len(set(pool.each(None, tell_process).results.values())) == 3
    for question in ("agent-3 berth", "berth moors", "peir", "nothing of that"):
        asked = Query(question, counts=False)
        ours, theirs = pool.recall(None, asked), local.recall(None, asked)
        shown = [(hit.vault, hit.address, hit.score) for hit in ours.answer.hits]
        assert shown == [(hit.vault, hit.address, hit.score) for hit in theirs.answer.hits]
        assert ours.missing == theirs.missing == {}
    local.close()
    with pytest.raises(NoteNotFoundError):
        pool.run("nobody", list_notes)


def test_what_is_written_is_in_the_remote_and_read_at_once(
    pool: Any, sources: list[VaultSource]
) -> None:
    path = pool.write(NAMES[1], remember_ferry, {"agent": "claude"}).result(60)
    assert Path(path).stem in list_pushed(sources[1])
    assert Path(path).stem in pool.run(NAMES[1], list_notes).result(30)
    log = git("log", "-1", "--format=%an", cwd=Path(sources[1].remote))
    assert log.strip() == "claude"


def test_what_others_push_is_seen_when_its_vault_is_asked(pool: Any, place: Path) -> None:
    push_note(place, NAMES[2], "pushed", "# Pushed\n\nFrom elsewhere.\n")
    wait_for(lambda: "pushed" in pool.run(NAMES[2], list_notes).result(30), 20)


def test_a_late_vault_is_named_and_the_rest_answers(pool: Any) -> None:
    assert set(pool.each(NAMES[:2], read_slowly, seconds=0.1).missing.values()) == {TIMEOUT_REASON}
    assert answers(pool)


def test_a_second_process_finds_the_same_fleet(pool: Any, cluster: Any) -> None:
    words = [sys.executable, "-m", "vaultmem", "fleet", "status", f"ray:{cluster.address}"]
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    status = json.loads(done.stdout)
    assert (status["vaults"], status["ready"], len(status["nodes"])) == (12, 12, 3)
    assert all(each["memory"] > 2**24 and each["free"] for each in status["nodes"])
    assert answers(pool)  # It left the fleet as it was.


def test_what_a_killed_process_was_asked_is_answered_by_the_next(pool: Any) -> None:
    before = pool.run(NAMES[0], tell_process).result(30)
    asked = pool.run(NAMES[0], read_slowly)
    time.sleep(0.3)
    os.kill(before, signal.SIGKILL)
    assert asked.result(60) != before


def test_of_a_write_that_died_it_is_said_that_nobody_knows_and_it_is_not_tried_again(
    pool: Any, sources: list[VaultSource]
) -> None:
    before = list_pushed(sources[3])
    with pytest.raises(LockTimeoutError, match="it may be written or not"):
        pool.write(NAMES[3], write_and_die).result(60)
    wait_for(lambda: answers(pool), 60)
    assert "half" not in pool.run(NAMES[3], list_notes).result(60)
    assert list_pushed(sources[3]) == before
    pool.write(NAMES[3], write_note).result(60)
    assert list_pushed(sources[3]) == {*before, "whole"}


def test_a_killed_machines_vaults_come_back_by_themselves_and_nothing_is_lost(
    pool: Any, cluster: Any, place: Path, sources: list[VaultSource]
) -> None:
    homes = pool.each(None, tell_machine).results
    machine = next(each for each in cluster.worker_nodes if each.node_id in homes.values())
    its = [name for name in NAMES if homes[name] == machine.node_id]
    processes = {pool.run(name, tell_process).result(30) for name in its}
    writing = ThreadPoolExecutor(10)
    ends = time.monotonic() + 12
    writers = [writing.submit(keep_writing, pool, name, ends) for name in NAMES[:10]]
    time.sleep(1.0)

    began = time.monotonic()
    cluster.remove_node(machine, allow_graceful=False)
    for each in processes:
        os.kill(each, signal.SIGKILL)
    for number in range(10):
        push_note(place, NAMES[number], f"meanwhile-{number}", "# Meanwhile\n\nOf oak.\n")
    wait_for(lambda: answers(pool), 90)
    print(f"\nall of {len(its)} vaults answer {time.monotonic() - began:.1f} s after the kill")

    unknown = 0
    for number, writer in enumerate(writers):
        written, left = writer.result()
        unknown += left
        there = list_pushed(sources[number])
        assert {f"meanwhile-{number}", *written} <= there
        seen = pool.run(NAMES[number], list_notes).result(60)
        assert {f"meanwhile-{number}", *written} <= set(seen)
    total = sum(len(each.result()[0]) for each in writers)
    print(f"{total} writes were acknowledged meanwhile and are there; of {unknown} nobody knows")
    cluster.add_node(num_cpus=1)


def test_a_vault_that_cannot_be_had_is_named_with_why(
    pool: Any, cluster: Any, place: Path, sources: list[VaultSource]
) -> None:
    """The fleet is another by then, which the pool learns when its nodes do not answer."""
    from vaultmem.ray_fleet.ray_pool import start_fleet

    gone = VaultSource("gone", str(place / "gone.git"))
    start_fleet(cluster.address, [*sources, gone], str(place / "clones/{node}"))
    assert set(pool.each(NAMES[:1], list_notes).missing) <= {NAMES[0]}
    each = pool.each(["gone", NAMES[0]], list_notes, seconds=10)
    assert each.results.keys() == {NAMES[0]}, each
    assert "gone.git" in each.missing["gone"]
    with pytest.raises(VaultError, match=r"gone\.git"):
        pool.run("gone", list_notes).result(30)
