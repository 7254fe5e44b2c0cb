"""Commit an event: what others wrote goes first, in commits of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.sync import sync_vault
from vaultmem.storage.files import MAX_FILE_BYTES, UnsafeFileError, read_file
from vaultmem.storage.history import Identity, RefMovedError, TreeEntry
from vaultmem.storage.journal import REMOVED, Author
from vaultmem.vault import Vault

#: Files besides the scan's that belong to a vault: written by `init`, hidden by their names.
_HIDDEN_FILES = (".gitignore", ".gitattributes")

_ATTEMPTS = 10

File = tuple[str, bytes] | None


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

    commits: tuple[tuple[str, str], ...] = ()
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
    with vault.lock():
        try:
            if obstacle := vault.history.obstacle():
                raise PendingError(obstacle)
            reports = []
            for number, stored in vault.journal.pending():
                reports.append(_commit_one(vault, _restore(stored)))
                vault.journal.drop_pending(number)
            reports.append(_commit_one(vault, event))
        except PendingError as error:
            vault.journal.add_pending(asdict(event))
            raise PendingError(
                f"not committed: {error}; the notes are safe on disk and `{event.subject}` "
                "is committed with the next checkpoint or promote"
            ) from None
        commits = tuple(commit for report in reports for commit in report.commits)
        last = reports[-1]
        return CommitReport(commits, last.commit, last.paths, last.skipped)


def commit_edits(vault: Vault) -> None:
    """Commit what people edited by hand, before vaultmem edits the same notes.

    What cannot be committed now (another git is at work, a note with a credential) is left to
    the next event.
    """
    with vault.lock():
        if vault.config.edit_commits and not vault.history.obstacle():
            edits = _group_changes(vault, _find_changes(vault)[0]).get(None, {})
            places = _find_secrets(vault, edits)
            clean = {path: file for path, file in edits.items() if path not in places}
            with contextlib.suppress(PendingError):
                _commit_others(vault, {None: clean})


def _commit_one(vault: Vault, event: Event) -> CommitReport:
    changes, skipped = _find_changes(vault)
    if not changes:
        return CommitReport(skipped=skipped)
    _refuse_secrets(vault, changes)
    groups = _group_changes(vault, changes)
    own = groups.pop(event.author.agent, {})
    if not vault.config.edit_commits:
        own |= groups.pop(None, {})
    if event.only:
        groups = {author: files for author, files in groups.items() if author is None}
        own = {path: file for path, file in changes.items() if path in event.only}
        groups[None] = {p: f for p, f in groups.get(None, {}).items() if p not in own}
    commits = _commit_others(vault, groups)
    body = event.body or tuple(_describe_change(path, file) for path, file in sorted(own.items()))
    message = _write_message(event, body)
    if own or not event.only:
        commits.append((_write(vault, own, message, _identity(vault, event.author)), event.subject))
        commit = commits[-1][0]
    else:
        commit = ""
    return CommitReport(tuple(commits), commit, tuple(sorted(own)), skipped)


def _find_changes(vault: Vault) -> tuple[dict[str, File], dict[str, str]]:
    """Return the files that differ from HEAD, with their bytes, and what was left out."""
    sync_vault(vault)
    tree = vault.history.tree(vault.history.head().commit)
    known = vault.manifest.files()
    changes: dict[str, File] = {}
    skipped: dict[str, str] = {}
    suspects = [path for path in _HIDDEN_FILES if (vault.root / path).is_file()]
    suspects += [path for path, file in known.items() if file.blob != _blob_in(tree, path)]
    ignored = vault.history.ignored([path for path in suspects if path not in tree])
    for path in suspects:
        if path in ignored:
            continue
        try:
            data = read_file(vault.root, PurePosixPath(path))
        except NoteNotFoundError:
            continue
        except UnsafeFileError as error:
            if "larger" in str(error):
                skipped[path] = f"larger than {MAX_FILE_BYTES // 1024 // 1024} MiB"
            continue
        if blob_id(data) != _blob_in(tree, path):
            changes[path] = (_mode_of(vault, tree, path), data)
    for path in tree.keys() - known.keys() - set(_HIDDEN_FILES):
        if not (vault.root / path).is_symlink() and not (vault.root / path).exists():
            changes[path] = None
    return changes, skipped


def _group_changes(vault: Vault, changes: Mapping[str, File]) -> dict[str | None, dict[str, File]]:
    """Return the changes by the agent that wrote them; None for what a person edited."""
    groups: dict[str | None, dict[str, File]] = {}
    for path, file in changes.items():
        blob = REMOVED if file is None else blob_id(file[1])
        author = vault.journal.find_author(path, blob)
        groups.setdefault(author.agent if author else None, {})[path] = file
    return groups


def _commit_others(
    vault: Vault, groups: Mapping[str | None, dict[str, File]]
) -> list[tuple[str, str]]:
    """Commit each author's files; the person's under the identity that git knows."""
    commits = []
    for agent in sorted(groups, key=lambda name: name or ""):
        files = groups[agent]
        if not files:
            continue
        subject = f"edit: {_count_notes(files)}"
        event = Event("edit", subject, Author(agent or ""), intent="observe")
        body = tuple(_describe_change(path, file) for path, file in sorted(files.items()))
        message = _write_message(event, body)
        commits.append((_write(vault, files, message, _identity(vault, event.author)), subject))
    return commits


def _write(vault: Vault, files: dict[str, File], message: str, identity: Identity) -> str:
    for _ in range(_ATTEMPTS):
        parent = vault.history.head().commit
        try:
            commit = vault.history.write_commit(files, message, identity, parent)
        except RefMovedError:
            continue
        at = vault.history.commit_time(commit)
        written = {(p, blob_id(f[1])): at for p, f in files.items() if f is not None}
        with vault.state.transaction():
            vault.journal.clear(list(files))
            vault.manifest.put_commit_dates(written)
            if vault.state.get("head") == parent:
                vault.state.put("head", commit)
                vault.state.put("head_time", str(at))
        return commit
    raise PendingError("other commits keep coming in")


def _refuse_secrets(vault: Vault, changes: Mapping[str, File]) -> None:
    places = [place for found in _find_secrets(vault, changes).values() for place in found]
    if places:
        raise RefusedError(
            "not committed, this looks like a credential: "
            + "; ".join(places)
            + ". Remove it, or list the note under allow_secrets in vaultmem.yaml"
        )


def _find_secrets(vault: Vault, changes: Mapping[str, File]) -> dict[str, list[str]]:
    """Return, by path, where something looks like a credential and what like."""
    places: dict[str, list[str]] = {}
    for path, file in changes.items():
        if file is None or vault.config.allows_secrets(path):
            continue
        for found in find_secrets(file[1].decode("utf-8", "replace")):
            places.setdefault(path, []).append(f"{path}:{found.line}: {found.rule}")
    return places


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


def _describe_change(path: str, file: File) -> str:
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


def _blob_in(tree: Mapping[str, TreeEntry], path: str) -> str:
    return tree[path].blob if path in tree else "-"


def _mode_of(vault: Vault, tree: Mapping[str, TreeEntry], path: str) -> str:
    if path in tree:
        return tree[path].mode
    return "100755" if (vault.root / path).stat().st_mode & 0o100 else "100644"


def _restore(stored: dict[str, object]) -> Event:
    values = dict(stored)
    author = Author(**values.pop("author"))  # type: ignore[arg-type]
    lists: dict[str, Callable[[object], object]] = {"body": tuple, "only": tuple}  # type: ignore[dict-item]
    for name, convert in lists.items():
        values[name] = convert(values[name])
    return Event(author=author, **values)  # type: ignore[arg-type]
