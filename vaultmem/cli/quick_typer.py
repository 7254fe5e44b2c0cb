"""Typer commands that start quickly, and the format of their `--help`.

Typer converts each parameter with pydantic, whose import takes a fifth of a `recall`
(docs/decisions/0020). Parameters of plain types are converted here instead. All others, and other
versions of Typer, use Typer's own conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from typing import Any

from typer import BadParameter, Typer, echo
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from vaultmem.cli.addresses import read_as_shell
from vaultmem.cli.commands import RENAMED_OPTIONS
from vaultmem.cli.options import SHARED_HELP
from vaultmem.cli.output import warn

#: Typer's error for wrong arguments, which it does not export.
_UsageError: Any = BadParameter.__bases__[0]

#: The function of a command, or a subgroup.
Maker = Callable[..., None] | Typer

_EXAMPLES = "\n\nExamples:\n"


class HelpPage:
    """The help of a Typer command or group.

    Options shared by many commands are listed separately, below the command's own. Examples are the
    last part of the command's docstring, and printed unchanged.
    """

    help: str | None
    params: list[Any]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage after the command's name."""
        has_commands = [ctx.command.subcommand_metavar] if hasattr(ctx.command, "commands") else []
        return ["[OPTIONS]", *(_show_argument(each) for each in _arguments(self)), *has_commands]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the whole page."""
        description, _, examples = cleandoc(self.help or "").partition(_EXAMPLES)
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)))
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(description)
        options = [each for each in ctx.command.get_params(ctx) if each not in _arguments(self)]
        own = [each for each in options if each.help not in SHARED_HELP]
        shared = [each for each in options if each.help in SHARED_HELP]
        _write_rows(
            formatter, "Arguments", [(_show_argument(each), each.help) for each in _arguments(self)]
        )
        _write_rows(formatter, "Options", [each.get_help_record(ctx) for each in own])
        heading = "Common options" if own else "Options"
        _write_rows(formatter, heading, [each.get_help_record(ctx) for each in shared])
        commands = getattr(self, "commands", {}).items()
        _write_rows(
            formatter,
            "Commands",
            [(name, extract_first_sentence(each.help)) for name, each in commands],
        )
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line.strip()}\n" for line in examples.splitlines()))


def extract_first_sentence(text: str) -> str:
    """Return the first sentence of a command's help, which is its own paragraph."""
    return " ".join(cleandoc(text).partition("\n\n")[0].split())


def _arguments(command: HelpPage) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _show_argument(argument: Any) -> str:
    name = argument.metavar.strip("[]").removesuffix("...")
    name += "..." if argument.nargs != 1 else ""
    return name if argument.required else f"[{name}]"


def _write_rows(formatter: Any, heading: str, rows: list[tuple[str, str] | None]) -> None:
    visible_rows = [row for row in rows if row is not None]
    if visible_rows:
        with formatter.section(heading):
            formatter.write_dl(visible_rows)


_CONVERTERS: dict[object, Callable[[Any], Any]] = {
    str: str,
    bool: bool,
    int: int,
    float: float,
    float | None: float,
    list[str]: list,
}


class PlainCommand(HelpPage, TyperCommand):
    """A command whose plain parameters are converted without pydantic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments as Typer does."""
        _simplify(self.get_params(ctx))
        args = _rename(self, args)
        _reject_twice(ctx, self, args)
        if ctx.resilient_parsing:  # A shell requests completions.
            from vaultmem.cli.completion import offer_values

            for param in self.params:
                offer_values(ctx, param)
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except _UsageError as error:
            name = getattr(error, "option_name", None)
            if name and any(" " in arg and arg.startswith(name) for arg in given):
                error.message += "; put `--` before a text that begins with a dash"
            raise
        if not ctx.resilient_parsing:
            _reject_empty(ctx, self)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with paths resolved from the caller's folder."""
        ctx.params = read_as_shell(self.name or "", self.params, ctx.params)
        return super().invoke(ctx)


def _rename(command: Any, args: list[str]) -> list[str]:
    """Replace retired names of options in the arguments."""
    options = {name for param in command.params for name in param.opts}
    renamed = {
        old: new for old, new in RENAMED_OPTIONS.items() if new in options and old not in options
    }
    end = args.index("--") if "--" in args else len(args)
    for place, arg in enumerate(args[:end]):
        name, mark, value = arg.partition("=")
        if name in renamed:
            warn(f"`{name}` is `{renamed[name]}` now")
            args[place] = renamed[name] + mark + value
    return args


def _reject_twice(ctx: Any, command: Any, args: list[str]) -> None:
    """Reject a repeated --vault for a command that accepts one; the last would win silently."""
    before = args[: args.index("--")] if "--" in args else args
    vault_args = [each for each in before if each.partition("=")[0] == "--vault"]
    takes = next((each for each in command.params if each.name == "vault"), None)
    if len(vault_args) > 1 and takes is not None and not takes.multiple:
        raise BadParameter(
            f"`{command.name}` works on one vault, and {len(vault_args)} are named; name one "
            "(recall, pack and list take several)",
            ctx=ctx,
        )


def _reject_empty(ctx: Any, command: Any) -> None:
    """Reject an empty --at or --ref, as from an unset variable; the folder would be read."""
    for param in command.params:
        is_empty = param.name in {"at", "ref"} and ctx.params.get(param.name) == ""
        if is_empty and ctx.get_parameter_source(param.name).name == "COMMANDLINE":
            raise BadParameter(
                "it is empty; name a commit or branch, or leave it out", ctx=ctx, param=param
            )


def add_commands(app: Typer, *commands: Callable[..., None]) -> None:
    """Add functions as commands: `list_` is named `list`, and `mark_restore` `mark-restore`."""
    for command in commands:
        name = command.__name__.strip("_").replace("_", "-")
        app.command(name, cls=PlainCommand)(command)


class PlainGroup(HelpPage, TyperGroup):
    """A group whose plain parameters are converted without pydantic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments as Typer does."""
        _simplify(self.get_params(ctx))
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            echo(self.get_help(ctx))
            ctx.exit()
        return super().parse_args(ctx, args)


class _LazyCommands(Mapping[str, Any]):
    """The commands of a group by name, each made on first use."""

    def __init__(self, makers: Mapping[str, Callable[[], Maker]]) -> None:
        self._makers = makers
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            part, command = new_part(), self._makers[name]()
            if isinstance(command, Typer):
                part.add_typer(command, name=name)
            else:
                add_commands(part, command)
            group: Any = get_command(part)
            self._made[name] = group.commands[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def new_group(makers: Mapping[str, Callable[[], Maker]], help: str = "") -> Typer:
    """Return a group whose commands are made when they are run or listed.

    `makers` return a function or a subgroup, by the command's name.
    """

    class Group(PlainGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands: Any = _LazyCommands(makers)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(makers)

    return Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None, help=help or None)


def new_part() -> Typer:
    """Return an application for making one command."""
    part = Typer(add_completion=False, rich_markup_mode=None)
    part.callback()(lambda: None)
    return part


class _PlainParameter:
    """A converter for the values of one parameter, in place of Typer's own."""

    def __init__(self, param: Any, convert: Callable[[Any], Any]) -> None:
        self._param = param
        self._convert = convert

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if self._convert is list else None
        try:
            return self._convert(value)
        except ValueError:
            raise BadParameter(f'"{value}" is not a number.', ctx=ctx, param=param) from None

    def __getattr__(self, name: str) -> Any:
        """Delegate other attributes to Typer's own converter."""
        self._param._runtime_param = None
        return getattr(self._param.get_runtime_param(), name)


def _simplify(params: list[Any]) -> None:
    for param in params:
        if getattr(param, "_runtime_param", False) is not None:
            continue
        annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        convert = _CONVERTERS.get(annotation)
        if convert is not None:
            param._runtime_param = _PlainParameter(param, convert)
