"""Rows on whole processes: what a person or a hook waits for."""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path

from baselines import commit_all, list_notes, write_fts5_script
from finding import content_of
from indexing import Bench, append_line
from measure import Row, compare, find_command, run_command
from memory import measure_largest

_EMPTY_APP = """\
import typer

app = typer.Typer()


@app.command()
def main(name: str = "") -> None:
    '''Do nothing.'''


app()
"""


def measure_commands(bench: Bench) -> list[Row]:
    """Start recall, pack and help anew each time; files and bytecode are in the disk's cache."""
    command = find_command()
    script = bench.scratch / "empty_app.py"
    script.write_text(_EMPTY_APP, encoding="utf-8")
    query = bench.queries[0].split()
    python = "python -c pass"

    def start_python() -> None:
        run_command([sys.executable, "-c", "pass"])

    def find() -> None:
        run_command([*command, "recall", "--vault", bench.vault, *query])

    def make_pack() -> None:
        run_command([*command, "pack", "--vault", bench.vault, *query])

    def show_help() -> None:
        run_command([*command, "--help"])

    def show_empty_help() -> None:
        run_command([sys.executable, script, "--help"])

    find()
    times = bench.effort.process
    return [
        compare("vaultmem recall", {"vaultmem": find, python: start_python}, times),
        _measure_memory(bench, times),
        compare("vaultmem pack", {"vaultmem": make_pack, python: start_python}, times),
        compare("vaultmem --help", {"vaultmem": show_help, "empty Typer": show_empty_help}, times),
    ]


def _measure_memory(bench: Bench, times: int) -> Row:
    query = bench.queries[0].split()
    fts5 = "SQLite FTS5 in a script"
    commands: dict[str, list[str | Path]] = {
        "vaultmem": [*find_command(), "recall", "--vault", bench.vault, *query],
        fts5: write_fts5_script(bench.scratch, bench.database, content_of(bench.queries[0])),
    }
    samples = {
        name: [measure_largest(command) for _ in range(times)] for name, command in commands.items()
    }
    ours, theirs = (statistics.median(each) for each in samples.values())
    return Row("vaultmem recall, memory", "MB", ours, fts5, theirs, samples)


def measure_checkpoint(bench: Bench) -> list[Row]:
    """Commit one changed note, with vaultmem in the vault and with git in a copy of it."""
    copy = bench.scratch / "copy"
    shutil.copytree(bench.vault, copy)
    run_command(["git", "status"], copy)  # Git learns the times of the copied files.
    command = [*find_command(), "checkpoint", "--vault", bench.vault, "measured"]
    edited = iter(reversed(list_notes(bench.vault)))

    def edit_notes() -> None:
        note = next(edited)
        append_line(note)
        append_line(copy / note.relative_to(bench.vault))

    actions = {
        "vaultmem": lambda: run_command(command),
        "git add -A && git commit": lambda: commit_all(copy, "measured"),
    }
    edit_notes()
    run_command(command)  # What was edited before is not part of the measurement.
    commit_all(copy, "warm-up")
    row = compare("vaultmem checkpoint", actions, bench.effort.process, prepare=edit_notes)
    shutil.rmtree(copy)
    return [row]
