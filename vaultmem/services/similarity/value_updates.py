"""Find notes whose value a text or a newer note updates, by their subject."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vaultmem.core.lifecycle import OPEN_STATES, NoteKind
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.similarity.compare import (
    MAX_TEXT,
    Difference,
    KnownText,
    TextSimilarity,
    compare_texts,
)
from vaultmem.core.similarity.facts import Fact, list_keys, list_related, read_facts
from vaultmem.core.similarity.statement import split_sentences
from vaultmem.core.similarity.subjects import find_titled
from vaultmem.core.similarity.updates import ValueUpdate, compare_facts, find_update
from vaultmem.core.text.paths import PINNED_FILES
from vaultmem.services.similarity.similar import SimilarityQuery, SimilarNote
from vaultmem.services.views.read_notes import find_note
from vaultmem.storage.index.search_index import find_with_all
from vaultmem.vault import Vault

#: Sessions and tasks are about the past, and reference material is not memory.
_EXCLUDED_PREFIXES = ("sessions/", "tasks/", "handoffs/", "primed/")

#: Most notes about a subject that are read for one text; most older facts compared with each fact.
_MAX_NOTES, _MAX_OLDER_FACTS = 12, 50


#: The share of a sentence that another text must state.
_MIN_STATED_SHARE = 0.75


class NoteUpdate(NamedTuple):
    """Two notes, the newer one with a new value; `states_change`: it calls the value new."""

    old: Note
    new: Note
    update: ValueUpdate
    states_change: bool

    @property
    def description(self) -> str:
        """The old and the new value."""
        return f"{self.update.kind}: {self.update.before}, now {self.update.after or 'no longer'}"

    @property
    def likeness(self) -> TextSimilarity:
        """The similarity of the newer note to the older one, and their differences."""
        return _measure_update(self.update, self.update.new)


def list_untrusted(old: Note, new: KnownText) -> list[str]:
    """Return a note's sentences that a text neither states nor updates."""
    facts = read_facts(new.text)

    def is_left(sentence: str) -> bool:
        likeness = compare_texts(sentence, new, context=old.title)
        sentence_facts = read_facts(sentence)
        is_other = (
            likeness.is_contradiction
            or find_update(sentence_facts, facts)
            or find_update(facts, sentence_facts)
        )
        return not (is_other or likeness.is_said(_MIN_STATED_SHARE))

    sentences = split_sentences(old.visible_body) if len(old.body) <= MAX_TEXT else []
    return [each for each in sentences if not each.startswith("#") and is_left(each)]


def add_updated(
    vault: Vault, query: SimilarityQuery, notes: Sequence[SimilarNote]
) -> list[SimilarNote]:
    """Return the notes similar to a text; first those with a value that it updates.

    These need not be similar: the index is searched for the subjects of the text's facts.
    """
    facts = read_facts(query.text) if len(query.text) <= MAX_TEXT else ()
    if not facts:
        return list(notes)
    updated_notes: dict[str, SimilarNote] = {}
    notes_by_path = {each.path: each for each in notes}
    records = {each.path: each.record for each in notes}
    for each in _find_about(vault, facts):
        records.setdefault(each.path, each)
    for path, record in records.items():
        if path in notes_by_path and notes_by_path[path].likeness.is_contradiction:
            continue
        note = notes_by_path[path].note if path in notes_by_path else find_note(vault, record.path)
        if note is None or path == query.path or not _holds_values(record, note):
            continue
        update = find_update(read_facts(note.visible_body), facts)
        note_text = (note.visible_body, note.title)
        if update is not None and not find_titled(query.text, query.title, *note_text):
            updated_notes[path] = _as_similar(record, note, query, update)
    return [*updated_notes.values(), *(each for each in notes if each.path not in updated_notes)]


def find_updates(vault: Vault, record: NoteRecord, note: Note) -> Iterator[NoteUpdate]:
    """Yield updates between a note and others, in both directions, found by the index."""
    facts = read_facts(note.visible_body) if _holds_values(record, note) else ()
    for each in _find_about(vault, facts):
        other = find_note(vault, each.path)
        if other is None or each.path == record.path or not _holds_values(each, other):
            continue
        sides = [(record.written, record.path, note), (each.written, each.path, other)]
        old, new = (side[2] for side in sorted(sides, key=lambda side: side[:2]))
        if are_apart(old, new):
            continue
        olds = read_facts(old.visible_body)
        for fact in read_facts(new.visible_body):
            if update := find_update(olds, [fact]):
                yield NoteUpdate(old, new, update, fact.is_new)
                break


def list_updates(vault: Vault, apart: Container[frozenset[str]] = ()) -> list[NoteUpdate]:
    """Return the notes that update a value of an older note, by the older note's path.

    Each older note occurs once, with the first update of it. Pairs in `apart` are skipped. All
    notes are read; the vault must be in sync.
    """
    rows = []
    for record in vault.view.records():
        note = find_note(vault, record.path)
        if note and _holds_values(record, note) and len(note.body) <= MAX_TEXT:
            rows.append((record.written, record.path, note))
    facts_by_topic: dict[tuple[str, ...], list[tuple[Note, Fact]]] = {}
    updates: dict[str, NoteUpdate] = {}
    for _, _, note in sorted(rows, key=lambda each: each[:2]):
        facts = read_facts(note.visible_body)
        for fact in facts:
            for older, update in _find_older(facts_by_topic, fact):
                names = frozenset((str(older.path), str(note.path)))
                if names not in apart and not are_apart(older, note):
                    updates.setdefault(
                        str(older.path), NoteUpdate(older, note, update, fact.is_new)
                    )
        for fact in facts:
            for topic in _list_topics(fact):
                facts_by_topic.setdefault(topic, []).append((note, fact))
    return [updates[path] for path in sorted(updates)]


def _find_older(
    facts_by_topic: Mapping[tuple[str, ...], Sequence[tuple[Note, Fact]]], fact: Fact
) -> Iterator[tuple[Note, ValueUpdate]]:
    """Yield the older notes that a fact updates: for each topic, the last ones."""
    updates: dict[
        int, ValueUpdate | None
    ] = {}  # Many are found by several topics, or in many notes.
    for topic in _list_topics(fact):
        for older, older_fact in facts_by_topic.get(topic, ())[-_MAX_OLDER_FACTS:]:
            if id(older_fact) not in updates:
                updates[id(older_fact)] = compare_facts(older_fact, fact)
            if (update := updates[id(older_fact)]) is not None:
                yield older, update


def _list_topics(fact: Fact) -> Iterator[tuple[str, ...]]:
    """Yield the keys to find a fact by: its subject, its first words, and its values."""
    if fact.subject:
        yield ("of", *sorted(list_keys(fact.subject)))
    yield ("of", fact.words[0].key)
    yield ("by", *(word.key for word in fact.words[:2]))
    values = list_keys(w for w in fact.value or fact.words[1:] if w.is_proper)
    yield from (("value", key) for key in values | fact.replaced_words)


def are_apart(note: Note, other: Note) -> bool:
    """Return whether the titles or first sentences of two notes name different things."""
    other_text = (other.visible_body, other.title)
    return find_titled(note.visible_body, note.title, *other_text) is not None


def _find_about(vault: Vault, facts: Iterable[Fact]) -> Iterator[NoteRecord]:
    """Yield the notes with all words of a fact's subject, first those with its relation."""
    snapshot = vault.index.snapshot()
    documents: dict[int, None] = {}
    for fact in facts:
        words = fact.subject or fact.words[:1]
        related = list_related(fact.classes)
        texts = [" ".join(word.raw for word in words), *fact.replaced_words]
        for text in texts:
            terms = term_sequence(text)
            for document, _ in find_with_all(snapshot, terms, related, _MAX_NOTES) if terms else ():
                documents.setdefault(document)
    records = vault.view.records_of(documents)
    yield from (records[each] for each in list(documents)[:_MAX_NOTES] if each in records)


def _as_similar(
    record: NoteRecord, note: Note, query: SimilarityQuery, update: ValueUpdate
) -> SimilarNote:
    """Return a note as similar to the text, except for the value."""
    likeness = _measure_update(update, query.text)
    section = next(
        (each for each in note.sections if update.old[:20] in note.section_text(each)),
        note.sections[0],
    )
    return SimilarNote(record, note, section, likeness)


def _measure_update(update: ValueUpdate, text: str) -> TextSimilarity:
    """Return the similarity of a text to the older sentence, and the update as the difference."""
    differs = Difference("update", update.after or "no longer", update.before)
    similarity = compare_texts(text, KnownText(update.old)).similarity
    return TextSimilarity(similarity, differences=(differs,), nearest=update.old)


def _holds_values(record: NoteRecord, note: Note) -> bool:
    """Return whether a note states values; notes about events do not."""
    if record.path in PINNED_FILES or record.path.startswith(_EXCLUDED_PREFIXES):
        return False
    is_whole = not (note.problem or note.encoding or note.pinned)
    return note.state in OPEN_STATES and note.kind is not NoteKind.EPISODIC_TRACE and is_whole
