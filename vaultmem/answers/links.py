"""Links between notes, and a note's new path, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.links.rewrite import LinkEdit
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.services.finding.links import FoundLink
    from vaultmem.services.notes.rename import Rename


def links_json(path: str, found: Iterable[FoundLink]) -> dict[str, Any]:
    """Return the links of a note."""
    return {"path": path, "links": list(map(link_json, found))}


def backlinks_json(path: str, found: Iterable[FoundLink]) -> dict[str, Any]:
    """Return the links to a note."""
    return {"path": path, "backlinks": list(map(link_json, found))}


def broken_json(found: Iterable[FoundLink]) -> dict[str, Any]:
    """Return the links of all notes that lead nowhere."""
    return {"broken": list(map(link_json, found))}


def link_json(found: FoundLink) -> dict[str, Any]:
    """Return where a link stands, how it is written, and where it leads."""
    link = found.link
    return {
        "source": found.source,
        "line": link.line,
        "kind": link.kind,
        "written": link.path,
        "subpath": link.subpath or None,
        "text": link.text or None,
        "embed": link.is_embed,
        "property": link.property or None,
        "target": found.target,
        "missing": found.missing or None,
    }


def orphans_json(found: Iterable[tuple[NoteRecord, int]]) -> dict[str, Any]:
    """Return the notes that nobody links to, each with the number of its own links."""
    return {"orphans": [{"path": r.path, "title": r.title, "links": count} for r, count in found]}


def renamed_json(done: Rename, *, is_dry: bool) -> dict[str, Any]:
    """Return a note's old and new path, and the links that were or would be rewritten."""
    return {
        "from": done.old,
        "to": done.new,
        "moved": not is_dry,
        "finished_earlier": False,  # No rename is ever half done any more.
        "links": edits_json(done.edits),
        "untrusted": done.untrusted,
    }


def edits_json(edits: Mapping[str, Sequence[LinkEdit]]) -> list[dict[str, Any]]:
    """Return the links that are written otherwise, by note."""
    return [
        {"path": path, "line": edit.link.line, "from": edit.old, "to": edit.new}
        for path, made in edits.items()
        for edit in made
    ]
