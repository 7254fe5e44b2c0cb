"""One command of each module in a process that starts from nothing: what it needs is imported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import RunCli
from support import git, write_notes

from vaultmem.cli.app import HOMES, find_homes

#: By module; those that are not here are started from nothing by tests of their own.
COMMANDS = [
    ("vaults", ["trust"]),
    ("notes", ["get", "a"]),
    ("changing", ["pin", "a"]),
    ("finding", ["pack", "gangway"]),
    ("committing", ["promote", "c"]),
    ("history", ["diff"]),
    ("provenance", ["why", "gangway"]),
    ("similarity", ["similar", "a"]),
    ("lifecycle", ["state", "a", "stale"]),
    ("upkeep", ["dream"]),
    ("links", ["mv", "notes/a.md", "notes/b.md"]),
    ("priming", ["primed"]),
    ("economics", ["stats"]),
    ("tasks", ["family"]),
    ("branches", ["branches"]),
    ("judging", ["assert", "gangway", "--says", "blue"]),
    ("judging", ["receipts"]),
    ("health", ["status"]),
    ("agents", ["connect", "--status"]),
    ("agents", ["hook", "--help"]),
]
COMMITTING = {"committing", "lifecycle"}
ELSEWHERE = {"embedding", "sessions", "watching", "merge_driver"}


def test_every_module_is_started_somewhere() -> None:
    assert {home for home, _ in COMMANDS} | ELSEWHERE == set(HOMES)
    assert all(find_homes(line[0]) == (home,) for home, line in COMMANDS)


@pytest.mark.parametrize(("home", "line"), COMMANDS)
def test_a_command_of_each_module_starts_from_nothing(
    make_vault: Callable[..., Path], start_cli: RunCli, home: str, line: list[str]
) -> None:
    root = make_vault({"notes/a.md": "# A\n\nThe gangway is blue. [[c]]\n"})
    write_notes(root, {"notes/c.md": "---\nstate: candidate\n---\n# C\n\nMoor at the pier.\n"})

    done = start_cli(*line, cwd=root)

    assert done.code == 0, done
    assert (git(root, "log", "-1", "--format=%s") != "notes") == (home in COMMITTING)
