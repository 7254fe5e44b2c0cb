"""Which module each command lives in, so that a process imports the one that it runs.

The order is that of `vaultmem --help`.
"""

from __future__ import annotations

#: Module of this package: its commands, or its group of commands.
HOMES: dict[str, tuple[str, ...]] = {
    "vaults": ("init", "sync", "trust"),
    "notes": ("remember", "get", "list", "edit"),
    "changing": ("forget", "pin", "unpin", "tag"),
    "finding": ("recall", "pack"),
    "committing": ("checkpoint", "promote"),
    "history": ("log", "show", "diff", "history"),
    "provenance": ("blame", "why", "restore"),
    "similarity": ("similar", "dedup"),
    "lifecycle": ("state", "quarantine", "supersede"),
    "curating": ("curate", "dream", "compact"),
    "linking": ("links", "backlinks", "orphans", "mv"),
    "priming": ("prime", "primed", "unprime"),
    "economics": ("pinned", "stats"),
    "embedding": ("embed",),
    "sessions": ("session",),
    "tasks": ("task", "handoff", "family"),
    "branches": ("branch", "branches", "switch", "merge"),
    "judging": ("assert", "bisect"),
    "receipts": ("receipts", "replay"),
    "health": ("context", "status", "doctor"),
    "watching": ("watch",),
    "connecting": ("connect", "skill"),
    "hooks": ("hook", "import"),
    "mcp": ("mcp",),
    "merge_driver": ("merge-driver",),
}


def find_homes(name: str) -> tuple[str, ...]:
    """Return the module of a command; of a name that is none, all of them."""
    return tuple(home for home, commands in HOMES.items() if name in commands) or tuple(HOMES)
