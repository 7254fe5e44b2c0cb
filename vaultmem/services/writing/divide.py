"""Divide what no commit has yet into the commits of an event, by who wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.counting import count_things
from vaultmem.core.delta.commit_message import COLUMNS, cut
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.errors import RefusedError
from vaultmem.services.writing.hand_edits import find_said
from vaultmem.services.writing.leaks import HOW_TO_ALLOW, find_leaks_since
from vaultmem.services.writing.pending import Pending, is_own, is_persons
from vaultmem.storage.git.commit_draft import File
from vaultmem.storage.journal import Author
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Session

#: The event of a session's end.
CLOSE = "session-close"

#: How the reason begins for which a file with a credential is left out.
LEAK = "looks like a credential"

#: The event by which an author commits what changed. A person's own has their edits by hand.
CHECKPOINT = "checkpoint"

#: The event of a removal, whose commit says why.
FORGET = "forget"


class Event(NamedTuple):
    """One of the events that become a commit.

    `subject` is its first line, "" for one that names the files.

    `only` limits the event's own commit to these paths; empty means all that its author wrote.
    Hand edits of others go first. With `without_leaks`, files with what looks like a credential are
    left out, and do not refuse the event.
    """

    name: str
    subject: str
    author: Author
    body: tuple[str, ...] = ()
    intent: str = ""
    confidence: float | None = None
    only: tuple[str, ...] = ()
    without_leaks: bool = False


class Part(NamedTuple):
    """A commit that is to be made: why, and which files are in it."""

    event: Event
    files: dict[str, File]


class Plan(NamedTuple):
    """All commits of one event, in order; the last is the event's own if `has_own`."""

    parts: list[Part]
    has_own: bool = False
    skipped: Mapping[str, str] = MappingProxyType({})

    @property
    def has_closed(self) -> bool:
        """Tell whether a session ends."""
        return any(part.event.name == CLOSE for part in self.parts)


def divide_event(vault: Vault, event: Event, pending: Pending) -> Plan:
    """Put what is not the event's own before it: what others wrote, and what was said by hand.

    A note that the event names says nothing but the event. What a session wrote that goes on stays
    that session's to commit, but where a person commits.
    """
    event = event._replace(author=_with_session(event, pending))
    living = _find_living(vault, event, pending)
    files = {path: file for path, file in pending.files.items() if path not in living}
    pending = pending._replace(files=files, skipped=pending.skipped | living)
    leaks = find_leaks_since(vault, pending.files, pending.parent)
    if event.without_leaks:
        files = {path: file for path, file in pending.files.items() if path not in leaks}
        pending = pending._replace(files=files, skipped=pending.skipped | _name_held(leaks))
        leaks = {}
    said = _divide_said(vault, pending, pending.files.keys() - set(event.only), event.only)
    own = _own_paths(vault, event, pending) - said.paths
    others = pending.files.keys() - own - said.paths
    skipped = dict(pending.skipped)
    if event.only:
        others = {path for path in others if _is_hand_edit(vault, pending, path)}
        held = {path: leaks.pop(path) for path in leaks.keys() - own}
        skipped |= said.held | _name_held({path: held[path] for path in held.keys() & others})
        others -= held.keys()
    _refuse_leaks(leaks)
    has_own = bool(own) or not event.only
    last = [*said.parts, Part(event, pending.of(own))] if has_own else said.parts
    return Plan(_divide_before(pending, others, last), has_own, skipped)


def divide_said(vault: Vault, pending: Pending) -> Plan:
    """Divide what was said by hand, and before it a person's other edits; all else waits."""
    said = _divide_said(vault, pending, pending.files.keys())
    if not said.parts:
        return Plan([], skipped=said.held)
    edits = {path for path in pending.files if _is_hand_edit(vault, pending, path)} - said.paths
    held = _name_held(find_leaks_since(vault, pending.of(edits), pending.parent))
    parts = _divide_before(pending, edits - held.keys(), said.parts)
    return Plan(parts, skipped={**pending.skipped, **said.held, **held})


def divide_edits(vault: Vault, pending: Pending) -> Plan:
    """Divide a person's changes, and before them what agents had written there; all else waits.

    A note that looks like a credential waits too.
    """
    edits = {path for path, who in pending.authors.items() if is_persons(who)}
    leaks = find_leaks_since(vault, pending.of(edits), pending.parent)
    held = {path: f"{why}; {HOW_TO_ALLOW}" for path, why in _name_held(leaks).items()}
    parts = divide_others(vault, pending, edits - held.keys())
    return Plan(parts, skipped={**pending.skipped, **held})


def divide_all(vault: Vault, pending: Pending) -> Plan:
    """Divide all there is by who wrote it, and what it says by hand; there is no event of its own.

    Raises:
        RefusedError: something looks like a credential.
    """
    _refuse_leaks(find_leaks_since(vault, pending.files, pending.parent))
    return Plan(divide_others(vault, pending, pending.files.keys()), skipped=pending.skipped)


def name_leaks(vault: Vault, pending: Pending) -> tuple[str, ...]:
    """Return where something looks like a credential, which keeps all from being committed."""
    found = find_leaks_since(vault, pending.files, pending.parent)
    return tuple(place for places in found.values() for place in places)


def _own_paths(vault: Vault, event: Event, pending: Pending) -> set[str]:
    """Return the paths of the event's own commit."""
    if event.only:
        return pending.files.keys() & set(event.only)
    is_persons_checkpoint = event.name == CHECKPOINT and not event.author.agent
    by_hand = is_persons_checkpoint or not vault.config.edit_commits
    return {
        path
        for path, written in pending.authors.items()
        if (by_hand if written is None else is_own(written, event.author))
    }


def _find_living(vault: Vault, event: Event, pending: Pending) -> dict[str, str]:
    """Return what others wrote whose session's process is there, by path, with why it waits."""
    if event.only or not event.author.agent:
        return {}
    active = ActiveSessions(vault.state_folder)
    others = {who for who in pending.authors.values() if who and not is_own(who, event.author)}
    living = {who for who in others if (found := active.find(who.session)) and found.is_there}
    return {
        path: f"of {who.agent}'s session {who.session}, which goes on"
        for path, who in pending.authors.items()
        if who in living
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


def divide_others(vault: Vault, pending: Pending, paths: Set[str]) -> list[Part]:
    """Divide these files by who wrote them, and what they say by hand."""
    wanted = paths & pending.files.keys()
    said = _divide_said(vault, pending, wanted)
    return _divide_before(pending, wanted - said.paths, said.parts)


class _Said(NamedTuple):
    """The parts that say what was said by hand, all paths of it, and why some have to wait."""

    parts: list[Part]
    paths: set[str]
    held: dict[str, str]


def _divide_said(
    vault: Vault, pending: Pending, paths: Set[str], named: Iterable[str] = ()
) -> _Said:
    """Make what these files say by hand parts: one promotion, and the end of each session.

    With a session's end goes what it wrote, but for what is `named` by the event itself.
    """
    said = find_said(vault, pending, paths)
    held = _name_held(find_leaks_since(vault, pending.of(said.promoted), pending.parent))
    taken = {*said.paths, *named}
    parts = []
    if promoted := [path for path in said.promoted if path not in held]:
        parts.append(Part(_make_promotion(promoted), pending.of(promoted)))
    for note in said.closed:
        session = parse_session(note)
        author = Author(session.facts.agent, session.facts.id)
        wrote = set(pending.written_by(author)) - taken
        files = pending.of({str(note.path), *wrote})
        if leaks := find_leaks_since(vault, files, pending.parent):
            held[str(note.path)] = next(iter(_name_held(leaks).values()))
            continue
        begins = next(filter(None, map(str.strip, note.visible_body.splitlines())), "")
        parts.append(Part(make_close(session, author, session.summary or begins), files))
        taken |= wrote
    return _Said(parts, taken.difference(named), held)


def make_close(session: Session, author: Author, summary: str = "") -> Event:
    """Return the event of a session that has ended; it tells the first line of a summary."""
    told = (summary or session.summary).strip().partition("\n")[0].strip()
    agent = f"agent {author.agent}" if author.agent else ""
    lines = (f"session {session.facts.id}", agent, f"status {session.facts.status}")
    body = (*filter(None, lines), *wrap(told, COLUMNS))
    return Event(CLOSE, name_session(CLOSE, session, told), author, body, "checkpoint")


def name_session(kind: str, session: Session, told: str = "") -> str:
    """Return the subject of what happens to a session: its goal, else what is told of it.

    What looks like a credential there is left out, for no commit would be made that says it.
    """
    facts = session.facts
    title = "" if facts.title.strip().lower() == facts.id.lower() else facts.title
    counts = ", ".join(
        count_things(count, noun)
        for count, noun in ((facts.decisions, "decision"), (facts.questions, "open question"))
        if count
    )
    tail = f" ({counts})" if counts else ""
    what = " ".join(mask_secrets(facts.goal or title or told or facts.id).split())
    return f"{kind}: {cut(what, COLUMNS - len(f'{kind}: {tail}'))}{tail}"


def _make_promotion(paths: Sequence[str]) -> Event:
    lines = tuple(f"{path}: candidate to active" for path in paths)
    return Event("promote", "", Author(""), lines, "refine")


def _name_held(leaks: Mapping[str, list[str]]) -> dict[str, str]:
    """Return why files are left out, by path."""
    return {path: f"{LEAK} ({places[0]})" for path, places in leaks.items()}


def _divide_before(pending: Pending, paths: Set[str], last: Sequence[Part]) -> list[Part]:
    """Divide these files by who wrote them, and put it before the `last` parts.

    What an agent wrote comes before what a person changed of it by hand.
    """
    whose = {path: part.event.author for part in last for path in part.files}
    drafts = [
        draft
        for path, draft in pending.drafts.items()
        if path in paths or (path in whose and not is_own(draft.author, whose[path]))
    ]
    files = {draft.path: draft.file for draft in drafts}
    return [
        *_divide(files, {draft.path: draft.author for draft in drafts}),
        *_divide(pending.of(paths), pending.authors),
        *last,
    ]


def _divide(files: Mapping[str, File], authors: Mapping[str, Author | None]) -> list[Part]:
    groups: dict[Author, dict[str, File]] = {}
    for path in sorted(files):
        written = authors[path] or Author("")
        groups.setdefault(written._replace(tool_call=""), {})[path] = files[path]
    ordered = sorted(groups.items(), key=lambda each: (each[0].agent, each[0].session))
    return [
        Part(Event("write" if who.agent else "edit", "", who, intent="observe"), some)
        for who, some in ordered
    ]


def join_moves(plan: Plan, pending: Pending) -> Plan:
    """Put the removal of a moved note into the commit that first has it under its new name.

    So git follows its lines to those who wrote them. What is forgotten stays with its reason.
    """
    files = [dict(part.files) for part in plan.parts]
    homes = {path: at for at, part in enumerate(files) for path in part if part[path] is None}
    written: set[str] = set()
    for at, part in enumerate(plan.parts):
        for path, file in part.files.items():
            old = pending.moved.get(path, "")
            if not file or path in written or not (old in pending.files or old in written):
                continue
            home = homes.get(old, at)
            if plan.parts[home].event.name != FORGET:
                files[home].pop(old, None)
                files[at][old] = None
        written |= part.files.keys()
    # An event that is named after its files makes no commit without any.
    has_own = plan.has_own and bool(files[-1] or plan.parts[-1].event.subject)
    last = len(files) - 1 if has_own else -1
    return plan._replace(
        has_own=has_own,
        parts=[
            part._replace(files=files[at])
            for at, part in enumerate(plan.parts)
            if files[at] or at == last
        ],
    )


def _refuse_leaks(leaks: Mapping[str, list[str]]) -> None:
    if places := [place for found in leaks.values() for place in found]:
        raise RefusedError(
            f"not committed, this looks like a credential: {'; '.join(places)}. To go on: "
            f"{HOW_TO_ALLOW}"
        )
