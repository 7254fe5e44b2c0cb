"""Operations that show notes, and what they are sorted by and linked with."""

from __future__ import annotations

from functools import partial
from typing import Any

from vaultmem.answers.economics import pinned_json
from vaultmem.answers.links import backlinks_json, broken_json, links_json, orphans_json
from vaultmem.answers.notes import counts_json
from vaultmem.operations.notes import GET, LIST
from vaultmem.operations.operation import (
    Given,
    Moment,
    Operation,
    Tag,
)
from vaultmem.operations.schemas import record, rows
from vaultmem.services.reading.read_notes import resolve_whole
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


def _links(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.links import list_links

    path = str(resolve_whole(vault, given["path"]))
    return links_json(path, list_links(vault, path))


def _backlinks(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.links import list_backlinks

    path = str(resolve_whole(vault, given["path"]))
    return backlinks_json(path, list_backlinks(vault, path))


def _broken(vault: Vault, _: Given) -> Any:
    from vaultmem.services.finding.links import list_broken

    return broken_json(list_broken(vault))


def _orphans(vault: Vault, _: Given) -> Any:
    from vaultmem.services.finding.links import list_orphans

    return orphans_json(list_orphans(vault))


_LINKS = rows(source="string", line="integer", kind="string", written="string", target="string?")
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
    _view(
        "list_links",
        "GET /links/{path}",
        "List what a note links to; what leads nowhere is marked.",
        _links,
        gives=record(path="string", links=_LINKS),
    ),
    _view(
        "list_backlinks",
        "GET /backlinks/{path}",
        "List the links to a note.",
        _backlinks,
        gives=record(path="string", backlinks=_LINKS),
    ),
    _view(
        "list_broken_links",
        "GET /broken",
        "List the links of all notes that lead nowhere.",
        _broken,
        gives=record(broken=_LINKS),
    ),
    _view(
        "list_orphans",
        "GET /orphans",
        "List the notes that no other links to.",
        _orphans,
        gives=record(orphans=rows(path="string", title="string", links="integer")),
    ),
)
