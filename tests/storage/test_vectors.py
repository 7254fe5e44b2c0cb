"""Vectors on disk: all of a batch or nothing, whoever is killed; never another section's."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.storage.semantic.vectors import VectorStore, make_keys, pack_names

WIDTH = 8


def blob(number: int) -> str:
    return hashlib.sha1(b"%d" % number, usedforsecurity=False).hexdigest()


def vector(name: str, ordinal: int) -> list[float]:
    """Return the only right vector of a section."""
    return [int(name[place : place + 4], 16) + ordinal for place in range(WIDTH)]


def append(store: VectorStore, sections: list[tuple[str, int]]) -> None:
    names = pack_names([name for name, _ in sections], [ordinal for _, ordinal in sections])
    store.append(names, np.asarray([vector(*section) for section in sections], np.float32))


def check(store: VectorStore) -> set[tuple[str, int]]:
    """Return the sections that are stored, after a look at each one's vector."""
    stored = store.read()
    found = set()
    for name, values in zip(stored.names, np.asarray(stored.vectors), strict=True):
        section = (name[:20].tobytes().hex(), int.from_bytes(name[20:].tobytes(), "little"))
        assert values.tolist() == vector(*section)
        found.add(section)
    return found


def test_empty_store_has_no_vectors(tmp_path: Path) -> None:
    stored = VectorStore(tmp_path, "model").read()
    assert len(stored.keys) == len(stored.vectors) == 0
    assert not list(tmp_path.iterdir())


def test_vectors_come_back_to_every_process(tmp_path: Path) -> None:
    sections = [(blob(number), number % 3) for number in range(50)]
    append(VectorStore(tmp_path, "model"), sections[:20])
    append(VectorStore(tmp_path, "model"), sections[20:])
    assert check(VectorStore(tmp_path, "model")) == set(sections)


def test_reader_sees_what_another_appended(tmp_path: Path) -> None:
    reader, writer = VectorStore(tmp_path, "model"), VectorStore(tmp_path, "model")
    append(writer, [(blob(1), 0)])
    first = reader.read()
    assert reader.read() is first
    append(writer, [(blob(2), 0)])
    assert len(reader.read().keys) == 2
    assert len(first.vectors) == 1


def test_section_is_stored_once_with_all_its_passages(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, "model")
    append(store, [(blob(1), 0), (blob(1), 0), (blob(1), 1)])
    append(store, [(blob(1), 0), (blob(2), 0)])
    assert len(store.read().keys) == 4


def test_models_do_not_share_vectors(tmp_path: Path) -> None:
    append(VectorStore(tmp_path, "model/one"), [(blob(1), 0)])
    assert check(VectorStore(tmp_path, "model:one")) == set()
    assert check(VectorStore(tmp_path, "model/one")) == {(blob(1), 0)}


def test_model_that_changed_its_width_begins_again(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, "model")
    append(store, [(blob(1), 0)])
    store.append(pack_names([blob(2)], [0]), np.ones((1, 3), np.float32))
    assert store.read().vectors.shape == (1, 3)


def test_vectors_of_other_blobs_are_dropped(tmp_path: Path) -> None:
    store, reader = VectorStore(tmp_path, "model"), VectorStore(tmp_path, "model")
    append(store, [(blob(number), ordinal) for number in range(10) for ordinal in range(2)])
    mapped = reader.read()
    assert store.retain_only([blob(3), blob(99)]) == 18
    assert check(store) == check(reader) == {(blob(3), 0), (blob(3), 1)}
    assert mapped.vectors[5].tolist() == vector(blob(2), 1)
    assert store.retain_only([blob(3)]) == 0
    names = [file.name for file in tmp_path.glob("*/*") if not file.name.startswith("lock")]
    assert len(names) == 3


@pytest.mark.parametrize("file", ["keys", "vectors", "about"])
@pytest.mark.parametrize("damage", ["cut", "gone", "longer", "other"])
def test_damaged_files_are_a_new_start_or_harmless(tmp_path: Path, file: str, damage: str) -> None:
    append(VectorStore(tmp_path, "model"), [(blob(1), 0), (blob(2), 0)])
    (path,) = tmp_path.glob(f"*/{file}*")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        other = b"\0" * len(data) if file == "about" else data
        path.write_bytes({"cut": data[:7], "longer": data + b"junk", "other": other}[damage])
    store = VectorStore(tmp_path, "model")
    assert check(store) <= {(blob(1), 0), (blob(2), 0)}
    append(store, [(blob(1), 0), (blob(3), 0)])
    assert {(blob(1), 0), (blob(3), 0)} <= check(VectorStore(tmp_path, "model"))


_WRITER = """
import sys
sys.path[:0] = [sys.argv[2]]
from test_vectors import append, blob
from vaultmem.storage.semantic.vectors import VectorStore
from pathlib import Path
store = VectorStore(Path(sys.argv[1]), "model")
for number in range(int(sys.argv[3]), 100_000, 40):
    append(store, [(blob(each), each % 7) for each in range(number, number + 40)])
    print(number + 40, flush=True)
"""


@pytest.mark.campaign
def test_killed_anywhere_keeps_what_was_durable_and_nothing_else(tmp_path: Path) -> None:
    said = 0
    for round_ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, tmp_path, Path(__file__).parent, str(said)],
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            for _ in range(5 + round_):
                said = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            said = max([said, *map(int, process.stdout.read().split())])
        found = check(VectorStore(tmp_path, "model"))
        assert found >= {(blob(each), each % 7) for each in range(said)}
        assert len(found) % 40 == 0


@settings(max_examples=100, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2_000)), min_size=1, max_size=50))
def test_each_section_has_a_key_of_its_own(sections: set[tuple[int, int]]) -> None:
    listed = sorted(sections)
    keys = make_keys(pack_names([blob(n) for n, _ in listed], [o for _, o in listed]))
    assert len(set(keys.tolist())) == len(listed)
