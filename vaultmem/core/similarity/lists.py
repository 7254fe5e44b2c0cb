"""List properties that grow and shrink: each item once, the newest kept."""

from __future__ import annotations

from vaultmem.core.notes.edit_properties import remove_property, set_property
from vaultmem.core.notes.note import Note


def add_to_list(text: str, note: Note, name: str, items: tuple[str, ...], limit: int = 0) -> str:
    """Return `text`, the note's with other changes, with items added to a list property.

    Each item stands once; of more than `limit` (0: no limit) the newest stay.
    """
    have = _items(note, name)
    wanted = tuple(dict.fromkeys([*have, *items]))[-limit:]
    return text if wanted == have else set_property(text, name, wanted)


def drop_from_list(text: str, note: Note, name: str, item: str) -> str:
    """Return `text`, the note's with other changes, without an item of a list property."""
    have = _items(note, name)
    wanted = tuple(each for each in have if each != item)
    if wanted == have:
        return text
    return set_property(text, name, wanted) if wanted else remove_property(text, name)


def _items(note: Note, name: str) -> tuple[str, ...]:
    prop = note.matter.get(name)
    old = prop.value if prop is not None and prop.kind != "null" else ()
    return old if isinstance(old, tuple) else tuple(filter(None, map(str.strip, old.split(","))))


def link_to(path: str) -> str:
    """Return the wikilink that means the note at a path and no other, wherever it stands."""
    return f"[[{path.removesuffix('.md')}]]"
