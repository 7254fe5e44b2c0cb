"""The section of a session's note that comes from the client's transcript.

It is written anew as the session goes on, as long as nobody else has written in it: its digest
stands among the note's properties. Where it has another one, it is theirs, and a new one is begun.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.sessions.section_edit import find_blocks
from vaultmem.core.sessions.session import NO_TOLD, Told

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note

HEADING = "From the transcript"
PROPERTY = "transcript"
_PARTS = ("Asked", "Last answer", "Still to do", "Files", "Commands", "Commits")


def read_told(note: Note, list_items: Callable[[str], list[str]]) -> Told:
    """Return what the note's section tells; of several, each thing once and the last answer."""
    if HEADING not in note.text:
        return NO_TOLD
    found = {part: tuple(dict.fromkeys(list_items(part))) for part in _PARTS}
    return Told(
        asked=found["Asked"],
        answer=found["Last answer"][-1] if found["Last answer"] else "",
        steps=found["Still to do"],
        files=found["Files"],
        commands=found["Commands"],
        commits=found["Commits"],
    )


def write_told(text: str, block: str) -> str:
    """Return a session note's text with this section in place of what was last written of it.

    Where somebody has edited it, theirs stays and this one follows; where they have removed it, it
    stays away.
    """
    matter = read_frontmatter(text)
    prop = matter.get(PROPERTY)
    known = prop.value if prop is not None and isinstance(prop.value, str) else ""
    eol = "\r\n" if "\r\n" in text else "\n"
    spans = find_blocks(text, HEADING)
    ours = [span for span in spans if _digest(text[slice(*span)]) == known]
    if known and not spans:
        return text
    start, end = ours[-1] if ours else (len(text), len(text))
    before, after = text[:start].rstrip(), text[end:].lstrip("\r\n")
    fresh = block.strip().replace("\n", eol)
    gap = eol * 2
    changed = f"{before}{gap}{fresh}{gap if after else eol}{after}"
    return set_property(changed, PROPERTY, _digest(block))


def _digest(block: str) -> str:
    plain = block.strip().replace("\r\n", "\n")
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:16]
