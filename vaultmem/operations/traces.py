"""Operations that trace the memories about a line of code, or the spread of a memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from vaultmem.core.text.display import format_names, one_line, pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import FrontEnd, Line, declare, word
from vaultmem.operations.note_data import format_seconds
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vaultmem.core.anchors import AnchorCheck
    from vaultmem.services.sessions.spread import LaterNote, Reader, Spread
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


def trace_data(result: CodeTrace) -> dict[str, Any]:
    """Return the notes that cite a place in code, and its commits with their sessions."""
    return {
        **pick(result, "place project?"),
        "notes": [
            {**pick(each.record, "path title kind state"), "anchors": anchors_data(each.checks)}
            for each in result.notes
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
            for each in result.commits
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


def trace_lines(result: CodeTrace, _: Any) -> Iterator[Line]:
    """Yield each note with its anchors, and each commit with its session's decisions."""
    for note in result.notes:
        yield Line(f"{one_line(note.record.title)}  ", "bold", one_line(note.record.path))
        for check in note.checks:
            yield Line(f"    {check}", "yellow" if check.is_different else "")
    commits = [each for each in result.commits if each.sessions]
    for traced_commit in commits:
        yield from _list_commit(traced_commit)
    if not result.notes:
        yield Line(f"no memory cites {one_line(result.place)}")
    if not commits:
        count = pluralize(len(result.commits), "commit")
        text = f"no session is known for its {count}" if result.commits else "not committed yet"
        yield Line(text)


def _list_commit(traced_commit: TracedCommit) -> Iterator[Line]:
    commit = traced_commit.commit
    subject, author = one_line(commit.subject), one_line(commit.author)
    yield Line(f"{commit.commit[:7]}  ", "yellow", f"{commit.day}  {subject}  ({author})")
    for session in traced_commit.sessions:
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
    output_schema=record(
        place="string",
        project="string?",
        notes=rows(path="string", title="string"),
        commits=rows(commit="string", day="string", author="string", subject="string"),
    ),
    excused={
        FrontEnd.HTTP: "the server does not work in the caller's repository",
        FrontEnd.MCP: "the tool history has it as an action",
    },
)


# The spread of a note, a session or a commit.


def spread(vault: Vault, target: Annotated[str, word("A note, session or commit.", 1)]) -> Spread:
    """List the sessions that were shown a memory, and what they wrote after that."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.sessions.spread import find_spread
    from vaultmem.services.vaults.companions import ALL_VAULTS, add_named

    try:
        vaults, skipped = add_named(vault, [ALL_VAULTS])
    except RefusedError:  # The caller can read no other vault.
        vaults, skipped = [vault], []
    return find_spread(vaults, target)._replace(skipped=tuple(skipped))


def _spread_data(result: Spread) -> dict[str, Any]:
    return {
        **pick(result, "target sources"),
        "readers": [
            {
                **pick(each, "agent? session? vault? kind receipt? paths"),
                "time": format_seconds(each.at),
                "writings": [
                    {
                        **pick(one, "path vault? how?=relation source? branches"),
                        "commit": one.commit.commit if one.commit else None,
                    }
                    for one in list_own(result, each)
                ],
            }
            for each in result.readers
        ],
    }


def _spread_lines(result: Spread, _: Any) -> Iterator[Line]:
    yield Line(f"{result.target}: shown to {pluralize(len(result.readers), 'session')}")
    for reader in result.readers:
        reader_name = " ".join(filter(None, (reader.agent or "person", reader.session)))
        timestamp = format_seconds(reader.at)[:16].replace("T", " ")
        source = f"receipt {reader.receipt}" if reader.receipt else reader.kind
        yield Line(f"{one_line(reader_name)}  ", "bold", f"{timestamp}  {source}")
        own = list_own(result, reader)
        for each in own:
            if each.relation:
                yield Line(f"    {each.relation:<8}  ", "yellow", _describe_writing(each))
        others = sum(not each.relation for each in own)
        if others:
            yield Line(f"    {pluralize(others, 'other note')} written")


def list_own(result: Spread, reader: Reader) -> list[LaterNote]:
    """Return what a reader wrote after the memory was shown."""
    author = (reader.agent, reader.session)
    return [each for each in result.writings if (each.agent, each.session) == author]


def _describe_writing(writing: LaterNote) -> str:
    vault = f"{writing.vault}:" if writing.vault else ""
    commit = writing.commit.commit[:7] if writing.commit else "not committed"
    place = f"{format_names(writing.branches)} {commit}".strip()
    source = f"  from {writing.source}" if writing.source != writing.path else ""
    return one_line(f"{vault}{writing.path}  ({place}){source}")


SPREAD = declare(
    spread,
    "trace_spread",
    "",
    _spread_data,
    lines=_spread_lines,
    warnings=lambda result: result.skipped,
    output_schema=record(
        target="string", sources=STRINGS, readers=rows(time="string", paths=STRINGS)
    ),
    excused={
        FrontEnd.HTTP: "it reads the receipts and vaults of this machine",
        FrontEnd.MCP: "the owner follows a wrong memory",
    },
)
