"""Whether a note says that it is a memory: only then `kind` and `state` are vaultmem's words."""

from __future__ import annotations

from pathlib import PurePosixPath

from vaultmem.core.lifecycle import SOURCES, Kind
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.paths import OWN_FOLDERS, PINNED_FILES

#: Properties that nobody else writes.
_OWN = frozenset(
    [
        "agent",
        "tool_call",
        "state_reason",
        "supersedes",
        "supersedes_part",
        "superseded_by",
        "contradicts",
        "differs_from",
        "confirmed_by",
        "also_said",
        "fidelity",
        "full_text",
        "primed",
        "imported",
    ]
)

_KINDS = frozenset(kind.value for kind in Kind)


def is_memory(path: PurePosixPath, matter: Frontmatter) -> bool:
    """Tell whether a note says that it is a memory.

    It does by one of the kinds of memories, by a property that vaultmem alone writes, or by lying
    where vaultmem writes. In all other notes `kind: book` and `state: archived` are a person's own.
    """
    name = str(path)
    if name.startswith(OWN_FOLDERS) or name in PINNED_FILES:
        return True
    for prop in matter.properties:
        if prop.name in _OWN:
            return True
        if isinstance(prop.value, str):
            word = prop.value.strip().lower()
            if (prop.name == "kind" and word in _KINDS) or (
                prop.name == "source" and word in SOURCES
            ):
                return True
    return False
