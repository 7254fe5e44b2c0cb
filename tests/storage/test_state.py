"""The state database, where many come at the same moment and it is not there, or damaged."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Make, RunCli

from vaultmem.errors import DamagedError
from vaultmem.storage.state import StateDatabase
from vaultmem.vault import open_vault


def take_away(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def fill_with_junk(file: Path) -> None:
    take_away(file)
    file.write_bytes(b"junk" * 3_000)


def cut_off(file: Path) -> None:
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    os.truncate(file, file.stat().st_size // 2 + 100)


@pytest.mark.parametrize("damage", [take_away, fill_with_junk, cut_off])
def test_all_who_come_at_once_have_one_whole_database(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    many = 6
    state = StateDatabase(tmp_path)
    state.put("word", "old")
    state.close()
    gate = threading.Barrier(many)

    def come(number: int) -> None:
        state = StateDatabase(tmp_path)
        gate.wait()
        state.put(f"word {number}", "new")
        state.close()

    with ThreadPoolExecutor(many) as pool:
        for _ in range(10):
            damage(StateDatabase(tmp_path).path)
            list(pool.map(come, range(many)))

            state = StateDatabase(tmp_path)
            assert state.query("SELECT count(*) FROM meta") == [(many,)]
            assert state.query("PRAGMA integrity_check") == [("ok",)]
            state.close()
    assert state.path.stat().st_mode & 0o777 == 0o600


def test_who_is_connected_to_a_damaged_database_goes_on_with_the_new_one(tmp_path: Path) -> None:
    late, early = StateDatabase(tmp_path), StateDatabase(tmp_path)
    late.put("word", "old")
    fill_with_junk(late.path)
    early.put("word", "new")

    with pytest.raises(DamagedError):
        late.get("word")

    assert late.get("word") == "new"
    late.put("other", "written")
    late.close()
    early.close()
    state = StateDatabase(tmp_path)
    assert (state.get("word"), state.get("other")) == ("new", "written")
    state.close()


def test_who_closes_a_database_that_was_set_aside_takes_nothing_of_the_new_one(
    tmp_path: Path,
) -> None:
    late, early = StateDatabase(tmp_path), StateDatabase(tmp_path)
    late.put("word", "old")
    fill_with_junk(late.path)
    for number in range(50):
        early.put(f"word {number}", "new")

    late.close()  # SQLite removes the log that has the name of its database's.

    early.put("word", "new")
    assert StateDatabase(tmp_path).query("SELECT count(*) FROM meta") == [(51,)]
    early.close()
    state = StateDatabase(tmp_path)
    assert state.query("SELECT count(*) FROM meta") == [(51,)]
    assert state.query("PRAGMA integrity_check") == [("ok",)]
    state.close()


@pytest.mark.parametrize("where", ["between", "in a transaction"])
@pytest.mark.parametrize("harm", ["cut", "empty", "zero", "junk", "removed", "log cut", "log zero"])
def test_damage_under_a_connection_is_told_and_over_at_the_next_use(
    tmp_path: Path, harm: str, where: str
) -> None:
    state = StateDatabase(tmp_path)
    with state.transaction():
        for number in range(2_000):
            state.put(f"word {number}", "x" * 100)
    state.query("PRAGMA wal_checkpoint(TRUNCATE)")
    state.put("word", "last")
    state.query("PRAGMA cache_size = 1")
    harm_open(state.path, harm)

    def use() -> None:
        with state.transaction() if where != "between" else contextlib.nullcontext():
            state.query("SELECT sum(length(value)), count(*) FROM meta")
            state.put("word", "new")
            assert state.query("PRAGMA integrity_check") == [("ok",)]

    with contextlib.suppress(DamagedError):
        use()
    with contextlib.suppress(DamagedError):
        use()
    use()
    state.close()
    other = StateDatabase(tmp_path)
    assert other.get("word") == "new"
    other.close()


def harm_open(file: Path, harm: str) -> None:
    if harm.startswith("log"):
        file = file.with_name(f"{file.name}-wal")
    size = file.stat().st_size
    if harm == "removed":
        file.unlink()
    elif "cut" in harm:
        os.truncate(file, size // 2)
    elif harm == "empty":
        os.truncate(file, 0)
    else:
        with file.open("r+b") as stream:
            stream.write((b"junk" if harm == "junk" else bytes(4)) * (size // 4))


def test_databases_do_not_pile_up(tmp_path: Path) -> None:
    for number in range(3):
        state = StateDatabase(tmp_path)
        state.put("word", str(number))
        state.close()
        (tmp_path / f"state-{number:016}.sqlite3").write_bytes(b"of a process that was killed")
        fill_with_junk(state.path)

    state = StateDatabase(tmp_path)
    assert state.get("word") == ""
    assert state.path.exists()
    names = {file.name for file in tmp_path.glob("state*.sqlite3*")}
    used = {f"{state.path.name}{ending}" for ending in ("", "-wal", "-shm")}
    assert names - used == {"state.sqlite3.damaged"}
    state.close()


@pytest.mark.parametrize("text", [None, b"", b"\xff\xfe", b"state-nowhere", b"../state"])
def test_a_pointer_that_is_lost_or_damaged_loses_no_database(
    tmp_path: Path, text: bytes | None
) -> None:
    state = StateDatabase(tmp_path)
    state.put("word", "kept")
    state.close()
    pointer = tmp_path / "state"
    pointer.unlink() if text is None else pointer.write_bytes(text)

    state = StateDatabase(tmp_path)
    assert state.get("word") == "kept"
    state.close()


@pytest.mark.campaign
def test_many_commands_at_once_begin_a_fresh_clone(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault({"notes/ferry.md": "# Ferry\n\nIt sails at six.\n"})
    vault = open_vault(root)
    vault.close()
    shutil.rmtree(vault.state_folder)
    commands = [("recall", "ferry"), ("remember", "Boats float."), ("status",), ("pack", "ferry")]

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda words: run_cli("--vault", root, *words), commands * 2))

    assert [each.code for each in done] == [0] * 8, [each.err for each in done]
