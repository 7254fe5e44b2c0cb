"""The shared parts of commands: common options, options of a request, and extras."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.opening import CommandContext, set_json_errors
from vaultmem.cli.options import (
    AgentOption,
    AtOption,
    JsonOption,
    RefOption,
    SessionOption,
    VaultOption,
    read_text,
    split_names,
)
from vaultmem.cli.output import emit_json, print_lines, print_stale_reason, warn
from vaultmem.operations.declaration import (
    ArgumentForm,
    FrontEnd,
    Operation,
    VersionScope,
    list_arguments,
    offer,
    read_request,
)

if TYPE_CHECKING:
    from vaultmem.operations.declaration import Argument

_OPTIONS: dict[str, Any] = {
    "vault": VaultOption,
    "ref": RefOption,
    "at": AtOption,
    "agent": AgentOption,
    "session": SessionOption,
    "as_json": JsonOption,
}


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add common options to a command; their values are its first argument."""
    return give_options(CommandContext, {name: _OPTIONS[name] for name in names})


def offers(source: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the arguments of an operation or request to a command, which receives the request.

    An operation also sets the command's help.
    """
    request = source.request if isinstance(source, Operation) else source
    offered = offer(request, FrontEnd.SHELL)
    listed = {each.field: each for each in offered if each.arg.takes is not ArgumentForm.SHARED}
    give = give_options(
        partial(_read, request, listed),
        {name: _annotate(each) for name, each in listed.items()},
        {name: _find_default(each) for name, each in listed.items()},
        are_first=True,
    )

    def run(command: Callable[..., None]) -> Callable[..., None]:
        if isinstance(source, Operation):
            command.__doc__ = source.run.__doc__
        return give(command)

    return run


def list_operation_commands(**operations: str) -> dict[str, Callable[[], Callable[..., None]]]:
    """Return functions that make the commands of operations given as NAME="module.CONSTANT"."""

    def make(name: str, place: str) -> Callable[..., None]:
        home, _, constant = place.partition(".")
        module = import_module(f"vaultmem.operations.{home}")
        return make_command(getattr(module, constant), name)

    places = {name.replace("_", "-"): place for name, place in operations.items()}
    return {name: partial(make, name, place) for name, place in places.items()}


def make_command(operation: Operation, name: str) -> Callable[..., None]:
    """Return the command of an operation that needs only its request."""
    options = ["vault", "ref", "at", "agent", "session", "as_json"]
    if operation.versions not in {VersionScope.SEEN, VersionScope.ASKED}:
        options.remove("at")
    if operation.versions is VersionScope.NOW:
        options.remove("ref")
    shared = {each.name for each in _list_shared(operation.request)} - {"at"}
    if not (operation.writes or shared):
        options = [each for each in options if each not in {"agent", "session"}]
    offered = offer(operation.request, FrontEnd.SHELL)
    own = {
        each.name
        for each in offered
        if each.arg.takes is ArgumentForm.OPTION
        and f"--{each.name}" in (each.arg.flags or _flag(each))
    }
    options = [each for each in options if each not in own]

    def command(context: CommandContext, request: Any) -> None:
        answer(operation, context, request)

    command.__name__ = name
    return offers(operation)(takes(*options)(command))


def answer(operation: Operation, context: CommandContext, request: Any) -> None:
    """Run an operation for a request, and print its result."""
    request = _fill(request, context)
    opens = context.open_synced if operation.versions is VersionScope.ASKED else context.open_view
    vault = (opens if operation.syncs else context.open)(reads=not operation.writes)
    result = operation.run(vault, request)
    if not operation.syncs:
        print_stale_reason(vault.notices.stale)
    print_answer(operation, context, request, result)


def print_answer(operation: Operation, context: CommandContext, request: Any, result: Any) -> None:
    """Print an operation's result for a request, and its warnings."""
    for line in operation.warnings(result):
        warn(line)
    if context.as_json:
        emit_json(operation.data(result))
    else:
        print_lines(operation.lines(result, request))


def _list_shared(request: Any) -> list[Argument]:
    """Return the arguments whose values come from shared options."""
    shared = {ArgumentForm.SHARED, ArgumentForm.MEANT}
    return [each for each in list_arguments(request) if each.arg.takes in shared]


def _fill(request: Any, context: CommandContext) -> Any:
    """Return a request with empty arguments set from the shared options."""
    empty = [each for each in _list_shared(type(request)) if not getattr(request, each.field)]
    return request._replace(**{each.field: getattr(context, each.name) for each in empty})


_POSITIONAL_FORMS = frozenset(
    {ArgumentForm.WORD, ArgumentForm.WORDS, ArgumentForm.INPUT, ArgumentForm.MEANT}
)


def _annotate(argument: Argument) -> Any:
    """Return an argument's Typer annotation."""
    arg, kind = argument.arg, argument.kind
    if arg.takes is ArgumentForm.COMMAS:
        kind = str
    elif argument.kind not in {str, int, float, bool} or arg.takes in {
        ArgumentForm.WORDS,
        ArgumentForm.INPUT,
    }:
        kind = list[str]
    if arg.takes in _POSITIONAL_FORMS:
        reads = "; - reads standard input." if arg.takes is ArgumentForm.INPUT else ""
        help_text = arg.help.removesuffix(".") + reads if reads else arg.help
        metavar = arg.metavar or argument.name.upper()
        return Annotated[kind, typer.Argument(metavar=metavar, help=help_text)]
    flags = arg.flags or _flag(argument)
    shows = bool(argument.default)
    option = typer.Option(*flags, metavar=arg.metavar or None, help=arg.help, show_default=shows)
    return Annotated[kind | None if argument.is_optional else kind, option]


def _flag(argument: Argument) -> tuple[str]:
    return (f"--{argument.name.replace('_', '-')}",)


def _find_default(argument: Argument) -> Any:
    """Return an argument's default for Typer."""
    if argument.is_required:
        return inspect.Parameter.empty
    if (
        argument.arg.takes in {ArgumentForm.WORDS, ArgumentForm.INPUT, ArgumentForm.VALUES}
        or argument.default == ()
    ):
        return "" if argument.arg.takes is ArgumentForm.COMMAS else []
    return argument.default


def _read(request: Any, listed: Mapping[str, Argument], **values: Any) -> Any:
    """Return the request for parsed command-line values."""
    return read_request(
        request, {each.name: _read_value(each, values[name]) for name, each in listed.items()}
    )


def _read_value(argument: Argument, value: Any) -> Any:
    takes = argument.arg.takes
    if takes is ArgumentForm.COMMAS:
        return split_names(value)
    if takes is ArgumentForm.INPUT:
        return read_text(value)
    if takes is ArgumentForm.VALUES:
        return dict(map(_read_assignment, value))
    return " ".join(value) if takes is ArgumentForm.WORDS and argument.kind is str else value


def _read_assignment(text: str) -> tuple[str, Any]:
    """Return the property and value that `PROPERTY=VALUE` sets, None to remove it."""
    from vaultmem.core.notes.frontmatter import as_json as property_json
    from vaultmem.core.notes.frontmatter import read_frontmatter

    name, sign, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not name or not sign:
        raise typer.BadParameter(f'"{text}" sets nothing; write PROPERTY=VALUE')
    frontmatter = read_frontmatter(f"---\nvalue: {value}\n---\n")
    prop = None if frontmatter.problem or "\n" in value else frontmatter.get("value")
    return name, property_json(prop) if prop and prop.kind != "map" else value


@contextlib.contextmanager
def needing(extra: str, command: str) -> Iterator[None]:
    """Explain how to install a missing extra if an import in the block fails.

    Raises:
        VaultError: a module is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        from vaultmem.errors import VaultError
        from vaultmem.storage.user_files import describe_missing

        raise VaultError(f"{command}: {describe_missing(error.name, extra)}") from None


def give_options(
    make: Any,
    options: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    are_first: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options to a command; its first argument is what `make` returns for their values.

    If applied several times, the argument of the last one comes first. In the help, the options
    come after the command's own, unless they `are_first`.
    """
    default_values = make._field_defaults if defaults is None else defaults

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*others: Any, **values: Any) -> None:
            if values.get("as_json"):
                set_json_errors()
            command(make(**{name: values.pop(name) for name in options}), *others, **values)

        _, *others = inspect.signature(command, eval_str=True).parameters.values()
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in others]
        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default_values.get(name, inspect.Parameter.empty),
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]
        params = [*shared, *own] if are_first else [*own, *shared]
        run.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in params}
        return run

    return give
