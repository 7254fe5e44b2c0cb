"""Rows on history: recall at an old commit, bisect, and the git part of a commit."""

from __future__ import annotations

import contextlib
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from baselines import commit_all, list_notes
from indexing import Bench, append_line
from measure import Row, compare, find_command, run_command

#: A fact that turns wrong in the middle of history.
_FACT = "notes/harbour-gate.md"


def measure_history(bench: Bench, commits: int) -> list[Row]:
    """Add commits that each change three notes, and ask about old ones, as whole processes."""
    _add_commits(bench.vault, commits)
    command = [*find_command(), "--vault", bench.vault]
    run_command([*command, "index"])
    query = bench.queries[0].split()
    places = iter(range(commits // 3, commits, max(1, commits // 40)))
    place = [0]

    def next_place() -> None:
        place[0] = next(places)

    def recall_now() -> None:
        run_command([*command, "recall", *query])

    def recall_then() -> None:
        run_command([*command, "recall", "--at", f"HEAD~{place[0]}", *query])

    times = max(3, bench.effort.process // 2)
    first = {"vaultmem": recall_then, "the same without --at": recall_now}
    return [
        compare("recall --at, first time", first, times, prepare=next_place),
        compare("recall --at, again", first, times),
        _measure_bisect(bench, commits),
        *_measure_commit(bench),
    ]


def _measure_bisect(bench: Bench, commits: int) -> Row:
    copy = bench.scratch / "bisected"
    run_command(["git", "clone", "-q", bench.vault, copy])
    ours = [*find_command(), "--vault", bench.vault, "bisect", "--good", f"HEAD~{commits - 1}"]
    asked = ["--", "harbour gate", "--contains", "gate is blue"]

    def bisect_git() -> None:
        run_command(["git", "bisect", "start", "HEAD", f"HEAD~{commits - 1}", "--"], copy)
        run_command(["git", "bisect", "run", "grep", "-q", "blue", _FACT], copy)
        run_command(["git", "bisect", "reset"], copy)

    actions = {"vaultmem": lambda: run_command([*ours, *asked]), "git bisect run grep": bisect_git}
    row = compare(f"bisect of {commits} commits", actions, 3)
    shutil.rmtree(copy)
    return row


def _measure_commit(bench: Bench) -> list[Row]:
    """Commit what an agent wrote to one note, in a running process.

    The second row leaves out the time in which the commit brings the index up to date.
    """
    from vaultmem.services.changes.commit import save_checkpoint
    from vaultmem.services.changes.edit_notes import edit_note
    from vaultmem.services.views.read_notes import resolve_address
    from vaultmem.services.views.update_index import sync_vault
    from vaultmem.vault import open_vault

    copy = bench.scratch / "copy"
    shutil.copytree(bench.vault, copy)
    run_command(["git", "status"], copy)
    vault = open_vault(bench.vault, agent="bench")
    sync_vault(vault)
    save_checkpoint(vault, "warm-up")
    notes = iter(list_notes(bench.vault))

    def write_notes() -> None:
        note = next(notes)
        path, _ = resolve_address(vault, note.relative_to(bench.vault).as_posix())
        edit_note(vault, path, lambda old: old.text + "\nA measured line.\n")
        append_line(copy / note.relative_to(bench.vault))

    git = "git add -A && git commit"
    actions = {
        "vaultmem": lambda: save_checkpoint(vault, "measured"),
        git: lambda: commit_all(copy, "measured"),
    }
    with _timing_syncs() as syncs:
        row = compare("commit of one note", actions, bench.effort.process, prepare=write_notes)
    vault.close()
    shutil.rmtree(copy)
    whole, theirs = row.samples["vaultmem"], row.samples[git]
    rest = [all_of - sync for all_of, sync in zip(whole, syncs[-len(whole) :], strict=True)]
    figures = statistics.median(rest), git, statistics.median(theirs)
    part = Row("... without its sync", "s", *figures, {"vaultmem": rest, git: theirs})
    return [row, part]


@contextlib.contextmanager
def _timing_syncs() -> Iterator[list[float]]:
    """Give a list to which each sync before a commit adds its seconds."""
    from vaultmem.services.changes import ownership

    sync = ownership.sync_vault
    taken: list[float] = []

    def timed(*arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return sync(*arguments, **options)
        finally:
            taken.append(time.perf_counter() - started)

    ownership.sync_vault = timed
    try:
        yield taken
    finally:
        ownership.sync_vault = sync


def _add_commits(folder: Path, commits: int) -> None:
    chance = random.Random(7)
    notes = [note.relative_to(folder).as_posix() for note in list_notes(folder)]
    stream = bytearray()
    for number in range(commits):
        seconds = 2_000_000_000 + number * 3600
        stream += b"commit refs/heads/main\n"
        stream += f"committer Bench <bench@localhost> {seconds} +0000\n".encode()
        stream += _as_data(f"change {number}") + (b"" if number else b"from refs/heads/main^0\n")
        colour = "blue" if number < commits * 3 // 5 else "green"
        texts = {_FACT: f"# Harbour gate\n\nThe harbour gate is {colour}, said in {number}.\n"}
        for path in chance.sample(notes, 3):
            text = (folder / path).read_text("utf-8", errors="replace")
            texts[path] = f"{text}\nChanged in {number}.\n"
        for path, text in texts.items():
            stream += f"M 100644 inline {path}\n".encode() + _as_data(text)
    command = ["git", "fast-import", "--quiet"]
    subprocess.run(command, cwd=folder, input=stream, check=True, capture_output=True)
    run_command(["git", "reset", "-q", "--hard"], folder)


def _as_data(text: str) -> bytes:
    """Return a text as git's fast-import reads it, whatever lines are in it."""
    return b"data %d\n%s\n" % (len(text.encode()), text.encode())
