"""The search index of an export: scripts that contain the terms of all notes.

A browser that shows local files can load only scripts, styles and images. So the terms are in
scripts, split by first letter; a search loads only those that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vaultmem.core.notes.record import NoteRecord
from vaultmem.storage.index.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The weight of a term in title, tags and body; BM25's k and b; the number of score levels.
_WEIGHTS = np.array([5.0, 3.0, 1.0])
_K, _B = 1.2, 0.6
_LEVELS = 100

_SHARDS = "abcdefghijklmnopqrstuvwxyz0123456789"


def make_terms(
    snapshot: Snapshot, records: Sequence[NoteRecord], name_note: Callable[[str], str]
) -> Iterator[tuple[str, bytes]]:
    """Yield name and text of the script with the notes' titles, then of those with their terms."""
    notes = [
        [each.title, each.path, name_note(each.path), "" if each.state == "active" else each.state]
        for each in records
    ]
    yield _make_script("notes", {"notes": notes, "shards": _SHARDS, "levels": _LEVELS})
    shards: dict[str, dict[str, list[int]]] = {letter: {} for letter in (*_SHARDS, "_")}
    for term, postings in _list_postings(snapshot, records):
        shards[term[0] if term[0] in _SHARDS else "_"][term] = postings
    for letter, terms in shards.items():
        yield _make_script(f"terms-{letter}", terms)


def _make_script(name: str, value: object) -> tuple[str, bytes]:
    json_text = json.dumps(value, separators=(",", ":"))
    return f"search/{name}.js", f'takeTerms("{name}",{json_text});\n'.encode("ascii")


def _list_postings(
    snapshot: Snapshot, records: Sequence[NoteRecord]
) -> Iterator[tuple[str, list[int]]]:
    """Yield each term with its postings: the distance to the next note, and the score there.

    Both are in one number, whose last two digits are the score.
    """
    document = snapshot.column("document").astype(np.int64)
    numbers = np.full(int(document.max(initial=0)) + 1, -1, np.int64)
    pairs = [
        (each.document, index) for index, each in enumerate(records) if each.document < len(numbers)
    ]
    if not pairs:
        return
    numbers[[each for each, _ in pairs]] = [index for _, index in pairs]
    note = numbers[document]
    norms = _weight_lengths(snapshot, note, len(records))
    terms = _list_terms(snapshot)
    keys, counts = _collect_postings(snapshot, terms, note, len(records))
    keys, positions = np.unique(keys, return_inverse=True)
    sums = np.bincount(positions, counts, len(keys))
    term, notes = np.divmod(keys, len(records))
    level = np.ceil(sums / (sums + norms[notes]) * (_LEVELS - 1)).astype(np.int64)
    starts = np.flatnonzero(np.diff(term, prepend=-1))
    steps = np.diff(notes, prepend=0)
    steps[starts] = notes[starts]
    postings = (steps * _LEVELS + np.clip(level, 1, _LEVELS - 1)).tolist()
    for begin, end in pairwise([*starts.tolist(), len(postings)]):
        yield terms[term[begin]], postings[begin:end]


def _collect_postings(
    snapshot: Snapshot, terms: Sequence[str], note: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return term and note of each posting as one number, and its weighted count."""
    keys, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, term in enumerate(terms):
        rows, code = snapshot.term(term)
        keys.append(note[rows] + number * size)
        codes.append(np.where(note[rows] < 0, -1, code.astype(np.int64)))
    all_keys, code = np.concatenate(keys), np.concatenate(codes)
    return all_keys[code >= 0], (snapshot.counts @ _WEIGHTS)[code[code >= 0]]


def _weight_lengths(snapshot: Snapshot, note: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return the length norm of each note, which is larger for long notes."""
    lengths = snapshot.column("body_length")[note >= 0].astype(float)
    whole = np.bincount(note[note >= 0], lengths, minlength=size)
    norms = _K * (1 - _B + _B * whole / max(1.0, float(whole.mean())))
    return norms.astype(np.float64)


def _list_terms(snapshot: Snapshot) -> list[str]:
    """Return all terms that a user can type: words, without internal marks."""
    terms: set[str] = set()
    for whole, starts in snapshot.vocabulary():
        bounds = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        terms.update(whole[begin:end].decode("utf-8", "replace") for begin, end in bounds)
    return sorted(term for term in terms if term.isalnum())
