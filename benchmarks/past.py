"""Give a folder's notes a past: each grows, over some commits by several people, to what it is."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from baselines import list_notes
from generate import SEED
from measure import run_command

_PEOPLE = ("Maren <maren@localhost>", "Jonas <jonas@localhost>", "Ada <ada@localhost>")

#: Commits over which one note grows, at most.
_MOST = 5


def grow_history(folder: Path, commits: int) -> None:
    """Put all notes under git, in so many commits; in the last one they are what they are here."""
    chance = random.Random(SEED)
    changes: list[dict[str, bytes]] = [{} for _ in range(commits)]
    for note in list_notes(folder):
        lines = note.read_bytes().splitlines(keepends=True)
        steps = sorted(chance.sample(range(commits), chance.randint(1, min(_MOST, commits))))
        for count, number in enumerate(steps, 1):
            text = b"".join(lines[: len(lines) * count // len(steps)])
            changes[number][note.relative_to(folder).as_posix()] = text
    run_command(["git", "init", "-q", "-b", "main"], folder)
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=folder,
        input=_write_stream(changes),
        check=True,
        capture_output=True,
    )
    run_command(["git", "reset", "-q"], folder)


def _write_stream(changes: list[dict[str, bytes]]) -> bytes:
    stream = bytearray()
    for number, texts in enumerate(changes):
        who = _PEOPLE[number % len(_PEOPLE)]
        stream += b"commit refs/heads/main\n"
        stream += f"committer {who} {1_700_000_000 + number * 86_400} +0000\n".encode()
        stream += _as_data(f"change {number}".encode())
        for path, text in texts.items():
            stream += f"M 100644 inline {path}\n".encode() + _as_data(text)
    return bytes(stream)


def _as_data(text: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(text), text)
