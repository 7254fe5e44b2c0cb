"""The state database, where many come at the same moment and it is not there, or damaged."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import RunCli

from vaultmem.storage.state import StateDatabase
from vaultmem.vault import open_vault

Make = Callable[..., Path]


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
            damage(tmp_path / "state.sqlite3")
            list(pool.map(come, range(many)))

            state = StateDatabase(tmp_path)
            assert state.query("SELECT count(*) FROM meta") == [(many,)]
            assert state.query("PRAGMA integrity_check") == [("ok",)]
            state.close()
    assert (tmp_path / "state.sqlite3").stat().st_mode & 0o777 == 0o600


def test_who_finds_damage_leaves_the_database_that_another_made_since(tmp_path: Path) -> None:
    late, early = StateDatabase(tmp_path), StateDatabase(tmp_path)
    late.put("word", "old")
    fill_with_junk(tmp_path / "state.sqlite3")
    early.put("word", "new")

    late._drop()

    assert StateDatabase(tmp_path).get("word") == "new"
    late.close()
    early.close()


def test_many_commands_at_once_begin_a_fresh_clone(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault({"notes/ferry.md": "# Ferry\n\nIt sails at six.\n"})
    vault = open_vault(root)
    vault.close()
    shutil.rmtree(vault.state_folder)
    commands = [("recall", "ferry"), ("remember", "Boats float."), ("status",), ("pack", "ferry")]

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda words: run_cli("--vault", root, *words), commands * 2))

    assert [each.code for each in done] == [0] * 8, [each.err for each in done]
