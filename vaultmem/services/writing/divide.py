"""Divide what no commit has yet into the commits of an event, by who wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.errors import RefusedError
from vaultmem.services.writing.leaks import HOW_TO_ALLOW, find_leaks_since
from vaultmem.services.writing.pending import Pending, is_own
from vaultmem.storage.git.commit_draft import File
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault


class Event(NamedTuple):
    """One of the events that become a commit; `subject` is its first line.

    `only` limits the event's own commit to these paths; empty means all that its author wrote.
    Hand edits of others go first, but for those at `without`, which have an event of their own.
    """

    name: str
    subject: str
    author: Author
    body: tuple[str, ...] = ()
    intent: str = ""
    confidence: float | None = None
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class Part(NamedTuple):
    """A commit that is to be made: why, and which files are in it."""

    event: Event
    files: dict[str, File]


class Plan(NamedTuple):
    """All commits of one event, in order; the last is the event's own if `has_own`."""

    parts: list[Part]
    has_own: bool = False
    skipped: Mapping[str, str] = MappingProxyType({})


def divide_event(vault: Vault, event: Event, pending: Pending) -> Plan:
    """Put what is not the event's own before it."""
    event = event._replace(author=_with_session(event, pending))
    own = _own_paths(vault, event, pending)
    others = pending.files.keys() - own
    skipped = dict(pending.skipped)
    leaks = find_leaks_since(vault, pending.files, pending.parent)
    if event.only:
        others = {path for path in others if _is_hand_edit(vault, pending, path)}
        others -= set(event.without)
        skipped |= {
            path: f"looks like a credential ({leaks[path][0]})" for path in leaks.keys() & others
        }
        others -= leaks.keys()
        leaks = {path: places for path, places in leaks.items() if path in own}
    _refuse_leaks(leaks)
    kept = {path for path in own & pending.drafts.keys() if _is_of(pending.drafts[path], event)}
    parts = [
        *_divide_drafts(pending, (others | own) - kept, event.author),
        *_divide(pending.of(others), pending.authors, event.author),
    ]
    if not own and event.only:
        return Plan(parts, skipped=skipped)
    return Plan([*parts, Part(event, pending.of(own))], has_own=True, skipped=skipped)


def name_leaks(vault: Vault, pending: Pending) -> tuple[str, ...]:
    """Return where something looks like a credential, which keeps all from being committed."""
    found = find_leaks_since(vault, pending.files, pending.parent)
    return tuple(place for places in found.values() for place in places)


def _own_paths(vault: Vault, event: Event, pending: Pending) -> set[str]:
    """Return the paths of the event's own commit."""
    if event.only:
        return pending.files.keys() & set(event.only)
    by_hand = not vault.config.edit_commits
    return {
        path
        for path, written in pending.authors.items()
        if (by_hand if written is None else is_own(written, event.author))
    }


def _is_hand_edit(vault: Vault, pending: Pending, path: str) -> bool:
    return vault.config.edit_commits and pending.authors[path] is None


def _with_session(event: Event, pending: Pending) -> Author:
    """Name the one session in which the author wrote, where the event itself names none."""
    written = [pending.authors.get(path) for path in event.only or pending.authors]
    sessions = {each.session for each in written if each and each.agent == event.author.agent}
    sessions.discard("")
    if event.author.session or len(sessions) != 1:
        return event.author
    return event.author._replace(session=sessions.pop())


def divide_others(pending: Pending, paths: Set[str], author: Author) -> list[Part]:
    """Divide these files by who wrote them; `author` is who commits.

    What an agent wrote comes before what a person changed of it by hand.
    """
    wanted = paths & pending.files.keys()
    drafts = _divide_drafts(pending, wanted, author)
    return drafts + _divide(pending.of(wanted), pending.authors, author)


def _divide_drafts(pending: Pending, paths: Set[str], author: Author) -> list[Part]:
    drafts = {path: pending.drafts[path] for path in paths & pending.drafts.keys()}
    files = {path: file for path, (_, file) in drafts.items()}
    return _divide(files, {path: who for path, (who, _) in drafts.items()}, author)


def _divide(
    files: Mapping[str, File], authors: Mapping[str, Author | None], author: Author
) -> list[Part]:
    groups: dict[Author, dict[str, File]] = {}
    for path in sorted(files):
        written = authors[path] or Author("")
        groups.setdefault(written._replace(tool_call=""), {})[path] = files[path]
    ordered = sorted(groups.items(), key=lambda each: (each[0].agent, each[0].session))
    return [Part(_name_event(written, some, author), some) for written, some in ordered]


def _name_event(written: Author, files: Mapping[str, File], author: Author) -> Event:
    """Return the event of what somebody wrote before the event of `author`."""
    if not written.agent:
        return Event("edit", f"edit: {_count_notes(files)}", written, intent="observe")
    if is_own(written, author):
        what = next(iter(files)) if len(files) == 1 else _count_notes(files)
        return Event("write", f"write: {what}", written, intent="observe")
    whom = f"session {written.session}" if written.session else f"agent {written.agent}"
    return Event("recover", f"recover: {whom}", written, intent="observe")


def _is_of(draft: tuple[Author, File], event: Event) -> bool:
    return is_own(draft[0], event.author)


def _refuse_leaks(leaks: Mapping[str, list[str]]) -> None:
    if places := [place for found in leaks.values() for place in found]:
        raise RefusedError(
            f"not committed, this looks like a credential: {'; '.join(places)}. To get on: "
            f"{HOW_TO_ALLOW}"
        )


def _count_notes(files: Mapping[str, File]) -> str:
    notes = sum(path.lower().endswith(".md") for path in files)
    count, name = (notes, "note") if notes else (len(files), "file")
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
