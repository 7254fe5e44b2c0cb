"""Commit an event: text by other authors goes first, in commits of their own.

Pending files are split into parts by owner, and each part is a commit. Either all parts are
committed or none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.core.commit_message import ShownNote, format_files, format_message, read_subject
from vaultmem.core.packs.receipt import parse_receipt
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.json_values import as_json_object
from vaultmem.core.text.paths import slugify
from vaultmem.errors import (
    ConflictError,
    DamagedError,
    LockTimeoutError,
    PendingError,
    RefusedError,
)
from vaultmem.services.changes.commit_parts import (
    CHECKPOINT,
    CommitPart,
    CommitPlan,
    Event,
    join_moves,
    split_all,
    split_edits,
    split_event,
    split_notes,
    split_said,
)
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import (
    CLOSE,
    AuthorScope,
    PendingFiles,
    find_pending,
    is_pending,
    is_persons,
    read_hand_edits,
    reject_named_secrets,
)
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.trust_withdrawal import review_commits
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.git.commit_draft import CommitDraft, CommitSettings, File, Identity, TreeEntry
from vaultmem.storage.git.git_locks import MAX_LOCK_AGE_SECONDS
from vaultmem.storage.git.introduced import IntroducedBlob
from vaultmem.storage.journal import REMOVED, Author
from vaultmem.storage.query_log import MAX_CALLS, PACK, SignalStore
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault

#: The outcome of a commit that a system error ended.
UNCOMMITTED = "not committed, but the notes are safe on disk"

#: State key: the commit hint was already shown.
_HINTED = "commit_hint"

#: State key: the time when a commit last listed the notes shown to a session.
_LISTING_TIME_KEY = "shown_named"

_MAX_SHOWN_NOTES = 200

#: A commit: its id and its subject.
Made = tuple[str, str]


class CommitReport(NamedTuple):
    """Commits made, oldest first, as (id, subject); the event's own is `commit` ("" if none).

    `skipped` are files left out, with the reason; `has_closed` means that a session ended.
    `candidates` are policies, skills and preferences that an agent could not make active.
    """

    commits: tuple[Made, ...] = ()
    commit: str = ""
    paths: tuple[str, ...] = ()
    skipped: Mapping[str, str] = MappingProxyType({})
    has_closed: bool = False
    candidates: tuple[str, ...] = ()


def save_checkpoint(vault: Vault, note: str = "", even_if_clean: bool = False) -> CommitReport:
    """Commit all changes; the author's own part is `checkpoint: {note}`.

    Without a note, its subject lists the files. A clean tree makes no commit unless
    `even_if_clean`.

    Raises:
        RefusedError: the branch is not checked out, or some text looks like a credential.
        PendingError: git cannot commit now.
    """
    if branch := find_branch(vault):
        raise RefusedError(
            f"{branch}: not checked out, so each write there is a commit already; "
            "there is nothing to checkpoint"
        )
    text = " ".join(note.split())
    subject = f"{CHECKPOINT}: {text}" if text else ""
    event = Event(CHECKPOINT, subject, vault.author, intent="checkpoint")
    return commit_event(vault, event, even_if_clean)


def commit_event(vault: Vault, event: Event, even_if_clean: bool = False) -> CommitReport:
    """Commit all changes since the last commit, each author's part separately.

    Either all these commits are made or none. A clean tree makes no commit unless `even_if_clean`.
    Waiting events are committed first.

    Raises:
        PendingError: git cannot commit now; the event is stored and committed later.
        RefusedError: some text looks like a credential; nothing was committed.
    """
    reject_named_secrets(event.author, event.subject, event.body)

    def split(pending: PendingFiles, has_waited: bool) -> CommitPlan:
        return split_event(vault, event, pending, even_if_clean or has_waited)

    with vault.lock():
        try:
            return _commit_after_waiting(vault, split)
        except PendingError as error:
            vault.operations.add_waiting(as_json_object(event))
            raise PendingError(
                f"not committed: {error}; the notes are safe on disk and "
                f"`{event.subject or event.name}` "
                "is committed with the next checkpoint or promote"
            ) from None


def commit_said(vault: Vault) -> CommitReport:
    """Commit events made by hand (see `ownership`), after a person's other edits.

    `skipped` names those notes that look like a credential, or whose session wrote one.

    Raises:
        PendingError: git cannot commit now. The notes contain everything, so nothing is stored.
    """
    return _commit_after_waiting(vault, lambda pending, _: split_said(vault, pending))


def commit_edits(vault: Vault, may_commit: Callable[[], bool] = lambda: True) -> CommitReport:
    """Commit a person's changes as one `edit`; an agent's changes wait for an event.

    `may_commit` is called once the index matches the disk. `skipped` names files with a possible
    credential and files that cannot be committed.

    Raises:
        PendingError: git cannot commit now. Nothing is stored: the files are on disk.
    """

    def split(pending: PendingFiles, _: bool) -> CommitPlan:
        return split_edits(vault, pending) if may_commit() else CommitPlan([])

    return _commit_after_waiting(vault, split)


def commit_all(vault: Vault) -> CommitReport:
    """Commit all uncommitted changes, each author's part separately, without another event.

    Raises:
        PendingError: git cannot commit now.
        RefusedError: some text looks like a credential; nothing was committed.
    """
    return _commit_after_waiting(vault, lambda pending, _: split_all(vault, pending))


def commit_earlier(
    vault: Vault, notes: Mapping[str, str], scope: AuthorScope = AuthorScope.OTHERS
) -> list[Made]:
    """Commit these notes (path to blob id) as they are, before vaultmem changes them.

    The following change then contains no other author's text. Removed text can be restored from
    git, and events made by hand are committed. Notes that cannot be committed now (another git is
    running, a possible credential) are left to the next event.

    Raises:
        ConflictError: a note was saved since it was read; an agent's change would commit that text.
    """
    if not notes or vault.head() is None:
        return []
    paths = {path for path, edit in read_hand_edits(vault, notes).items() if edit.event}
    if vault.config.commit_edits:
        paths |= {path for path, blob in notes.items() if is_pending(vault, path, blob, scope)}
    if not paths or vault.history.obstacle(patience=MAX_LOCK_AGE_SECONDS):
        return []

    def split(pending: PendingFiles) -> CommitPlan:
        blobs = {path: each.blob for path, each in HeadTree(vault.state).entries(paths).items()}
        for path, file in pending.of(paths).items():
            blobs[path] = blob_id(file[1]) if file else REMOVED
        for path in paths & blobs.keys() - pending.skipped.keys():
            if blobs[path] != notes[path]:
                raise ConflictError(f"{path}: another process changed it; read it again")
        return split_notes(vault, pending, paths)

    commit_ids = vault.operations.made
    count = len(commit_ids)
    try:
        commits = operate(vault, "nothing was written", lambda _: _commit(vault, split)[1])
    except PendingError:
        return []
    del commit_ids[count:]  # If the change fails, no commit has it.
    return commits


def hint_commit(vault: Vault) -> str:
    """Return how the last write gets committed; "" if it is, or if the hint was shown before."""
    if vault.state.get(_HINTED) or vault.head() is None:
        return ""
    if not any(vault.journal.has_writes(path) for path in vault.notices.written):
        return ""
    vault.state.put(_HINTED, "said")
    delay = vault.config.commit_edits_after_seconds
    if delay and is_persons(vault.author):
        return (
            f"not committed yet; `vaultmem watch` commits it after {delay:,} seconds without a "
            "save, `vaultmem checkpoint` at once"
        )
    suffix = "" if is_persons(vault.author) else " or the end of the session"
    return f"not committed yet; the next `vaultmem checkpoint`{suffix} commits it"


def _commit_after_waiting(
    vault: Vault, split: Callable[[PendingFiles, bool], CommitPlan]
) -> CommitReport:
    """Commit waiting events, then the parts of the pending files.

    The second argument of `split` is whether an event had waited.
    """
    earlier_commits: list[Made] = []

    def work(_: Transaction) -> CommitReport:
        earlier_commits.extend(_commit_waiting(vault))
        plan, commits = _commit(vault, lambda pending: split(pending, bool(earlier_commits)))
        has_closed = any(part.event.name == CLOSE for part in plan.parts)
        report = CommitReport(
            (*earlier_commits, *commits), skipped=plan.skipped, has_closed=has_closed
        )
        if not plan.has_own:
            return report
        return report._replace(commit=commits[-1][0], paths=tuple(plan.parts[-1].files))

    return operate(vault, UNCOMMITTED, work)


def _commit_waiting(vault: Vault) -> list[Made]:
    """Commit waiting events.

    Raises:
        PendingError: git still cannot commit.
    """
    if obstacle := vault.history.obstacle(patience=MAX_LOCK_AGE_SECONDS):
        raise PendingError(obstacle)
    commits: list[Made] = []
    for number, event_data in vault.operations.list_waiting():
        event = _restore(event_data)
        commits += _commit(vault, partial(split_event, vault, event, even_if_clean=False))[1]
        vault.operations.drop_waiting(number)
    return commits


def _restore(event_data: dict[str, Any]) -> Event:
    """Return a stored waiting event, with lists turned back into tuples."""
    fields = {name: value for name, value in event_data.items() if name in Event._fields}
    lists = {name: tuple(event_data.get(name, ())) for name in ("body", "only")}
    return Event(**{**fields, **lists, "author": Author(**event_data["author"])})


def _commit(
    vault: Vault, split: Callable[[PendingFiles], CommitPlan]
) -> tuple[CommitPlan, list[Made]]:
    """Split the pending files into parts and commit them all at once.

    Raises:
        RefMovedError: another commit came first; compare the files with it again.
    """
    pending = find_pending(vault)
    plan = join_moves(split(pending), pending)
    return plan, _write(vault, pending.parent, plan.parts)


def _write(vault: Vault, parent: str, parts: Sequence[CommitPart]) -> list[Made]:
    """Make the commits, and record them in the state database."""
    history = vault.history
    if not parts:
        history.update_git_index()
        return []
    at = int(vault.now())
    settings = history.settings()
    authors = {part.event.author.session: part.event.author for part in parts}
    shown_notes = {session: list_shown(vault, author) for session, author in authors.items()}
    drafts = [
        draft_event(
            *(vault, each.event, each.files, at, settings),
            shown_notes=shown_notes.pop(each.event.author.session, ()),
        )
        for each in parts
    ]
    commits = history.write_commits(drafts, parent, settings)
    changes = [
        (path, file and TreeEntry(file[0], blob_id(file[1])))
        for part in parts
        for path, file in part.files.items()
    ]
    entries = dict(changes)  # As in the last commit.
    # A damaged database is rebuilt, and then reads the commits from git.
    context = vault.leaving_to_next()
    with context, contextlib.suppress(DamagedError), vault.state.transaction():
        vault.journal.clear({path: e.blob if e else REMOVED for path, e in entries.items()})
        vault.manifest.put_commit_dates({(p, e.blob): at for p, e in changes if e})
        HeadTree(vault.state).advance(history, parent, commits[-1], entries)
        for author in authors.values():
            store_named(vault, author, at)
        for part in parts:
            if part.event.name == CLOSE:
                ActiveSessions(vault.state_folder).drop(part.event.author.session)
        if vault.state.get("head") == parent:
            introductions = [
                IntroducedBlob(path, blob_id(file[1]) if file else "", commit, at)
                for part, commit in zip(parts, commits, strict=True)
                for path, file in part.files.items()
            ]
            review_commits(vault, parent, introductions[::-1])
            vault.state.put("head", commits[-1])
            vault.state.put("head_time", str(at))
    return [
        (commit, read_subject(draft.message)) for commit, draft in zip(commits, drafts, strict=True)
    ]


def draft_event(
    vault: Vault,
    event: Event,
    files: Mapping[str, File],
    at: int,
    settings: CommitSettings | None = None,
    shown_notes: Sequence[ShownNote] = (),
) -> CommitDraft:
    """Return the commit of an event and its files, at a time in seconds since the epoch."""
    identity = _identity(vault, event.author, settings)
    return CommitDraft(files, _write_message(event, files, shown_notes), identity, at)


def list_shown(vault: Vault, author: Author) -> list[ShownNote]:
    """Return the notes shown to a session since its last commit, for its next commit message.

    Ignored files are left out, and so are all after the first 200. With `share_usage` off, the list
    is empty.
    """
    notes: list[ShownNote] = []
    if author.agent and author.session and vault.config.share_usage:
        with vault.leaving_to_next():
            notes = _find_shown(vault, author.session)
    return notes


def store_named(vault: Vault, author: Author, at: int) -> None:
    """Store when (seconds since the epoch) a commit listed the notes shown to a session."""
    if author.agent and author.session:
        vault.state.put(f"{_LISTING_TIME_KEY} {author.session}", str(at))


def _find_shown(vault: Vault, session: str) -> list[ShownNote]:
    since = int(vault.state.get(f"{_LISTING_TIME_KEY} {session}") or 0)
    signals = SignalStore(vault.state, vault.state_folder)
    with contextlib.suppress(LockTimeoutError):  # The newest entries go into a later commit.
        signals.fold(vault.view.totals()[1], vault.wait)
    calls = signals.showings(MAX_CALLS, session=session, since=since)
    notes = [ShownNote(path, int(each.call.at)) for each in calls for path, *_ in each.sections]
    # Only a pack's receipt has its pinned notes. Its id begins with its second.
    pack_times = [each.call.at + n for each in calls if each.call.kind == PACK for n in (0, 1)]
    seconds = {f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%S}" for at in pack_times}
    for file in vault.store.receipts.files() if seconds else ():
        if file.name.partition("-")[0] in seconds:
            receipt = parse_receipt(vault.store.receipts.read(str(file)))
            at = int(datetime.fromisoformat(receipt.time).timestamp())
            own = receipt.shown if receipt.session == session else ()
            notes += (ShownNote(each.path, at) for each in own)
    by_path = {each.path: each for each in sorted(notes, key=lambda each: -each.at)}
    entries = HeadTree(vault.state).entries(by_path)
    ignored_paths = vault.history.ignored([path for path in by_path if path not in entries])
    shown_notes = [each for each in by_path.values() if each.path not in ignored_paths]
    return sorted(shown_notes, key=lambda each: (each.at, each.path))[:_MAX_SHOWN_NOTES]


def _write_message(
    event: Event, files: Mapping[str, File], shown_notes: Sequence[ShownNote]
) -> str:
    trailers = {
        "Agent-Id": event.author.agent,
        "Session-Id": event.author.session,
        "Intent": event.intent,
        "Confidence": "" if event.confidence is None else f"{event.confidence:g}",
        "Tool-Call": event.author.tool_call,
        "Vault-Event": event.name,
    }
    body = event.body or tuple(map(_describe_change, files.items()))
    subject = event.subject or _build_subject(event, files)
    return format_message(subject, body, trailers, shown_notes)


def _build_subject(event: Event, files: Mapping[str, File]) -> str:
    """Return an event's subject with its written files, or with its removed ones."""
    written_paths = [path for path, file in files.items() if file is not None]
    return format_files(
        event.name if written_paths else f"{event.name}: removed", written_paths or files
    )


def _describe_change(change: tuple[str, File]) -> str:
    path, file = change
    return f"{'removed' if file is None else 'wrote'} {path}"


def _identity(vault: Vault, author: Author, settings: CommitSettings | None) -> Identity:
    """Return an agent's identity from vaultmem.yaml, or the person's from git."""
    agent = author.agent
    if not agent:
        return vault.history.person(settings).identity
    name, _, email = vault.config.author.partition("<")
    address = email.replace("{agent}", slugify(agent)).rstrip("> ").strip()
    return Identity(name.replace("{agent}", agent).strip(), address)
