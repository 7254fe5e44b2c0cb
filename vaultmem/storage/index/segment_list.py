"""What the index's newest table of contents lists, in a file that is read without Whoosh."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.atomic import write_atomically

#: Whoosh's own name for a table of contents: its number is the generation.
_CONTENTS = re.compile(r"_MAIN_([0-9]+)\.toc")

_NAME = "segments.json"


class SegmentList(NamedTuple):
    """The files of a generation's segments.

    `marks` are their sizes and times (ns) as they were written; there are none where only Whoosh's
    table of contents says which files there are.
    """

    generation: int
    files: tuple[str, ...]
    marks: tuple[tuple[int, int], ...] = ()


def read_list(folder: Path, index_format: str) -> SegmentList | None:
    """Return what was written for the newest table of contents, None if it is not the same."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = map(_CONTENTS.fullmatch, os.listdir(folder))
        newest = max((int(match[1]) for match in found if match), default=-1)
        known = json.loads((folder / _NAME).read_bytes())
        if known["generation"] == newest and known["index"] == _describe(folder, newest):
            is_ours = known["index"][0] == index_format
            marks = tuple((int(size), int(time)) for size, time in known["marks"])
            return SegmentList(newest, tuple(known["files"]), marks) if is_ours else None
    return None


def write_list(folder: Path, index_format: str, listed: SegmentList) -> None:
    """Write down what a table of contents lists, and how its files are."""
    described = _describe(folder, listed.generation)
    if described[0] == index_format:
        marks = [_mark_file(folder / name) for name in listed.files]
        text = json.dumps({**listed._asdict(), "marks": marks, "index": described})
        write_atomically(folder / _NAME, text.encode(), durable=False)


def describe_files(folder: Path, listed: SegmentList) -> str:
    """Return a text that differs whenever one of the files is not the one that was written.

    Raises:
        FileNotFoundError: one is lost.
    """
    marks = ["{} {} {}".format(name, *_mark_file(folder / name)) for name in sorted(listed.files)]
    return f"{listed.generation}:{','.join(marks)}"


def _mark_file(file: Path) -> tuple[int, int]:
    """Return a file's size and the time of its last change (ns)."""
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


def folder_time(folder: Path) -> int:
    """Return when a file last came into a folder or went (ns since the epoch), 0 if unknown."""
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return 0


def _describe(folder: Path, generation: int) -> list[object]:
    """Return the index's format, and what tells that its table of contents is undamaged."""
    status = os.stat(folder / f"_MAIN_{generation}.toc")
    return [(folder / "format").read_text(), status.st_size, status.st_mtime_ns]
