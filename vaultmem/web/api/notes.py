"""Operations that show notes, and what they are sorted by and linked with."""

from __future__ import annotations

from functools import partial
from typing import Any

from vaultmem.answers.economics import pinned_json
from vaultmem.answers.notes import counts_json
from vaultmem.operations.links import BACKLINKS, BROKEN, LINKS, ORPHANS
from vaultmem.operations.notes import GET, LIST, LIST_SOURCES, SOURCE_NOTES
from vaultmem.operations.operation import (
    Given,
    Moment,
    Operation,
    Tag,
)
from vaultmem.operations.schemas import record, rows
from vaultmem.vault import Vault


def _count_tags(vault: Vault, _: Given) -> Any:
    from vaultmem.services.reading.read_notes import count_notes

    return counts_json("tags", count_notes(vault, lambda each: each.tags))


def _count_contexts(vault: Vault, _: Given) -> Any:
    from vaultmem.services.reading.read_notes import count_notes

    return counts_json("contexts", count_notes(vault, lambda each: (each.context,)))


def _pinned(vault: Vault, _: Given) -> Any:
    from vaultmem.services.economics import list_pinned

    notes = list_pinned(vault)
    return pinned_json(notes, sum(each.tokens for each in notes), vault.config.budget)


_COUNTS = rows(name="string", notes="integer")

_view = partial(Operation, moment=Moment.SEEN, tag=Tag.VIEW)

NOTES = (
    LIST,
    GET,
    _view(
        "list_tags",
        "GET /tags",
        "Count the notes of each tag; archived, deprecated and quarantined ones are left out.",
        _count_tags,
        gives=record(tags=_COUNTS),
    ),
    _view(
        "list_contexts",
        "GET /contexts",
        "Count the notes of each context; archived, deprecated and quarantined ones are left out.",
        _count_contexts,
        gives=record(contexts=_COUNTS),
    ),
    _view(
        "list_pinned",
        "GET /pinned",
        "List what is pinned, and what it costs in each pack.",
        _pinned,
        gives=record(pinned=rows(path="string"), tokens="integer", budget="integer"),
    ),
    LINKS,
    BACKLINKS,
    BROKEN,
    ORPHANS,
    LIST_SOURCES,
    SOURCE_NOTES,
)
