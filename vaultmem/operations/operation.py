"""An operation of the API: its address, what it takes and gives, and the function that answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from vaultmem.operations.schemas import MOMENT, NOTE, Schema, arguments, text
from vaultmem.vault import Vault

#: What an operation was given: parameters of path and query, and fields of the body, by name.
Given = Mapping[str, Any]

#: The schema of an answer that nobody described.
ANYTHING: Schema = {"type": "object"}

#: Where all operations are.
BASE = "/api/v1"

#: The parts of addresses; those that may have `/` in them stand at the end.
PARTS: Mapping[str, Schema] = {
    "path": text(f"{NOTE} A slash in it may stand as it is.", 1_000),
    "commit": text("A commit, branch, tag or date such as 2026-10-01.", 200),
    "id": text("The id of what waits, or its beginning.", 64),
    "receipt": text("A receipt's id, or its beginning.", 64),
    "session": text("A session's id, or its beginning.", 200),
    "task": text("A task's id, or its beginning.", 200),
}

_SLASHED = frozenset({"path", "commit"})


class Moment(StrEnum):
    """What an operation can be asked about besides the folder as it is now."""

    NOW = "now"
    #: A branch, tag or commit, as `ref`.
    BRANCH = "branch"
    #: That, or a moment, as `at`: the function is given the vault as it was.
    SEEN = "seen"
    #: The same, but the function looks for `at` itself.
    ASKED = "asked"


class Tag(StrEnum):
    """How an answer's version is told."""

    NONE = "none"
    #: The note's blob id.
    BLOB = "blob"
    #: What the vault holds, as it is looked at.
    VIEW = "view"


_REF = text("A branch, tag or commit to look at; else what is checked out.", 200)
_BRANCH = text("The branch to write on; else what is checked out.", 200)


class Operation(NamedTuple):
    """One operation; its address is a method and a path below `BASE`: "GET /notes/{path}".

    `run` is given the vault and what was given, and returns what JSON is made of. `query` are the
    parameters behind the `?`, `body` the fields of a JSON object. One that `writes` comes after
    those before it; with `changes`, it changes the note at `path`, has to be told which version of
    it, and returns besides where the note is then. What takes `long` keeps no others waiting.
    """

    name: str
    address: str
    summary: str
    run: Callable[[Vault, Given], Any]
    query: Mapping[str, Schema] = {}
    body: Mapping[str, Schema] = {}
    required: tuple[str, ...] = ()
    gives: Schema = ANYTHING
    moment: Moment = Moment.NOW
    tag: Tag = Tag.NONE
    writes: bool = False
    changes: bool = False
    creates: bool = False
    long: bool = False

    @property
    def method(self) -> str:
        """The method of HTTP."""
        return self.address.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path below `BASE`, with names for its parts."""
        return self.address.partition(" ")[2]

    @property
    def route(self) -> str:
        """The path as Starlette has it."""
        parts = {name: f"{{{name}:path}}" for name in _SLASHED}
        return re.sub(r"\{(\w+)\}", lambda found: parts.get(found[1], found[0]), self.path)

    @property
    def parts(self) -> dict[str, Schema]:
        """What stands in the address."""
        return {name: PARTS[name] for name in re.findall(r"\{(\w+)\}", self.path)}

    @property
    def parameters(self) -> dict[str, Schema]:
        """What stands behind the `?`, with what moment is asked about."""
        moments: dict[str, Schema] = {}
        if self.moment in {Moment.SEEN, Moment.ASKED}:
            moments["at"] = text(MOMENT, 200)
        if self.moment is not Moment.NOW:
            moments["ref"] = _BRANCH if self.writes else _REF
        if self.moment is Moment.SEEN and not self.writes:
            moments["vault"] = text("Another vault of the user's to look at, by its name.", 200)
        return {**self.query, **moments}

    @property
    def takes(self) -> Schema:
        """All that can be given."""
        fields = {**self.parts, **self.parameters, **self.body}
        return arguments([*self.parts, *self.required], **fields)
