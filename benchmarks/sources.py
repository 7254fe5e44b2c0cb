"""What is indexed: a folder of somebody's notes, once or many times over, or made-up notes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from baselines import list_notes
from generate import generate_vault


class Source(NamedTuple):
    """So many copies of a folder's notes, or without a folder so many made-up notes."""

    count: int
    folder: Path | None = None


def write_source(source: Source, vault: Path) -> None:
    """Fill a new folder with the notes; the source's own folder is never changed."""
    if source.folder is None:
        generate_vault(vault, source.count)
    elif source.count == 1:
        copy_notes(source.folder, vault)
    else:
        for number in range(1, source.count + 1):
            copy = vault / f"copy-{number:02}"
            copy_notes(source.folder, copy)
            _add_words(copy, number)


def describe_source(source: Source, notes: Sequence[Path]) -> str:
    """Say what was indexed: "8,301 notes of cpp-docs, 38.8 MB, 4.7 kB on average"."""
    size = sum(note.stat().st_size for note in notes)
    of = "made-up notes" if source.folder is None else f"notes of {source.folder.resolve().name}"
    copies = f" ({source.count} copies)" if source.folder and source.count > 1 else ""
    average = size / max(len(notes), 1) / 1e3
    return f"{len(notes):,} {of}{copies}, {size / 1e6:,.1f} MB, {average:.1f} kB on average"


def copy_notes(source: Path, folder: Path) -> None:
    for note in sorted(source.rglob("*.md")):
        inside = note.relative_to(source)
        hidden = any(part.startswith(".") for part in inside.parts)
        if note.is_file() and not note.is_symlink() and not hidden:
            (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(note, folder / inside)


def _add_words(copy: Path, number: int) -> None:
    """Add a word to each note that no other note has, so that no two copies have the same bytes."""
    for place, note in enumerate(list_notes(copy)):
        with note.open("a", encoding="utf-8") as file:
            file.write(f"\ncopy{number}x{place}\n")
