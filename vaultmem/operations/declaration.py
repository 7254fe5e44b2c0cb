"""An operation, declared once: what it is asked, what it does, and its answer.

A request is a named tuple whose fields are annotated with an `Arg`. From it the shell has its
options, HTTP and MCP have their schemas, and each reads what it was given. `declare` makes the
request from a function's arguments.
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

#: What an operation was given: parameters of path and query, and fields of the body, by name.
Given = Mapping[str, Any]

#: The schema of an answer that nobody described.
ANYTHING: Schema = {"type": "object"}

#: Where all operations are.
BASE = "/api/v1"

#: The parts of addresses; those that may have `/` in them stand at the end.
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


class Front(StrEnum):
    """A front end: it offers each argument of an operation, or the argument says why not."""

    SHELL = "shell"
    HTTP = "http"
    MCP = "mcp"


class Takes(StrEnum):
    """How the shell takes an argument."""

    OPTION = "option"
    #: One option with names between commas.
    COMMAS = "commas"
    #: One option, repeated, each time NAME=VALUE.
    VALUES = "values"
    #: A word behind the command.
    WORD = "word"
    #: All words behind the command: one text, or a list.
    WORDS = "words"
    #: The same, and `-` is standard input.
    INPUT = "input"
    #: The option of its name that nearly every command has.
    SHARED = "shared"
    #: A word behind the command, else that option.
    MEANT = "meant"


class Agent(NamedTuple):
    """What models are offered of an argument, where it is another text or narrower bounds.

    Every session pays for each word of `text`. `words` are the values that it can have; none are
    listed where they are empty. An argument that is not listed is accepted all the same. A tool
    with several actions can have one argument for theirs: then it is the `name`.
    """

    text: str = ""
    least: float | None = None
    most: float | None = None
    words: Sequence[str] | None = None
    is_listed: bool = True
    name: str = ""


class Arg(NamedTuple):
    """One argument of an operation.

    `help` is for people, `agent` for models. `least` and `most` bound a number, or the characters
    of a text; `words` are the values that it can have. `flags` are the shell's options, by default
    the argument's name. `excused` says for each front end that does not offer it why.
    """

    help: str
    agent: str | Agent = ""
    least: float | None = None
    most: float | None = None
    words: Sequence[str] = ()
    takes: Takes = Takes.OPTION
    flags: tuple[str, ...] = ()
    metavar: str = ""
    excused: Mapping[Front, str] = {}


def word(help: str, least: int = 0, most: int = 1_000, metavar: str = "") -> Arg:
    """Return an argument that the shell takes as a word behind the command."""
    return Arg(help, "", least, most, takes=Takes.WORD, metavar=metavar)


def words(help: str, least: int = 0, metavar: str = "PATH...") -> Arg:
    """Return an argument that the shell takes as all words after the command."""
    return Arg(help, "", least, takes=Takes.WORDS, metavar=metavar)


def at_most(help: str, most: int) -> Arg:
    """Return an argument that says how many at most; the shell calls it -n as well."""
    return Arg(help, "", 1, most, flags=("-n", "--limit"), metavar="N")


class NoArguments(NamedTuple):
    """The request of an operation that asks for nothing."""


#: The style of a text that is printed as it is: a note's own.
RAW = "raw"


class Line(NamedTuple):
    """A line of an answer: a text in a style ("" is none), and the rest of the line."""

    text: str
    style: str = ""
    rest: str = ""


#: Tokens of an answer to a model: where it names no budget, and what a budget may be.
BUDGET, LEAST, MOST = 2_000, 200, 20_000


class Argument(NamedTuple):
    """An argument as its request declares it.

    `field` is its name in the request, `name` for people and programs: without the `_` that a word
    of Python has behind it. `kind` is its type, without None where that `is_optional`.
    """

    field: str
    name: str
    kind: Any
    is_optional: bool
    is_required: bool
    default: Any
    arg: Arg

    def name_for(self, front: Front) -> str:
        """Return the name that a front end has for the argument."""
        agent = self.arg.agent
        named = agent.name if front is Front.MCP and isinstance(agent, Agent) else ""
        return named or self.name

    def write_schema(self, front: Front) -> Schema:
        """Return the JSON Schema of the argument, for people or for models."""
        schema = self._write_type(front)
        agent = self.arg.agent
        if front is Front.MCP and isinstance(agent, Agent) and not agent.is_listed:
            return unlist(schema)
        return {**schema, "default": self.default} if self._tells_default(front) else schema

    def _tells_default(self, front: Front) -> bool:
        return front is Front.HTTP and bool(self.default)

    def _write_type(self, front: Front) -> Schema:
        arg, agent = self.arg, Agent()
        if front is Front.MCP:
            agent = arg.agent if isinstance(arg.agent, Agent) else Agent(arg.agent)
        told = agent.text if front is Front.MCP else arg.help
        least, most = (
            narrow if narrow is not None else wide
            for narrow, wide in ((agent.least, arg.least), (agent.most, arg.most))
        )
        words = arg.words if agent.words is None else agent.words
        if arg.takes is Takes.VALUES:
            return values(told)
        if self.kind is bool:
            return flag(told)
        if self.kind is int:
            return whole(told, int(least or 0), int(most or 0))
        if self.kind is float:
            return number(told, least or 0, most or 0)
        if self.kind is str:
            size = int(most or 10_000), int(least or 0)
            return choice(told, words) if words else text(told, *size)
        return texts(told, words, int(least or 0))


@cache
def _find_hints(request: Any) -> dict[str, Any]:
    return get_type_hints(request, include_extras=True)


def list_arguments(request: Any) -> Iterator[Argument]:
    """Yield the arguments of a request, in order; those of a request in it stand in its place."""
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


def offer(request: Any, front: Front) -> list[Argument]:
    """Return the arguments of a request that a front end offers."""
    return [each for each in list_arguments(request) if front not in each.arg.excused]


def describe(request: Any, front: Front, but: Sequence[str] = (), **more: Schema) -> Schema:
    """Return the schema of a request as a front end offers it, without some arguments.

    The front end's own are `more`.
    """
    offered = [each for each in offer(request, front) if each.name not in but]
    named = {each.name_for(front): each.write_schema(front) for each in offered}
    required = [each.name_for(front) for each in offered if each.is_required]
    return arguments(required, **named, **more)


def share(requests: Iterable[Any], required: Sequence[str], **more: Schema) -> Schema:
    """Return the schema of a tool that several requests share; `more` are the tool's own."""
    fields: dict[str, Schema] = {}
    for request in requests:
        fields |= describe(request, Front.MCP)["properties"]
    return arguments(required, **{**fields, **more})


def read_request(request: Any, given: Given) -> Any:
    """Return the request that the arguments make, which are by their names and of their types."""
    values: dict[str, Any] = {}
    for field, hint in _find_hints(request).items():
        if hasattr(hint, "_fields"):
            values[field] = read_request(hint, given)
        elif (name := field.removesuffix("_")) in given:
            value = given[name]
            values[field] = tuple(value) if isinstance(value, list) else value
    return request(**values)


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


_AT = text("As it was at a commit, branch, tag or date (2026-10-01).", 200)
_REF = text("Branch, tag or commit to read.  [default: checked-out branch]", 200)
_BRANCH = text("Branch to write.  [default: checked-out branch]", 200)


def _as_it_is(answer: Any) -> Any:
    return answer


def _warn_of_nothing(_: Any) -> Iterable[str]:
    return ()


class Operation(NamedTuple):
    """One operation; its address is a method and a path below `BASE`: "GET /notes/{path}".

    `run` is given the vault and a request. Of what it returns `data` makes what JSON is made of,
    `lines` what a terminal shows of it for that request, and `warnings` what is to be said beside
    either. The docstring of `run` is the help of the command. One that does not need the index,
    which `syncs` says, does not wait for it in the shell. `excused` says for each front end that
    does not offer it why.

    Where there is no `request`, `run` is given the vault and what was given by name, which `fields`
    describe, and returns the data. `fields` are parameters behind the `?`, or fields of the body
    where the method has one. HTTP needs those that are `required`, besides what all front ends do.

    One that `writes` comes after those before it; with `changes`, it changes the note at `path`,
    has to be told which version of it, and `place` returns of its answer where the note is then,
    if not there. What takes `long` keeps no others waiting.
    """

    name: str
    address: str
    summary: str = ""
    run: Callable[..., Any] = NotImplemented
    fields: Mapping[str, Schema] = {}
    required: tuple[str, ...] = ()
    gives: Schema = ANYTHING
    moment: Moment = Moment.NOW
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
    excused: Mapping[Front, str] = {}

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
    def purpose(self) -> str:
        """What the operation is for, in a sentence."""
        return self.summary or cleandoc(self.run.__doc__ or "").partition("\n\n")[0]

    @property
    def parts(self) -> dict[str, Schema]:
        """What stands in the address."""
        return {name: PARTS[name] for name in re.findall(r"\{(\w+)\}", self.path)}

    @property
    def asks(self) -> Schema:
        """What is asked behind the `?` or in the body, without what stands in the address."""
        if self.request is None:
            return arguments(self.required, **self.fields)
        is_at = self.moment in {Moment.SEEN, Moment.ASKED}
        asked = describe(self.request, Front.HTTP, [*self.parts, *["at"] * is_at])
        return {**asked, "required": [*asked["required"], *self.required]}

    @property
    def query(self) -> dict[str, Schema]:
        """The parameters behind the `?`, but for the moment."""
        return {} if self._has_body else dict(self.asks["properties"])

    @property
    def body(self) -> dict[str, Schema]:
        """The fields of the body."""
        return dict(self.asks["properties"]) if self._has_body else {}

    @property
    def _has_body(self) -> bool:
        return self.method not in {"GET", "DELETE"}

    @property
    def parameters(self) -> dict[str, Schema]:
        """What stands behind the `?`, with what moment is asked about."""
        moments: dict[str, Schema] = {}
        if self.moment in {Moment.SEEN, Moment.ASKED}:
            moments["at"] = _AT
        if self.moment is not Moment.NOW:
            moments["ref"] = _BRANCH if self.writes else _REF
        if self.moment is Moment.SEEN and not self.writes:
            moments["vault"] = text("Another vault of the user's to look at, by its name.", 200)
        return {**self.query, **moments}

    @property
    def takes(self) -> Schema:
        """All that can be given."""
        asked = self.asks
        fields = {**self.parts, **self.parameters, **asked["properties"]}
        return arguments([*self.parts, *asked["required"]], **fields)

    def answer(self, vault: Vault, given: Given) -> Any:
        """Return what the operation answers, as what JSON is made of."""
        if self.request is None:
            return self.run(vault, given)
        return self.data(self.run(vault, read_request(self.request, given)))

    def change(self, vault: Vault, given: Given) -> tuple[Any, PurePosixPath | None]:
        """Return what an operation that `changes` a note answers, and where the note is then."""
        from vaultmem.services.views.read_notes import resolve_whole

        if self.place is not NotImplemented:
            answer = self.run(vault, read_request(self.request, given))
            return self.data(answer), self.place(answer)
        path = resolve_whole(vault, given["path"])
        return self.answer(vault, given), path


def declare(
    function: Callable[..., Any], name: str, address: str, data: Any = _as_it_is, **facts: Any
) -> Operation:
    """Return the operation of a function whose arguments behind the vault are the request.

    Keyword-only arguments are no part of it: a front end gives them to the function itself.
    `data` are the names of what its JSON has, as `pick` reads them, or a function as `Operation`
    has it; `facts` are the operation's other fields.
    """
    _, *given = signature(function).parameters.values()
    given = [each for each in given if each.kind is not Parameter.KEYWORD_ONLY]
    names = [each.name for each in given]
    defaults = [each.default for each in given if each.default is not Parameter.empty]
    kind: Any = namedtuple  # What its fields are, a type checker cannot know.
    request = kind(function.__name__, names, defaults=defaults, module=function.__module__)
    request.__annotations__ = {each.name: each.annotation for each in given}

    @wraps(function)
    def run(vault: Vault, asked: Any, **own: Any) -> Any:
        return function(vault, **asked._asdict(), **own)

    if isinstance(data, str):
        data = partial(pick, names=data)
    return Operation(name, address, run=run, request=request, data=data, **facts)
