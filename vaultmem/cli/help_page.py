"""What `--help` of one command prints: usage, what it does, its parameters, and examples."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from vaultmem.cli.options import SHARED_HELP

_EXAMPLES = "\n\nExamples:\n"


class HelpPage:
    """The help of a Typer command or group.

    Options that many commands share stand by themselves, below those of the command. Examples are
    the last part of the command's docstring, and printed as they stand there.
    """

    help: str | None
    params: list[Any]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what stands behind the command's name."""
        has_commands = [ctx.command.subcommand_metavar] if hasattr(ctx.command, "commands") else []
        return ["[OPTIONS]", *(_show_argument(each) for each in _arguments(self)), *has_commands]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the whole page."""
        what, _, examples = cleandoc(self.help or "").partition(_EXAMPLES)
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)))
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(what)
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
            formatter, "Commands", [(name, tell_first(each.help)) for name, each in commands]
        )
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line.strip()}\n" for line in examples.splitlines()))


def tell_first(text: str) -> str:
    """Return the first sentence of a command's help, which is a paragraph by itself."""
    return " ".join(cleandoc(text).partition("\n\n")[0].split())


def _arguments(command: HelpPage) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _show_argument(argument: Any) -> str:
    name = argument.metavar.strip("[]").removesuffix("...")
    name += "..." if argument.nargs != 1 else ""
    return name if argument.required else f"[{name}]"


def _write_rows(formatter: Any, heading: str, rows: list[tuple[str, str] | None]) -> None:
    shown = [row for row in rows if row is not None]
    if shown:
        with formatter.section(heading):
            formatter.write_dl(shown)
