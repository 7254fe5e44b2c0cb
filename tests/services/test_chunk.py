"""Notes that are read in chunks: what helpers hand over, and helpers that go."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import write_notes

from vaultmem.core.text.blob import blob_id
from vaultmem.services.views import chunk as chunks_of_notes
from vaultmem.services.views.chunk import Chunk, ChunkReader, ReadJob

NOTES: dict[str, str | bytes] = {
    "a.md": "---\ntags: [x, y]\naliases: [Alpha]\nsession: s-1\n---\n"
    "# A\n\n[[b]] readNote\n\n## E-mail\n",
    "b.md": "東京 Straße \U0001f6a2\n",
    "latin.md": b"caf\xe9\n",
    "nul.md": b"a\0b",
    "empty.md": "",
}

JOBS = [
    *(ReadJob(name) for name in NOTES),
    ReadJob("gone.md"),
    ReadJob("link.md"),
    ReadJob("a.md", blob_id(str(NOTES["a.md"]).encode())),
    ReadJob("of-git.md", data=b"# From git\n\nferry\n"),
    ReadJob("of-git-too.md", data=b"\xff\0"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_notes(tmp_path, NOTES)
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    return tmp_path


@pytest.mark.parametrize("jobs", [JOBS, JOBS[2:3], []])
def test_a_chunk_comes_back_from_its_bytes(root: Path, jobs: list[ReadJob]) -> None:
    chunk = ChunkReader(root).read(jobs)

    found = pickle.loads(pickle.dumps(chunk))

    assert found.readings == chunk.readings
    assert found.terms.terms == chunk.terms.terms
    for one, other in zip(found.terms[1:], chunk.terms[1:], strict=True):
        assert (one.dtype, one.shape, one.tolist()) == (other.dtype, other.shape, other.tolist())


def test_readings_say_what_became_of_each_job(root: Path) -> None:
    readings = ChunkReader(root).read(JOBS).readings
    found = dict(zip([job.path for job in JOBS[:7]], readings, strict=False))

    read = ["a.md", "b.md", "latin.md", "empty.md"]
    assert [path for path, each in found.items() if each.note] == read
    assert "NUL" in found["nul.md"].problem
    assert found["gone.md"] == (None, "", "", False)
    assert found["link.md"].blob == ""
    assert found["link.md"].problem
    assert readings[7] == (None, JOBS[7].blob, "", False)
    assert [each.note is None for each in readings[8:]] == [False, True]


def describe(chunks: Sequence[tuple[Sequence[ReadJob], Chunk]]) -> list[Any]:
    """Return what chunks say, but for the numbers of terms, which each process gives itself."""
    found: list[Any] = []
    for jobs, (readings, terms) in chunks:
        names = [terms.terms[number] for number in terms.term.tolist()]
        counts = sorted(zip(names, terms.section.tolist(), terms.packed.tolist(), strict=True))
        sequence = [terms.terms[number] for number in terms.sequence.tolist()]
        found.append(([*jobs], readings, counts, sequence, terms.lengths.tolist()))
    return found


@pytest.fixture
def many(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[ReadJob]:
    """Return jobs of two dozen chunks, read by two helpers."""
    monkeypatch.setattr(chunks_of_notes, "MIN_PARALLEL_JOBS", 1)
    monkeypatch.setattr(chunks_of_notes, "_CHUNK", 10)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    write_notes(root, {f"n{n}.md": f"# Note {n}\n\nferry {n}\n" * (n % 7) for n in range(230)})
    return [*JOBS, *(ReadJob(f"n{n}.md") for n in range(230))]


def read_alone(root: Path, jobs: list[ReadJob]) -> list[Any]:
    reader = ChunkReader(root)
    return describe([(some, reader.read(some)) for some in chunks_of_notes._split(jobs)])


def record_helpers(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


@contextlib.contextmanager
def opening_many(many: int) -> Iterator[None]:
    """Have more files open than `select` has numbers for, as a process of many vaults has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * many), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(many)]
    try:
        yield
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.campaign
@pytest.mark.parametrize("after", [None, 0, 1, 7])
def test_nothing_is_lost_when_helpers_are_killed(
    root: Path, many: list[ReadJob], monkeypatch: pytest.MonkeyPatch, after: int | None
) -> None:
    wanted = read_alone(root, many)
    helpers = record_helpers(monkeypatch)
    found = []
    with opening_many(1_100):
        for number, each in enumerate(chunks_of_notes.read_notes(root, many)):
            found.append(each)
            if number == after:
                for helper in helpers:
                    helper.kill()

    assert describe(found) == wanted
    assert len(helpers) == 2
    assert all(helper.returncode is not None for helper in helpers)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("exit 1", id="ends at once"),
        pytest.param("head -c 9 >/dev/null; exec printf 'abc'", id="breaks off in a size"),
        pytest.param(
            "head -c 9 >/dev/null; exec printf '\\100\\0\\0\\0\\0\\0\\0\\0abc'",
            id="breaks off in a chunk",
        ),
        pytest.param("", id="cannot be started"),
    ],
)
def test_nothing_is_lost_when_helpers_break_off(
    root: Path, many: list[ReadJob], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    wanted = read_alone(root, many)
    script = tmp_path / "python"
    if program:
        script.write_text(f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    assert describe([*chunks_of_notes.read_notes(root, many)]) == wanted
