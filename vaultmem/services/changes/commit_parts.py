"""Split uncommitted changes into the commits of an event, by author."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.clients.auto_memory import find_writer
from vaultmem.core.commit_message import COLUMNS, cut
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.core.text.display import pluralize
from vaultmem.errors import RefusedError
from vaultmem.services.changes.ownership import (
    CLOSE,
    HOW_TO_ALLOW,
    PROMOTE,
    PendingFiles,
    find_hand_events,
    find_leaks_since,
    is_own,
    is_persons,
)
from vaultmem.storage.git.commit_draft import File
from vaultmem.storage.journal import Author
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Session

#: Start of the reason for a file skipped because of a credential.
LEAK = "looks like a credential"

#: The event that commits an author's changes. A person's includes their hand edits.
CHECKPOINT = "checkpoint"

#: The event of a removal, whose commit contains the reason.
FORGET = "forget"


class Event(NamedTuple):
    """An event that becomes a commit.

    `subject` is its first line, "" to list the files. `only` limits the event's own commit to these
    paths; empty means everything its author wrote. Hand edits by others go first. With
    `without_leaks`, files with a possible credential are skipped instead of rejecting the event.
    """

    name: str
    subject: str
    author: Author
    body: tuple[str, ...] = ()
    intent: str = ""
    confidence: float | None = None
    only: tuple[str, ...] = ()
    without_leaks: bool = False


class CommitPart(NamedTuple):
    """A commit to be made: its event and its files."""

    event: Event
    files: dict[str, File]


class CommitPlan(NamedTuple):
    """All commits of one event, in order; the last is the event's own if `has_own`."""

    parts: list[CommitPart]
    has_own: bool = False
    skipped: Mapping[str, str] = MappingProxyType({})


def split_event(
    vault: Vault, event: Event, pending: PendingFiles, even_if_clean: bool
) -> CommitPlan:
    """Put other authors' changes and hand-made events before the event's own commit.

    A note that the event names counts only for this event. Text of a running session stays for that
    session to commit, unless a person commits.
    """
    if not pending.files and not even_if_clean:
        return CommitPlan([], skipped=pending.skipped)
    event = event._replace(author=_with_session(event, pending))
    if not event.only:
        pending = pending.without(find_running(vault, event.author, pending))
    own, hand_paths = _find_own(vault, event, pending), pending.by_hand()
    others = hand_paths if event.only else set(pending.files)
    leaks = _find_leaks(vault, pending, own | others)
    if not event.without_leaks:
        _reject_secrets({path: leaks[path] for path in leaks if path in own or not event.only})
    pending = pending.without(_describe_leaks(leaks))
    hand_parts, pending = _split_said(vault, pending, hand_paths - set(event.only), event.only)
    files = pending.of(own.difference(*(part.files for part in hand_parts)))
    has_own = bool(files) or not event.only
    if event.only and not vault.config.commit_edits:
        others = set()
    final_parts = [*hand_parts, CommitPart(event, files)] if has_own else hand_parts
    return CommitPlan(_split_before(pending, others, final_parts), has_own, pending.skipped)


def split_said(vault: Vault, pending: PendingFiles) -> CommitPlan:
    """Split off hand-made events, preceded by a person's other edits; the rest waits."""
    hand_paths = pending.by_hand()
    pending = pending.without(_describe_leaks(_find_leaks(vault, pending, hand_paths)))
    hand_parts, pending = _split_said(vault, pending, hand_paths)
    edits = hand_paths if hand_parts and vault.config.commit_edits else set()
    return CommitPlan(_split_before(pending, edits, hand_parts), bool(hand_parts), pending.skipped)


def split_edits(vault: Vault, pending: PendingFiles) -> CommitPlan:
    """Split off a person's changes, preceded by agents' text in them; the rest waits."""
    edits = {path for path in pending.files if is_persons(pending.owners[path].author)}
    return split_notes(vault, pending, edits, f"; {HOW_TO_ALLOW}")


def split_notes(
    vault: Vault, pending: PendingFiles, paths: Set[str], remedy: str = ""
) -> CommitPlan:
    """Split these files by author; a file with a possible credential waits."""
    leaks = _describe_leaks(_find_leaks(vault, pending, paths))
    reasons = {path: f"{reason}{remedy}" for path, reason in leaks.items()}
    return _split_by_owner(vault, pending.without(reasons), paths)


def split_all(vault: Vault, pending: PendingFiles) -> CommitPlan:
    """Split all changes by author, with hand-made events, without another event.

    Raises:
        RefusedError: some text looks like a credential.
    """
    leaks = _find_leaks(vault, pending, pending.files)
    _reject_secrets(leaks)
    pending = pending.without(_describe_leaks(leaks))
    return _split_by_owner(vault, pending, pending.files.keys())


def join_moves(plan: CommitPlan, pending: PendingFiles) -> CommitPlan:
    """Put the removal of a moved note into the commit that first has its new name.

    So git follows its lines to their authors. A `forget` keeps its removal and reason.
    """
    files = [dict(part.files) for part in plan.parts]
    homes = {path: index for index, part in enumerate(files) for path in part if part[path] is None}
    written_paths: set[str] = set()
    for index, part in enumerate(plan.parts):
        for path, file in part.files.items():
            old = pending.moved.get(path, "")
            if (
                not file
                or path in written_paths
                or not (old in pending.files or old in written_paths)
            ):
                continue
            home = homes.get(old, index)
            if plan.parts[home].event.name != FORGET:
                files[home].pop(old, None)
                files[index][old] = None
        written_paths |= part.files.keys()
    # An event whose subject lists its files makes no commit without files.
    has_own = plan.has_own and bool(files[-1] or plan.parts[-1].event.subject)
    last_index = len(files) - 1 if has_own else -1
    return plan._replace(
        has_own=has_own,
        parts=[
            part._replace(files=files[index])
            for index, part in enumerate(plan.parts)
            if files[index] or index == last_index
        ],
    )


def make_close(session: Session, author: Author, summary: str = "") -> Event:
    """Return the event of an ended session, with the first line of its summary."""
    first_line = (summary or session.summary).strip().partition("\n")[0].strip()
    agent = f"agent {author.agent}" if author.agent else ""
    lines = (f"session {session.facts.id}", agent, f"status {session.facts.status}")
    body = (*filter(None, lines), *wrap(first_line, COLUMNS))
    return Event(CLOSE, name_session(CLOSE, session, first_line), author, body, "checkpoint")


def name_session(kind: str, session: Session, fallback: str = "") -> str:
    """Return the subject of a session's event: its goal, or else its title, `fallback` or id.

    Possible credentials are masked, because such a message would be rejected.
    """
    facts = session.facts
    title = "" if facts.title.strip().lower() == facts.id.lower() else facts.title
    counts = ", ".join(
        pluralize(count, noun)
        for count, noun in ((facts.decisions, "decision"), (facts.questions, "open question"))
        if count
    )
    tail = f" ({counts})" if counts else ""
    text = " ".join(mask_secrets(facts.goal or title or fallback or facts.id).split())
    return f"{kind}: {cut(text, COLUMNS - len(f'{kind}: {tail}'))}{tail}"


def format_secrets(vault: Vault, pending: PendingFiles) -> tuple[str, ...]:
    """Return the places of possible credentials, which block the commit."""
    leaks = _find_leaks(vault, pending, pending.files)
    return tuple(place for places in leaks.values() for place in places)


def _with_session(event: Event, pending: PendingFiles) -> Author:
    """Return the event's author, with the one session that wrote its files if it names none."""
    paths = event.only or pending.owners
    authors = {pending.owners[path].author for path in paths if path in pending.owners}
    sessions = {each.session for each in authors if each and each.agent == event.author.agent}
    sessions.discard("")
    if event.author.session or len(sessions) != 1:
        return event.author
    return event.author._replace(session=sessions.pop())


def find_running(vault: Vault, agent: Author, pending: PendingFiles) -> dict[str, str]:
    """Return paths written by other running sessions than an agent's, with the reason to wait.

    A person waits for no session.
    """
    if not agent.agent:
        return {}
    active = ActiveSessions(vault.state_folder)
    authors = {path: owner.author for path, owner in pending.owners.items()}
    others = {author for author in authors.values() if author and not is_own(author, agent)}
    running_authors = {
        author for author in others if (record := active.find(author.session)) and record.is_there
    }
    return {
        path: f"of {author.agent}'s session {author.session}, which goes on"
        for path, author in authors.items()
        if author in running_authors
    }


def _find_own(vault: Vault, event: Event, pending: PendingFiles) -> set[str]:
    """Return the paths of the event's own commit."""
    if event.only:
        return pending.files.keys() & set(event.only)
    is_persons_checkpoint = event.name == CHECKPOINT and not event.author.agent
    has_hand_edits = is_persons_checkpoint or not vault.config.commit_edits
    return {*pending.written_by(event.author), *(pending.by_hand() if has_hand_edits else ())}


def _split_by_owner(vault: Vault, pending: PendingFiles, paths: Set[str]) -> CommitPlan:
    """Split these files by author and by hand-made events."""
    hand_parts, pending = _split_said(vault, pending, paths)
    return CommitPlan(_split_before(pending, paths, hand_parts), skipped=pending.skipped)


def _split_said(
    vault: Vault, pending: PendingFiles, paths: Set[str], event_paths: Iterable[str] = ()
) -> tuple[list[CommitPart], PendingFiles]:
    """Return the hand-made events of these files: one promotion, and each session's end.

    A session's end includes its files, except `event_paths`, which the event itself names. If they
    contain a possible credential, the session's note waits: the returned pending files lack it.
    """
    edits = find_hand_events(vault, pending, paths)
    promoted_paths = [str(each.note.path) for each in edits if each.event == PROMOTE]
    parts = (
        [CommitPart(_make_promotion(promoted_paths), pending.of(promoted_paths))]
        if promoted_paths
        else []
    )
    reasons: dict[str, str] = {}
    used_paths = {*event_paths, *(str(each.note.path) for each in edits)}
    for note in (each.note for each in edits if each.event == CLOSE):
        session = parse_session(note)
        author = Author(session.facts.agent, session.facts.id)
        session_paths = set(pending.written_by(author)) - used_paths
        files = pending.of({str(note.path), *session_paths})
        if leaks := _find_leaks(vault, pending, files):
            reasons[str(note.path)] = next(iter(_describe_leaks(leaks).values()))
            continue
        first_line = next(filter(None, map(str.strip, note.visible_body.splitlines())), "")
        parts.append(CommitPart(make_close(session, author, session.summary or first_line), files))
        used_paths |= session_paths
    return parts, pending.without(reasons)


def _split_before(
    pending: PendingFiles, paths: Set[str], last_parts: Sequence[CommitPart]
) -> list[CommitPart]:
    """Split these files by author, and put those commits before `last_parts`.

    An agent's text goes before a person's hand edit of it.
    """
    last_authors = {path: part.event.author for part in last_parts for path in part.files}
    files = pending.of(paths - last_authors.keys())
    authors = {path: pending.owners[path].author for path in files}
    drafts: dict[str, File] = {}
    writers: dict[str, Author | None] = {}
    for path, file in pending.files.items():
        draft = pending.owners[path].draft
        if draft is None or file is None:
            continue
        if path in files or (path in last_authors and not is_own(draft.author, last_authors[path])):
            drafts[draft.path] = (file[0], draft.data)
            writers[draft.path] = draft.author
    return [*_group(drafts, writers), *_group(files, authors), *last_parts]


def _group(files: Mapping[str, File], authors: Mapping[str, Author | None]) -> list[CommitPart]:
    """Return a part for each author and session: a person's `edit`, an agent's `write`."""
    groups: dict[Author, dict[str, File]] = {}
    for path in sorted(files):
        author = authors[path] or Author("")
        groups.setdefault(author._replace(tool_call=""), {})[path] = files[path]
    ordered_groups = sorted(groups.items(), key=lambda each: (each[0].agent, each[0].session))
    return [
        CommitPart(
            Event("write" if author.agent else "edit", "", author, intent="observe"), part_files
        )
        for author, part_files in ordered_groups
    ]


def _make_promotion(paths: Sequence[str]) -> Event:
    lines = tuple(f"{path}: candidate to active" for path in paths)
    return Event(PROMOTE, "", Author(""), lines, "refine")


def _find_leaks(vault: Vault, pending: PendingFiles, paths: Iterable[str]) -> dict[str, list[str]]:
    """Return, by path, the places of possible credentials that HEAD does not have."""
    return find_leaks_since(vault, pending.of(paths), pending.parent)


def _reject_secrets(leaks: Mapping[str, list[str]]) -> None:
    """Reject a commit with possible credentials; files of a client's own memory only wait.

    Raises:
        RefusedError: another file has one.
    """
    if places := [
        place
        for path, file_places in leaks.items()
        if not find_writer(path)
        for place in file_places
    ]:
        raise RefusedError(
            f"not committed, this looks like a credential: {'; '.join(places)}. To go on: "
            f"{HOW_TO_ALLOW}"
        )


def _describe_leaks(leaks: Mapping[str, list[str]]) -> dict[str, str]:
    """Return why files are skipped, by path."""
    return {path: f"{LEAK} ({places[0]})" for path, places in leaks.items()}
