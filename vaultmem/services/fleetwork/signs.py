"""What a vault tells of its notes so that they can be compared with those of other vaults.

No text but short sentences that state facts: digests of what a note states, and hashes of its
words, by which the index of one vault finds what is alike too.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections.abc import Container, Iterable
from itertools import groupby
from typing import Any, NamedTuple
from zlib import crc32

from vaultmem.core.finding.terms import term_sequence
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.similarity.compare import MAX_TEXT
from vaultmem.core.similarity.facts import read_facts
from vaultmem.core.similarity.titled import Stated, Titled, read_stated
from vaultmem.services.likeness.pairs import ask_note, is_counted, read_whole
from vaultmem.services.likeness.similar import Asked
from vaultmem.services.likeness.updates import holds_values, list_topics
from vaultmem.vault import Vault

#: A sentence that states facts, and for each of these by which hashes it may be found.
Told = tuple[str, list[list[int]]]


class Sign(NamedTuple):
    """What is told of a note; `asks` tells that it is short enough to be held against others.

    `lacking` are hashes of words that the note has only around its text, as tags; `more` are those
    of its text that its sections lack. `sections` are packed hashes. `written` is in seconds since
    the epoch.
    """

    path: str
    blob: str
    title: str
    agent: str
    written: float
    stated: Stated
    asks: bool
    lacking: list[int]
    more: list[int]
    sections: list[str]
    facts: list[Told]

    def list_asked(self) -> list[int]:
        """Return the hashes of the words by which others like it are looked for."""
        known = {term for packed in self.sections for term in unpack_terms(packed)}
        return sorted((known - {*self.lacking}) | {*self.more})


def read_sign(value: dict[str, Any]) -> Sign:
    """Return what is told of a note as JSON has it."""
    return Sign(**{**value, "stated": Stated(**value["stated"])})


def sign_notes(vault: Vault) -> dict[str, Any]:
    """Return what a vault tells of its notes, and from how alike on they are related to it."""
    counted = {record.document: record for record in vault.view.records() if is_counted(record)}
    sections = _gather_terms(vault, counted)
    signs = [
        _sign(record, note, sections.get(document, []))
        for document, record in counted.items()
        if (note := read_whole(vault, record.path)) and note.visible_body.strip()
    ]
    return {"related": vault.config.related_above, "notes": signs}


def _gather_terms(vault: Vault, wanted: Container[int]) -> dict[int, list[set[int]]]:
    """Return the hashes of the words of each section of these documents, as the index has them."""
    snapshot = vault.index.snapshot()
    documents, ordinals = (snapshot.column(each).tolist() for each in ("document", "ordinal"))
    places: list[set[int] | None] = [None] * len(documents)
    found: dict[int, list[set[int]]] = {}
    for row in sorted(range(len(documents)), key=ordinals.__getitem__):
        if documents[row] in wanted:
            places[row] = here = set[int]()
            found.setdefault(documents[row], []).append(here)
    for term, rows in snapshot.list_terms():
        hashed = crc32(term)
        for row in rows:
            if (place := places[row]) is not None:
                place.add(hashed)
    return found


def _sign(record: NoteRecord, note: Note, sections: list[set[int]]) -> Sign:
    asked = ask_note(note)
    is_short = len(note.body) <= MAX_TEXT
    here = hash_terms(asked) if is_short else set()
    known = set().union(*sections)
    stated = read_stated(Titled(asked.text, asked.title, note.path.stem))
    return Sign(
        path=record.path,
        blob=note.blob,
        title=note.title,
        agent=record.agent,
        written=record.written,
        stated=stated if is_short else stated._replace(form=record.body_digest),
        asks=is_short,
        lacking=sorted(known - here) if is_short else [],
        more=sorted(here - known),
        sections=[pack_terms(terms) for terms in sections],
        facts=_list_facts(note) if is_short and holds_values(record, note) else [],
    )


def _list_facts(note: Note) -> list[Told]:
    facts = read_facts(note.visible_body)
    return [
        (text, [sorted(map(_hash_topic, list_topics(fact))) for fact in said])
        for text, said in groupby(facts, key=lambda fact: fact.text)
    ]


def _hash_topic(topic: tuple[str, ...]) -> int:
    return crc32("\0".join(topic).encode("utf-8", "surrogatepass"))


def hash_terms(asked: Asked) -> set[int]:
    """Return the hashes of the words by which a text is looked for."""
    return {*map(hash_term, term_sequence(f"{asked.title}\n{asked.text}"))}


def hash_term(term: str) -> int:
    """Return the hash of a word: two of a million share one, which offers one candidate more."""
    return crc32(term.encode("utf-8", "surrogatepass"))


def pack_terms(terms: Iterable[int]) -> str:
    """Return hashes as text that is short in JSON."""
    return b64encode(array("I", sorted(terms)).tobytes()).decode()


def unpack_terms(packed: str) -> array[int]:
    """Return the hashes that were packed."""
    return array("I", b64decode(packed))
