"""The `vaultmem` command; each subcommand is built on first use."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

import vaultmem
from vaultmem.cli.commands import NEW_COMMAND_NAMES, describe_commands, find_home, read_rows
from vaultmem.cli.opening import end_process, remember_globals, run
from vaultmem.cli.options import AgentOption, RefOption, SessionOption, VaultsOption
from vaultmem.cli.output import warn
from vaultmem.cli.quick_typer import PlainGroup, add_commands, new_part


class _Commands(PlainGroup):
    """All commands, imported and built on first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names that the help lists."""
        return [name for name, _, _ in read_rows()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return one command."""
        if cmd_name not in self.commands and (home := find_home(cmd_name)):
            self.commands[cmd_name] = _build(cmd_name, home)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the arguments start with, or fail with similar names."""
        name, topics = args[0], []
        if name == "help":
            from vaultmem.cli.topics import list_topics, read_topic

            topics = list_topics()
            if args[1:] == ["topics"]:
                typer.echo("\n".join(topics))
                ctx.exit()
            if text := read_topic(" ".join(args[1:])):
                typer.echo(text, nl=False)
                ctx.exit()
            args = [*args[1:], "--help"]
            name = args[0]
        phrase = " ".join(args[:2])
        if new_name := NEW_COMMAND_NAMES.get(name) or NEW_COMMAND_NAMES.get(phrase):
            old = name if name in NEW_COMMAND_NAMES else phrase
            warn(f"`{old}` is `{new_name}` now")
            prefix, _, suffix = new_name.partition(" ... ")
            args = [*prefix.split(), *args[len(old.split()) :], *suffix.split()]
        elif not (name.startswith("-") or find_home(name)):
            _reject(ctx, name, self.list_commands(ctx), topics)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write all commands, grouped by purpose."""
        formatter.write(describe_commands())


def _reject(ctx: Any, name: str, commands: list[str], topics: list[str]) -> None:
    """Fail with the names that are similar to an unknown one."""
    from difflib import get_close_matches

    matches = get_close_matches(name, [*commands, *topics], 2, 0.7)
    hint = f" Did you mean {' or '.join(f'`{each}`' for each in matches)}?" if matches else ""
    if topics and not matches:
        hint = f" Topics: {', '.join(topics)}."
    ctx.fail(f"there is no command {'or topic ' if topics else ''}`{name}`.{hint}")


def _build(name: str, home: str) -> Any:
    """Return one command of a module: its function of that name, or from its `register`.

    A function whose name would hide another ends in `_`.
    """
    part = new_part()
    module = import_module(f"vaultmem.cli.{home}")
    if hasattr(module, "register"):
        module.register(part)
        part.registered_commands = [each for each in part.registered_commands if each.name == name]
    else:
        add_commands(part, getattr(module, f"{name}_", None) or getattr(module, name))
    group: Any = typer.main.get_command(part)
    return group.commands[name]


app = typer.Typer(
    name="vaultmem",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"vaultmem {vaultmem.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    vault: VaultsOption = [],  # noqa: B006
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Keep an agent's long-term memory as a folder of markdown in git."""
    remember_globals(vault, agent, session, ref)


def build_commands() -> Any:
    """Return a group of all commands that can be run many times."""
    commands: Any = typer.main.get_command(app)
    for name, _, _ in read_rows():
        commands.get_command(None, name)
    return commands


def main() -> NoReturn:
    """Run the command in `sys.argv` and end the process."""
    if "_VAULTMEM_COMPLETE" in os.environ:
        _complete()
    end_process(run(app))


def _complete() -> NoReturn:
    """Answer a shell's completion request, without printing errors."""
    sys.stderr = open(os.devnull, "w")
    with contextlib.suppress(Exception):
        app()
    sys.exit(0)
