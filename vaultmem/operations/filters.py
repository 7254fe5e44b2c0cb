"""The arguments that filter notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from vaultmem.core.lifecycle import CONFLICTED, NoteKind, NoteState
from vaultmem.operations.declaration import Agent, Arg, FrontEnd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vaultmem.core.search.query import NoteFilter

_KINDS = [each.value for each in NoteKind]
_STATES = [*(each.value for each in NoteState), CONFLICTED]
_SHOWN_TO_AGENTS = sorted(each.value for each in NoteState if each is not NoteState.QUARANTINED)

#: Every session pays for each argument of a tool.
_RARE = {FrontEnd.MCP: "an agent narrows down by kind, state, tag, folder, author and date"}


#: The project whose notes are searched or listed.
ProjectScope = Annotated[
    str,
    Arg(
        "Project to search, with global notes; `all` for every one.  [default: the folder's]",
        "Else this one; `all`.",
        most=60,
        metavar="NAME",
    ),
]

#: The same for lists; agents can list only their own project.
ListScope = Annotated[
    str,
    Arg(
        "Project to list, with global notes; `all` for every one.  [default: the folder's]",
        most=60,
        metavar="NAME",
        excused={FrontEnd.MCP: "an agent works in one project; recall searches others"},
    ),
]


class Filters(NamedTuple):
    """Filters for notes; empty ones match all notes."""

    kind: Annotated[
        tuple[str, ...],
        Arg(
            "Only notes of this kind (repeatable).",
            Agent("As in remember.", words=()),
            words=_KINDS,
            metavar="KIND",
        ),
    ] = ()
    state: Annotated[
        tuple[str, ...],
        Arg(
            "Only notes in this state (repeatable).",
            Agent(words=_SHOWN_TO_AGENTS),
            words=_STATES,
            metavar="STATE",
        ),
    ] = ()
    tag: Annotated[
        tuple[str, ...],
        Arg("Only notes with this tag or one inside it.", "All of these.", metavar="TAG"),
    ] = ()
    context: Annotated[
        str, Arg("Only notes of this context (folder).", "Folder.", most=200, metavar="NAME")
    ] = ""
    pinned: Annotated[
        bool | None,
        Arg(
            "Only notes that are pinned, or are not.",
            flags=("--pinned/--no-pinned",),
            excused=_RARE,
        ),
    ] = None
    from_agent: Annotated[str, Arg("Only notes that this agent wrote.", most=200, metavar="ID")] = (
        ""
    )
    from_session: Annotated[
        str, Arg("Only notes of this session.", most=200, metavar="ID", excused=_RARE)
    ] = ""
    since: Annotated[
        str, Arg("Only notes written then or later (2026-10-01).", most=40, metavar="DATE")
    ] = ""
    until: Annotated[str, Arg("Only notes written then or earlier.", most=40, metavar="DATE")] = ""
    path: Annotated[
        tuple[str, ...],
        Arg(
            "Only notes in this folder, or of such paths: notes/*auth*.",
            metavar="PATTERN",
            excused=_RARE,
        ),
    ] = ()

    def make_filter(self, *, any_state: bool = False) -> NoteFilter:
        """Return the filter that the arguments describe.

        Raises:
            RefusedError: a kind, a state or a date is invalid.
        """
        from vaultmem.core.lifecycle import parse_kind
        from vaultmem.core.search.query import NoteFilter
        from vaultmem.core.text.timestamps import parse_timestamp

        return NoteFilter(
            kinds=frozenset(map(parse_kind, self.kind)),
            states=read_states(self.state),
            tags=self.tag,
            context=self.context.strip("/"),
            pinned=self.pinned,
            any_state=any_state,
            conflicted=CONFLICTED in self.state,
            agent=self.from_agent,
            session=self.from_session,
            since=parse_timestamp(self.since) if self.since else None,
            until=parse_timestamp(self.until, end_of_day=True) if self.until else None,
            paths=self.path,
        )


def read_states(names: Iterable[str]) -> frozenset[NoteState]:
    """Return the named states, without the one for conflicted notes.

    Raises:
        RefusedError: a name is not a state.
    """
    from vaultmem.core.lifecycle import parse_state

    return frozenset(parse_state(each, to_find=True) for each in names if each != CONFLICTED)
