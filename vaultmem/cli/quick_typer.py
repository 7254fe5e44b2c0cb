"""Typer commands that start quickly.

Typer has pydantic convert each parameter, and importing that takes a fifth of a `recall`
(docs/decisions/0020). Parameters of plain types are converted here instead; all others, and any
Typer that is made differently inside, go Typer's own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer import BadParameter, Typer, echo
from typer.core import TyperCommand, TyperGroup

from vaultmem.cli.addresses import read_as_shell
from vaultmem.cli.help_page import HelpPage

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
        _refuse_twice(ctx, self, args)
        if ctx.resilient_parsing:  # A shell asks what could come next.
            from vaultmem.cli.completing import offer_values

            for param in self.params:
                offer_values(ctx, param)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with paths as the shell of whoever gives it means them."""
        ctx.params = read_as_shell(self.name or "", self.params, ctx.params)
        return super().invoke(ctx)


def _refuse_twice(ctx: Any, command: Any, args: list[str]) -> None:
    """Refuse a vault named twice where one alone is worked on: the last would win in silence."""
    before = args[: args.index("--")] if "--" in args else args
    named = [each for each in before if each.partition("=")[0] == "--vault"]
    takes = next((each for each in command.params if each.name == "vault"), None)
    if len(named) > 1 and takes is not None and not takes.multiple:
        raise BadParameter(
            f"`{command.name}` works on one vault, and {len(named)} are named; name one "
            "(recall, pack and list take several)",
            ctx=ctx,
        )


def add_commands(app: Typer, *commands: Callable[..., None]) -> None:
    """Add functions as commands of their names: `list_` is `list`, `mark_restore` has a dash."""
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


class _PlainParameter:
    """Converts the values of one parameter, in the place of Typer's own converter."""

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
        """Leave to Typer's own converter whatever else a release wants of it."""
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
