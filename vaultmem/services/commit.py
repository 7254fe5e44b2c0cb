"""Commit an event: what others wrote goes first, in commits of their own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vaultmem.core.blob import blob_id
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import PendingError, RefusedError
from vaultmem.services.pending import Pending, Whose, find_leaks, find_pending, is_pending
from vaultmem.storage.commits import File, Identity, RefMovedError
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault

_ATTEMPTS = 10

#: A commit that was made: its id and its subject.
Made = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    """One of the moments that become a commit; `subject` is its first line.

    `only` limits the event's own commit to these paths; empty means all that its author wrote.
    """

    name: str
    subject: str
    author: Author
    body: tuple[str, ...] = ()
    intent: str = ""
    confidence: float | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitReport:
    """Commits made, oldest first, as (id, subject); the event's own is `commit` ("" if none).

    `skipped` are files that were left out, with the reason.
    """

    commits: tuple[Made, ...] = ()
    commit: str = ""
    paths: tuple[str, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)


def commit_event(vault: Vault, event: Event) -> CommitReport:
    """Commit what changed since the last commit, each author's part on its own.

    A clean tree makes no commit. Events that had to wait are committed first.

    Raises:
        PendingError: git cannot take a commit now; the event is kept and committed later.
        RefusedError: something looks like a credential; nothing was committed.
    """
    if find_secrets("\n".join((event.subject, *event.body))):
        raise RefusedError("not committed: the message itself looks like a credential; reword it")
    with vault.lock():
        made: list[Made] = []
        try:
            if obstacle := vault.history.obstacle():
                raise PendingError(obstacle)
            for number, stored in vault.journal.pending():
                made += _commit_one(vault, _restore(stored)).commits
                vault.journal.drop_pending(number)
            report = _commit_one(vault, event, even_if_clean=bool(made))
        except PendingError as error:
            vault.journal.add_pending(asdict(event))
            raise PendingError(
                f"not committed: {error}; the notes are safe on disk and `{event.subject}` "
                "is committed with the next checkpoint or promote"
            ) from None
        return replace(report, commits=(*made, *report.commits))


def commit_earlier(
    vault: Vault, notes: Mapping[str, str], whose: Whose = Whose.OTHERS
) -> list[Made]:
    """Commit these notes (path to blob id) as they are, before vaultmem changes them.

    So the change that follows never takes somebody else's words under its own author, and what
    is removed can be had back from git. What cannot be committed now (another git is at work, a
    note with a credential) is left to the next event.
    """
    wanted = {path for path, blob in notes.items() if is_pending(vault, path, blob, whose)}
    if not wanted or vault.head() is None or not vault.config.edit_commits:
        return []
    with vault.lock():
        if vault.history.obstacle():
            return []
        pending = find_pending(vault)
        clean = wanted - find_leaks(vault, pending.files).keys()
        try:
            return _commit_each_author(vault, pending, clean)
        except PendingError:
            return []


def _commit_one(vault: Vault, event: Event, even_if_clean: bool = False) -> CommitReport:
    pending = find_pending(vault)
    skipped = dict(pending.skipped)
    if not pending.files and not even_if_clean:
        return CommitReport(skipped=skipped)
    own = _own_paths(vault, event, pending)
    others = pending.files.keys() - own
    leaks = find_leaks(vault, pending.files)
    if event.only:
        others = {path for path in others if _is_hand_edit(vault, pending, path)}
        skipped |= {
            path: f"looks like a credential ({leaks[path][0]})" for path in leaks.keys() & others
        }
        others -= leaks.keys()
        leaks = {path: places for path, places in leaks.items() if path in own}
    _refuse_leaks(leaks)
    made = _commit_each_author(vault, pending, others)
    if not own and event.only:
        return CommitReport(tuple(made), skipped=skipped)
    files = pending.of(own)
    event = replace(event, author=_with_session(event.author, pending, own))
    commit = _write(vault, files, event)
    return CommitReport((*made, (commit, event.subject)), commit, tuple(files), skipped)


def _own_paths(vault: Vault, event: Event, pending: Pending) -> set[str]:
    """Return the paths of the event's own commit."""
    if event.only:
        return pending.files.keys() & set(event.only)
    own = set()
    for path, author in pending.authors.items():
        if author is None:
            if not vault.config.edit_commits:
                own.add(path)
        elif author.agent == event.author.agent:
            own.add(path)
    return own


def _is_hand_edit(vault: Vault, pending: Pending, path: str) -> bool:
    return vault.config.edit_commits and pending.authors[path] is None


def _with_session(author: Author, pending: Pending, own: Iterable[str]) -> Author:
    """Name the session that wrote everything, where the event itself names none."""
    sessions = {written.session for path in own if (written := pending.authors.get(path))}
    if author.session or len(sessions) != 1:
        return author
    return replace(author, session=sessions.pop())


def _commit_each_author(vault: Vault, pending: Pending, paths: Iterable[str]) -> list[Made]:
    """Commit each author's files; the person's under the identity that git knows."""
    groups: dict[Author, list[str]] = {}
    for path in sorted(paths):
        written = pending.authors.get(path) or Author("")
        groups.setdefault(replace(written, tool_call=""), []).append(path)
    made = []
    for author in sorted(groups, key=lambda each: (each.agent, each.session)):
        files = pending.of(groups[author])
        if files:
            event = Event("edit", f"edit: {_count_notes(files)}", author, intent="observe")
            made.append((_write(vault, files, event), event.subject))
    return made


def _write(vault: Vault, files: dict[str, File], event: Event) -> str:
    message = _write_message(event, event.body or tuple(map(_describe_change, files.items())))
    identity = _identity(vault, event.author)
    for _ in range(_ATTEMPTS):
        parent = vault.history.head().commit
        try:
            at = int(time.time())
            commit = vault.history.write_commit(files, message, identity, parent, at)
        except RefMovedError:
            continue
        written = {(p, blob_id(f[1])): at for p, f in files.items() if f is not None}
        with vault.state.transaction():
            vault.journal.clear(list(files))
            vault.manifest.put_commit_dates(written)
            if vault.state.get("head") == parent:
                vault.state.put("head", commit)
                vault.state.put("head_time", str(at))
        return commit
    raise PendingError("other commits keep coming in")


def _refuse_leaks(leaks: Mapping[str, list[str]]) -> None:
    if places := [place for found in leaks.values() for place in found]:
        raise RefusedError(
            f"not committed, this looks like a credential: {'; '.join(places)}. "
            "Remove it, or list the note under allow_secrets in vaultmem.yaml"
        )


def _write_message(event: Event, body: tuple[str, ...]) -> str:
    """Return subject, body and trailers as `git interpret-trailers` reads them."""
    shown = [_one_line(line, 500) for line in body[:200]]
    if len(body) > len(shown):
        shown.append(f"... and {len(body) - len(shown)} more")
    trailers = {
        "Agent-Id": event.author.agent,
        "Session-Id": event.author.session,
        "Intent": event.intent,
        "Confidence": "" if event.confidence is None else f"{event.confidence:g}",
        "Tool-Call": event.author.tool_call,
        "Vault-Event": event.name,
    }
    lines = [f"{key}: {_one_line(value, 200)}" for key, value in trailers.items() if value]
    parts = [_one_line(event.subject, 200), "\n".join(shown), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _count_notes(files: Mapping[str, File]) -> str:
    notes = sum(path.lower().endswith(".md") for path in files)
    count, name = (notes, "note") if notes else (len(files), "file")
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _describe_change(change: tuple[str, File]) -> str:
    path, file = change
    return f"{'removed' if file is None else 'wrote'} {path}"


def _one_line(text: str, limit: int) -> str:
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain[:limit]


def _identity(vault: Vault, author: Author) -> Identity:
    """Return an agent's identity as vaultmem.yaml has it, the person's as git has it."""
    if not author.agent:
        return vault.history.person()
    name, _, email = vault.config.author.replace("{agent}", author.agent).partition("<")
    return Identity(name.strip(), email.rstrip("> ").strip())


def _restore(stored: dict[str, Any]) -> Event:
    """Return an event as it was kept in the journal, where tuples became lists."""
    lists = {name: tuple(stored[name]) for name in ("body", "only")}
    return Event(**{**stored, **lists, "author": Author(**stored["author"])})
