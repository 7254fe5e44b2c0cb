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
from hub_serving import Team
from remotes import git, list_pushed, make_remotes, push_note
from works import (
    block,
    list_notes,
    read_slowly,
    remember_ferry,
    tell_process,
    write_and_die,
    write_note,
)

from vaultmem.errors import BusyError, NoteNotFoundError, VaultError
from vaultmem.services.pools.pool import LocalPool
from vaultmem.services.pools.source import Source

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]

NAMES = [f"agent-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the remotes of the fleet's vaults."""
    folder = tmp_path_factory.mktemp("fleet")
    make_remotes(folder, NAMES)
    return folder


@pytest.fixture(scope="module")
def sources(place: Path) -> list[Source]:
    return [Source(name, str(place / f"{name}.git")) for name in NAMES]


@pytest.fixture(scope="module")
def pool(cluster: Any, place: Path, sources: list[Source]) -> Iterator[Any]:
    from vaultmem.fleet.plan import Plan

    from vaultmem.fleet.pool import RayPool

    made = RayPool(Plan(str(place / "clones"), fresh_for=0.5), sources, cluster.address)
    settle(made)
    yield made
    made.close()


def settle(pool: Any, shards: int = 3) -> Any:
    """Wait until so many shards are there and have all vaults ready."""

    def is_settled() -> bool:
        status = pool.shards.status()
        there = [each for each in status.shards if each.state == "ready"]
        return len(there) == len(status.shards) == shards and status.ready == status.vaults

    wait_for(is_settled, 60)
    return pool.shards.wait_ready(10)


def wait_for(is_so: Callable[[], bool], seconds: float) -> float:
    """Wait until something is so; return for how many seconds that was."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return time.monotonic() - began


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


def find_shard(pool: Any, name: str) -> str:
    return str(pool.shards._table.homes[name][0])


def test_each_vault_answers_where_it_is_and_as_in_one_process(
    pool: Any, sources: list[Source], tmp_path: Path
) -> None:
    there = pool.each(None, list_notes)
    local = LocalPool(sources, tmp_path)
    assert there == local.each(None, list_notes)
    local.close()
    assert list(there.results) == NAMES
    assert len(set(pool.each(None, tell_process).results.values())) == 3
    with pytest.raises(NoteNotFoundError):
        pool.run("nobody", list_notes)


def test_what_is_written_is_in_the_remote_and_read_at_once(
    pool: Any, sources: list[Source]
) -> None:
    path = pool.write(NAMES[1], remember_ferry, {"agent": "claude"}).result(60)
    assert Path(path).stem in list_pushed(sources[1])
    assert Path(path).stem in pool.run(NAMES[1], list_notes).result(30)
    log = git("log", "-1", "--format=%an", cwd=Path(sources[1].remote))
    assert log.strip() == "claude"


def test_what_others_push_is_seen_when_its_vault_is_asked(pool: Any, place: Path) -> None:
    push_note(place, NAMES[2], "pushed", "# Pushed\n\nFrom elsewhere.\n")
    time.sleep(0.6)  # Longer than a remote counts as heard of.
    assert "pushed" in pool.run(NAMES[2], list_notes).result(30)


def test_a_late_shard_is_named_and_the_rest_answers(pool: Any, tmp_path: Path) -> None:
    shard, own = pool.engine.place(NAMES)[0]
    busy = pool.engine.submit(shard, block, 3.0, tmp_path / "begun")
    wait_for((tmp_path / "begun").exists, 20)
    each = pool.each(None, list_notes, seconds=1.0)
    assert each.missing == dict.fromkeys(own, "no answer in time")
    assert each.results.keys() == set(NAMES) - set(own)
    busy.result(30)
    assert not pool.each(None, list_notes, seconds=20.0).missing


def test_a_second_process_finds_the_same_fleet(pool: Any, cluster: Any, place: Path) -> None:
    words = [sys.executable, "-m", "vaultmem", "fleet", "status", "--address", cluster.address]
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    status = json.loads(done.stdout)
    assert (status["vaults"], status["ready"], len(status["shards"])) == (12, 12, 3)
    assert sum(each["vaults"] for each in status["shards"]) == 12
    assert all(each["memory"] > 2**24 and each["free"] for each in status["shards"])
    assert not pool.each(None, list_notes).missing  # It left the fleet as it was.


def test_what_a_killed_process_was_asked_is_answered_by_the_next(pool: Any) -> None:
    before = pool.run(NAMES[0], tell_process).result(30)
    asked = pool.run(NAMES[0], read_slowly)
    time.sleep(0.3)
    os.kill(before, signal.SIGKILL)
    began = time.monotonic()
    after = asked.result(60)
    print(f"\na killed process's read was answered after {time.monotonic() - began:.1f} s")
    assert after != before
    status = settle(pool)
    assert [each.restarts for each in status.shards if each.name == find_shard(pool, NAMES[0])] == [
        1
    ]


def test_of_a_write_that_died_it_is_said_that_nobody_knows_and_it_is_not_tried_again(
    pool: Any, sources: list[Source]
) -> None:
    before = list_pushed(sources[3])
    with pytest.raises(BusyError, match="it may be written or not"):
        pool.write(NAMES[3], write_and_die).result(60)
    settle(pool)
    assert "half" not in pool.run(NAMES[3], list_notes).result(30)
    assert list_pushed(sources[3]) == before
    pool.write(NAMES[3], write_note).result(60)
    assert list_pushed(sources[3]) == {*before, "whole"}


def test_a_write_over_http_that_meets_a_dying_shard_is_to_be_asked_again(
    pool: Any, tmp_path: Path
) -> None:
    team = Team(tmp_path, tmp_path, [])
    team.serve(pool=pool)
    try:
        with team.client(team.person("maren", own="*")) as client:
            for number in range(20):
                os.kill(pool.run(NAMES[4], tell_process).result(60), signal.SIGKILL)
                text = {"text": f"Rope {number} is of hemp."}
                done = client.post(f"/v/{NAMES[4]}/api/v1/notes", json=text)
                if done.status_code != 201:
                    break
            assert (done.status_code, done.headers["retry-after"]) == (503, "5"), done.text
            assert "its shard" in done.json()["detail"]
    finally:
        team.close()
    settle(pool)


def test_what_is_asked_often_gets_a_second_copy_on_another_machine(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = NAMES[5]
    asked = [pool.run(name, tell_process) for _ in range(100)]
    assert len({each.result(30) for each in asked}) == 1
    wait_for(lambda: pool.shards.status().copied == (name,), 20)
    wait_for(lambda: len(pool.shards._table.serving[name]) == 2, 20)
    asked = [pool.run(name, tell_process) for _ in range(100)]
    assert len({each.result(30) for each in asked}) == 2
    pool.write(name, remember_ferry).result(60)  # Read where it was written, for a while.
    assert any("ferry" in each for each in pool.run(name, list_notes).result(30))


def test_a_killed_machines_vaults_come_back_by_themselves_and_nothing_is_lost(
    pool: Any, cluster: Any, place: Path, sources: list[Source]
) -> None:
    machine = next(iter(cluster.worker_nodes))
    homes = pool.shards._table.homes
    nodes = {each.name: each.node for each in pool.shards.status().shards}
    its = [name for name in NAMES if nodes[homes[name][0]] == machine.node_id]
    other = next(name for name in NAMES if name not in its)
    processes = {pool.run(name, tell_process).result(30) for name in its}
    writing = ThreadPoolExecutor(10)
    ends = time.monotonic() + 12
    writers = [writing.submit(keep_writing, pool, name, ends) for name in NAMES[:10]]
    time.sleep(1.0)

    began = time.monotonic()
    cluster.remove_node(machine, allow_graceful=False)
    for each in processes:
        os.kill(each, signal.SIGKILL)
    late = pool.each(its, list_notes, seconds=1.0)
    assert late.results.keys() | late.missing.keys() == set(its)
    assert pool.run(other, list_notes).result(5)
    alone = pool.run(its[0], list_notes)  # Asked while nobody has it.
    for number in range(10):
        name = NAMES[number]
        push_note(place, name, f"meanwhile-{number}", "# Meanwhile\n\nThe pier is of oak.\n")
    assert alone.result(60)
    print(f"\nit was asked and answered {time.monotonic() - began:.1f} s after the kill")
    wait_for(lambda: not pool.each(None, list_notes, seconds=5).missing, 60)
    print(f"all of {len(its)} vaults answer {time.monotonic() - began:.1f} s after it")
    settle(pool, shards=2)

    unknown = 0
    for number, writer in enumerate(writers):
        written, left = writer.result()
        unknown += left
        there = list_pushed(sources[number])
        assert {f"meanwhile-{number}", *written} <= there
        seen = pool.run(NAMES[number], list_notes).result(30)
        assert {f"meanwhile-{number}", *written} <= set(seen)
    total = sum(len(each.result()[0]) for each in writers)
    print(f"{total} writes were acknowledged meanwhile and are there; of {unknown} nobody knows")

    cluster.add_node(num_cpus=1)
    settle(pool)
    assert pool.shards._table.homes.keys() == set(NAMES)
    assert not pool.each(None, list_notes).missing


def test_a_killed_keeper_finds_its_fleet_again(pool: Any, sources: list[Source]) -> None:
    import ray

    before = pool.each(None, tell_process).results
    homes = {name: find_shard(pool, name) for name in NAMES}
    ray.kill(pool.shards._keeper, no_restart=False)
    asked = pool.each(None, tell_process, seconds=5)  # Nobody needs it for an answer.
    assert asked.results == before
    settle(pool)
    wait_for(lambda: {name: find_shard(pool, name) for name in NAMES} == homes, 20)
    assert pool.each(None, tell_process).results == before


def test_a_vault_that_cannot_be_had_is_named_with_why(
    pool: Any, place: Path, sources: list[Source]
) -> None:
    from vaultmem.fleet.shards import RayShards

    more = [*sources, Source("gone", str(place / "gone.git"))]
    again = RayShards(more)  # Whoever attaches with other sources changes the fleet's.
    try:
        again.wait_ready(30)
        each = pool.each(["gone", NAMES[0]], list_notes, seconds=10)
        assert each.results.keys() == {NAMES[0]}, each
        assert "gone.git" in each.missing["gone"]
        with pytest.raises(VaultError, match=r"gone\.git"):
            pool.run("gone", list_notes).result(30)
    finally:
        again.close()
        RayShards(sources).close()
