"""An operation, declared once: its request, its function and its result.

A request is a named tuple whose fields are annotated with an `Arg`. The shell's options and the
schemas of HTTP and MCP are generated from it. `declare` generates the request from a function's
arguments.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial, wraps
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from vaultmem.core.text.json_values import pick
from vaultmem.operations.schemas import (
    NOTE,
    Schema,
    arguments,
    choice,
    flag,
    number,
    text,
    texts,
    unlist,
    values,
    whole,
)

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from vaultmem.vault import Vault

#: An operation's arguments by name: path and query parameters, and fields of the body.
Given = Mapping[str, Any]

#: The schema of a result without a description.
ANYTHING: Schema = {"type": "object"}

#: The path prefix of all operations.
BASE = "/api/v1"

#: The parts of paths; those that can contain `/` come last.
PARTS: Mapping[str, Schema] = {
    "path": text(f"{NOTE} A slash in it needs no escape.", 1_000),
    "commit": text("A commit, branch, tag or date such as 2026-10-01.", 200),
    "id": text("Id of the item, or its beginning.", 64),
    "receipt": text("A receipt's id, or its beginning.", 64),
    "session": text("A session's id, or its beginning.", 200),
    "task": text("A task's id, or its beginning.", 200),
    "source": text("The name of a source of reference material.", 200),
    "artifact": text("The digest that a view names, or its beginning.", 64),
}

_SLASHED = frozenset({"path", "commit"})


class FrontEnd(StrEnum):
    """A front end; it offers every argument of an operation that does not excuse it."""

    SHELL = "shell"
    HTTP = "http"
    MCP = "mcp"


class ArgumentForm(StrEnum):
    """The form of an argument in the shell."""

    OPTION = "option"
    #: One option with comma-separated names.
    COMMAS = "commas"
    #: One option, repeated, each time NAME=VALUE.
    VALUES = "values"
    #: A word after the command.
    WORD = "word"
    #: All words after the command, as one text or a list.
    WORDS = "words"
    #: The same, but `-` reads standard input.
    INPUT = "input"
    #: The option of that name, shared by nearly all commands.
    SHARED = "shared"
    #: A word after the command, or that option.
    MEANT = "meant"


class Agent(NamedTuple):
    """An argument's text or bounds for models, if they differ.

    Every session pays for each word of `text`. `words` are the possible values; if empty, none are
    listed. An argument that is not listed is still accepted. `name` is its name in a tool whose
    actions share an argument.
    """

    text: str = ""
    least: float | None = None
    most: float | None = None
    words: Sequence[str] | None = None
    is_listed: bool = True
    name: str = ""


class Arg(NamedTuple):
    """One argument of an operation.

    `help` is for people, `agent` for models. `least` and `most` bound a number, or a text's length
    in characters; `words` are the possible values. `flags` are the shell's options, by default the
    argument's name. `excused` has the reason of each front end that does not offer it.
    """

    help: str
    agent: str | Agent = ""
    least: float | None = None
    most: float | None = None
    words: Sequence[str] = ()
    takes: ArgumentForm = ArgumentForm.OPTION
    flags: tuple[str, ...] = ()
    metavar: str = ""
    excused: Mapping[FrontEnd, str] = {}


def word(help: str, least: int = 0, most: int = 1_000, metavar: str = "") -> Arg:
    """Return an argument that is one word after the command in the shell."""
    return Arg(help, "", least, most, takes=ArgumentForm.WORD, metavar=metavar)


def words(help: str, least: int = 0, metavar: str = "PATH...") -> Arg:
    """Return an argument that is all words after the command in the shell."""
    return Arg(help, "", least, takes=ArgumentForm.WORDS, metavar=metavar)


def at_most(help: str, most: int) -> Arg:
    """Return an argument that limits a number of results; the shell also accepts -n."""
    return Arg(help, "", 1, most, flags=("-n", "--limit"), metavar="N")


class NoArguments(NamedTuple):
    """The request of an operation without arguments."""


#: The style of text that is printed unchanged, such as a note's.
RAW = "raw"


class Line(NamedTuple):
    """A line of output: a text in a style ("": none), and the rest of the line."""

    text: str
    style: str = ""
    rest: str = ""


#: Tokens of a result for a model: default, minimum and maximum.
BUDGET, MIN_RESULT_TOKENS, MAX_RESULT_TOKENS = 2_000, 200, 20_000


class Argument(NamedTuple):
    """An argument as its request declares it.

    `field` is its name in the request. `name` is the same without a trailing `_`, for people and
    programs. `kind` is its type, without None if it `is_optional`.
    """

    field: str
    name: str
    kind: Any
    is_optional: bool
    is_required: bool
    default: Any
    arg: Arg

    def name_for(self, front: FrontEnd) -> str:
        """Return the argument's name in a front end."""
        agent = self.arg.agent
        agent_name = agent.name if front is FrontEnd.MCP and isinstance(agent, Agent) else ""
        return agent_name or self.name

    def write_schema(self, front: FrontEnd) -> Schema:
        """Return the argument's JSON Schema for a front end."""
        schema = self._write_type(front)
        agent = self.arg.agent
        if front is FrontEnd.MCP and isinstance(agent, Agent) and not agent.is_listed:
            return unlist(schema)
        return {**schema, "default": self.default} if self._tells_default(front) else schema

    def _tells_default(self, front: FrontEnd) -> bool:
        return front is FrontEnd.HTTP and bool(self.default)

    def _write_type(self, front: FrontEnd) -> Schema:
        arg, agent = self.arg, Agent()
        if front is FrontEnd.MCP:
            agent = arg.agent if isinstance(arg.agent, Agent) else Agent(arg.agent)
        description = agent.text if front is FrontEnd.MCP else arg.help
        least, most = (
            narrow if narrow is not None else wide
            for narrow, wide in ((agent.least, arg.least), (agent.most, arg.most))
        )
        words = arg.words if agent.words is None else agent.words
        if arg.takes is ArgumentForm.VALUES:
            return values(description)
        if self.kind is bool:
            return flag(description)
        if self.kind is int:
            return whole(description, int(least or 0), int(most or 0))
        if self.kind is float:
            return number(description, least or 0, most or 0)
        if self.kind is str:
            size = int(most or 10_000), int(least or 0)
            return choice(description, words) if words else text(description, *size)
        return texts(description, words, int(least or 0))


@cache
def _find_hints(request: Any) -> dict[str, Any]:
    return get_type_hints(request, include_extras=True)


def list_arguments(request: Any) -> Iterator[Argument]:
    """Yield the arguments of a request in order, including those of nested requests."""
    for field, hint in _find_hints(request).items():
        if hasattr(hint, "_fields"):
            yield from list_arguments(hint)
            continue
        declared, arg = get_args(hint)
        kinds = [each for each in get_args(declared) if each is not type(None)]
        is_optional = type(None) in get_args(declared)
        kind = kinds[0] if is_optional else declared
        defaults = request._field_defaults
        yield Argument(
            field,
            field.removesuffix("_"),
            kind,
            is_optional,
            field not in defaults,
            defaults.get(field),
            arg,
        )


def offer(request: Any, front: FrontEnd) -> list[Argument]:
    """Return the arguments of a request that a front end offers."""
    return [each for each in list_arguments(request) if front not in each.arg.excused]


def describe(request: Any, front: FrontEnd, but: Sequence[str] = (), **more: Schema) -> Schema:
    """Return the schema of a request for a front end, without the arguments `but`.

    `more` are the front end's own arguments.
    """
    offered = [each for each in offer(request, front) if each.name not in but]
    properties = {each.name_for(front): each.write_schema(front) for each in offered}
    required = [each.name_for(front) for each in offered if each.is_required]
    return arguments(required, **properties, **more)


def share(requests: Iterable[Any], required: Sequence[str], **more: Schema) -> Schema:
    """Return the schema of a tool that several requests share; `more` are its own arguments."""
    fields: dict[str, Schema] = {}
    for request in requests:
        fields |= describe(request, FrontEnd.MCP)["properties"]
    return arguments(required, **{**fields, **more})


def read_request(request: Any, argument_values: Given) -> Any:
    """Return the request for arguments that are validated and given by name."""
    values: dict[str, Any] = {}
    for field, hint in _find_hints(request).items():
        if hasattr(hint, "_fields"):
            values[field] = read_request(hint, argument_values)
        elif (name := field.removesuffix("_")) in argument_values:
            value = argument_values[name]
            values[field] = tuple(value) if isinstance(value, list) else value
    return request(**values)


class VersionScope(StrEnum):
    """The versions of the vault that an operation can read."""

    NOW = "now"
    #: A branch, tag or commit, as `ref`.
    BRANCH = "branch"
    #: Also a commit or date, as `at`: the function receives the vault at that version.
    SEEN = "seen"
    #: The same, but the function reads `at` itself.
    ASKED = "asked"


class Tag(StrEnum):
    """The version of a result, for HTTP's ETag."""

    NONE = "none"
    #: The note's blob id.
    BLOB = "blob"
    #: The state of the view.
    VIEW = "view"


_AT = text("As it was at a commit, branch, tag or date (2026-10-01).", 200)
_REF = text("Branch, tag or commit to read.  [default: checked-out branch]", 200)
_BRANCH = text("Branch to write.  [default: checked-out branch]", 200)


def _as_it_is(answer: Any) -> Any:
    return answer


def _warn_of_nothing(_: Any) -> Iterable[str]:
    return ()


class Operation(NamedTuple):
    """One operation; its address is a method and a path below `BASE`: "GET /notes/{path}".

    `run` receives the vault and a request. From its result, `data` makes the JSON data, `lines` the
    terminal output for that request, and `warnings` further messages for both. The docstring of
    `run` is the command's help. Without `syncs`, the shell does not wait for the index. `excused`
    has the reason of each front end that does not offer the operation.

    Without a `request`, `run` receives the vault and the arguments by name, which `fields`
    describe, and returns the data. `fields` are query parameters, or body fields if the method has
    a body. `required` are arguments that only HTTP requires.

    Operations that write (`writes`) run one at a time. Those that change (`changes`) the note at
    `path` require its version; `place` returns the note's new path from the result. A `long` one
    does not block others.
    """

    name: str
    address: str
    summary: str = ""
    run: Callable[..., Any] = NotImplemented
    fields: Mapping[str, Schema] = {}
    required: tuple[str, ...] = ()
    output_schema: Schema = ANYTHING
    versions: VersionScope = VersionScope.NOW
    tag: Tag = Tag.NONE
    writes: bool = False
    changes: bool = False
    creates: bool = False
    long: bool = False
    request: Any = None
    data: Callable[[Any], Any] = _as_it_is
    lines: Callable[[Any, Any], Iterable[Line]] = NotImplemented
    warnings: Callable[[Any], Iterable[str]] = _warn_of_nothing
    place: Callable[[Any], PurePosixPath | None] = NotImplemented
    syncs: bool = True
    excused: Mapping[FrontEnd, str] = {}

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.address.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path below `BASE`, with names for its parts."""
        return self.address.partition(" ")[2]

    @property
    def route(self) -> str:
        """The path in Starlette's syntax."""
        parts = {name: f"{{{name}:path}}" for name in _SLASHED}
        return re.sub(r"\{(\w+)\}", lambda match: parts.get(match[1], match[0]), self.path)

    @property
    def purpose(self) -> str:
        """The operation's purpose, in one sentence."""
        return self.summary or cleandoc(self.run.__doc__ or "").partition("\n\n")[0]

    @property
    def parts(self) -> dict[str, Schema]:
        """The parameters in the path."""
        return {name: PARTS[name] for name in re.findall(r"\{(\w+)\}", self.path)}

    @property
    def request_schema(self) -> Schema:
        """The schema of the query or body, without the path's parameters."""
        if self.request is None:
            return arguments(self.required, **self.fields)
        is_at = self.versions in {VersionScope.SEEN, VersionScope.ASKED}
        schema = describe(self.request, FrontEnd.HTTP, [*self.parts, *["at"] * is_at])
        return {**schema, "required": [*schema["required"], *self.required]}

    @property
    def query(self) -> dict[str, Schema]:
        """The query parameters, without those that choose a version."""
        return {} if self._has_body else dict(self.request_schema["properties"])

    @property
    def body(self) -> dict[str, Schema]:
        """The fields of the body."""
        return dict(self.request_schema["properties"]) if self._has_body else {}

    @property
    def _has_body(self) -> bool:
        return self.method not in {"GET", "DELETE"}

    @property
    def parameters(self) -> dict[str, Schema]:
        """The query parameters, including those that choose a version."""
        moments: dict[str, Schema] = {}
        if self.versions in {VersionScope.SEEN, VersionScope.ASKED}:
            moments["at"] = _AT
        if self.versions is not VersionScope.NOW:
            moments["ref"] = _BRANCH if self.writes else _REF
        if self.versions is VersionScope.SEEN and not self.writes:
            moments["vault"] = text("Another vault of the user's to look at, by its name.", 200)
        return {**self.query, **moments}

    @property
    def input_schema(self) -> Schema:
        """The schema of all arguments."""
        schema = self.request_schema
        fields = {**self.parts, **self.parameters, **schema["properties"]}
        return arguments([*self.parts, *schema["required"]], **fields)

    def answer(self, vault: Vault, argument_values: Given) -> Any:
        """Run the operation; return its JSON data."""
        if self.request is None:
            return self.run(vault, argument_values)
        return self.data(self.run(vault, read_request(self.request, argument_values)))

    def change(self, vault: Vault, argument_values: Given) -> tuple[Any, PurePosixPath | None]:
        """Run an operation that `changes` a note; return its JSON data and the note's new path."""
        from vaultmem.services.views.read_notes import resolve_whole

        if self.place is not NotImplemented:
            answer = self.run(vault, read_request(self.request, argument_values))
            return self.data(answer), self.place(answer)
        path = resolve_whole(vault, argument_values["path"])
        return self.answer(vault, argument_values), path


def declare(
    function: Callable[..., Any], name: str, address: str, data: Any = _as_it_is, **facts: Any
) -> Operation:
    """Return the operation of a function; its arguments after the vault are the request.

    Keyword-only arguments are not part of the request: front ends pass them directly. `data` are
    the names of the JSON fields, as for `pick`, or a function as in `Operation`. `facts` are the
    operation's other fields.
    """
    _, *parameters = signature(function).parameters.values()
    parameters = [each for each in parameters if each.kind is not Parameter.KEYWORD_ONLY]
    names = [each.name for each in parameters]
    defaults = [each.default for each in parameters if each.default is not Parameter.empty]
    kind: Any = namedtuple  # A type checker cannot know its fields.
    request_type = kind(function.__name__, names, defaults=defaults, module=function.__module__)
    request_type.__annotations__ = {each.name: each.annotation for each in parameters}

    @wraps(function)
    def run(vault: Vault, request: Any, **own: Any) -> Any:
        return function(vault, **request._asdict(), **own)

    if isinstance(data, str):
        data = partial(pick, names=data)
    return Operation(name, address, run=run, request=request_type, data=data, **facts)
