"""Operations that trace the memories about a line of code, or the spread of a memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import Front, Line, declare, word
from vaultmem.operations.note_data import format_seconds
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vaultmem.core.anchors import AnchorCheck
    from vaultmem.services.sessions.spread import Reader, Spread, Writing
    from vaultmem.services.sessions.trace_code import CodeTrace, TracedCommit
    from vaultmem.vault import Vault


def trace(
    vault: Vault,
    place: Annotated[str, word("A file of this repository: FILE, FILE:LINE or FILE:SYMBOL.", 1)],
) -> CodeTrace:
    """List memories and decisions about a line of code.

    These are the notes that cite it, and the decisions of the sessions that made its commits.
    """
    from vaultmem.services.sessions.trace_code import trace_code

    return trace_code(vault, place)


def trace_data(found: CodeTrace) -> dict[str, Any]:
    """Return the notes that cite a place in code, and its commits with their sessions."""
    return {
        **pick(found, "place project?"),
        "notes": [
            {**pick(each.record, "path title kind state"), "anchors": anchors_data(each.checks)}
            for each in found.notes
        ],
        "commits": [
            {
                **pick(each.commit, "commit day author subject"),
                "sessions": [
                    {
                        **pick(session.facts, "id path agent? goal?"),
                        "decisions": [pick(one, "target? text") for one in session.decisions],
                    }
                    for session in each.sessions
                ],
            }
            for each in found.commits
        ],
    }


def anchors_data(checks: Iterable[AnchorCheck]) -> list[dict[str, Any]]:
    """Return the status of each anchor of a note."""
    return [
        {
            "place": each.anchor.place,
            "project": each.anchor.project or None,
            "commit": each.anchor.commit or None,
            "status": each.status.value,
            "lines": each.lines,
            "moved_to": each.moved_to or None,
            "message": each.verdict,
        }
        for each in checks
    ]


def trace_lines(found: CodeTrace, _: Any) -> Iterator[Line]:
    """Yield each note with its anchors, and each commit with its session's decisions."""
    for note in found.notes:
        yield Line(f"{one_line(note.record.title)}  ", "bold", one_line(note.record.path))
        for check in note.checks:
            yield Line(f"    {check}", "yellow" if check.is_different else "")
    known = [each for each in found.commits if each.sessions]
    for traced in known:
        yield from _list_commit(traced)
    if not found.notes:
        yield Line(f"no memory cites {one_line(found.place)}")
    if not known:
        count = pluralize(len(found.commits), "commit")
        told = f"no session is known for its {count}" if found.commits else "not committed yet"
        yield Line(told)


def _list_commit(traced: TracedCommit) -> Iterator[Line]:
    commit = traced.commit
    subject, author = one_line(commit.subject), one_line(commit.author)
    yield Line(f"{commit.commit[:7]}  ", "yellow", f"{commit.day}  {subject}  ({author})")
    for session in traced.sessions:
        goal = f": {one_line(session.facts.goal)}" if session.facts.goal else ""
        yield Line(f"    session {session.facts.id}{goal}")
        for decision in session.decisions:
            yield Line(f"      decided: {one_line(decision.text)}")


TRACE = declare(
    trace,
    "trace_code",
    "",
    trace_data,
    lines=trace_lines,
    gives=record(
        place="string",
        project="string?",
        notes=rows(path="string", title="string"),
        commits=rows(commit="string", day="string", author="string", subject="string"),
    ),
    excused={
        Front.HTTP: "the server does not work in the caller's repository",
        Front.MCP: "the tool history has it as an action",
    },
)


# The spread of a note, a session or a commit.


def spread(vault: Vault, target: Annotated[str, word("A note, session or commit.", 1)]) -> Spread:
    """List the sessions that were shown a memory, and what they wrote after that."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.sessions.spread import find_spread
    from vaultmem.services.vaults.companions import EVERY, add_named

    try:
        vaults, skipped = add_named(vault, [EVERY])
    except RefusedError:  # The caller can read no other vault.
        vaults, skipped = [vault], []
    return find_spread(vaults, target)._replace(skipped=tuple(skipped))


def _spread_data(found: Spread) -> dict[str, Any]:
    return {
        **pick(found, "target sources"),
        "readers": [
            {
                **pick(each, "agent? session? vault? kind receipt? paths"),
                "time": format_seconds(each.at),
                "writings": [
                    {
                        **pick(one, "path vault? how? source? branches"),
                        "commit": one.commit.commit if one.commit else None,
                    }
                    for one in list_own(found, each)
                ],
            }
            for each in found.readers
        ],
    }


def _spread_lines(found: Spread, _: Any) -> Iterator[Line]:
    yield Line(f"{found.target}: shown to {pluralize(len(found.readers), 'session')}")
    for reader in found.readers:
        who = " ".join(filter(None, (reader.agent or "person", reader.session)))
        when = format_seconds(reader.at)[:16].replace("T", " ")
        source = f"receipt {reader.receipt}" if reader.receipt else reader.kind
        yield Line(f"{one_line(who)}  ", "bold", f"{when}  {source}")
        own = list_own(found, reader)
        for each in own:
            if each.how:
                yield Line(f"    {each.how:<8}  ", "yellow", _describe_writing(each))
        others = sum(not each.how for each in own)
        if others:
            yield Line(f"    {pluralize(others, 'other note')} written")


def list_own(found: Spread, reader: Reader) -> list[Writing]:
    """Return what a reader wrote after the memory was shown."""
    who = (reader.agent, reader.session)
    return [each for each in found.writings if (each.agent, each.session) == who]


def _describe_writing(writing: Writing) -> str:
    vault = f"{writing.vault}:" if writing.vault else ""
    commit = writing.commit.commit[:7] if writing.commit else "not committed"
    where = f"{', '.join(writing.branches)} {commit}".strip()
    source = f"  from {writing.source}" if writing.source != writing.path else ""
    return one_line(f"{vault}{writing.path}  ({where}){source}")


SPREAD = declare(
    spread,
    "trace_spread",
    "",
    _spread_data,
    lines=_spread_lines,
    warnings=lambda found: found.skipped,
    gives=record(target="string", sources=STRINGS, readers=rows(time="string", paths=STRINGS)),
    excused={
        Front.HTTP: "it reads the receipts and vaults of this machine",
        Front.MCP: "the owner follows a wrong memory",
    },
)
