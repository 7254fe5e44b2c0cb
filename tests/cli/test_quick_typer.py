"""Plain parameters are converted without pydantic, or else as Typer itself does.

The first test fails where a new release of Typer is made so that nothing is saved any more;
what commands answer must not change with it, as the others show.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import Make, RunCli

from vaultmem.cli.app import build_commands
from vaultmem.cli.quick_typer import _CONVERTERS, _PlainParameter, _simplify

NOTES = {"notes/ferry.md": "# Ferry\n\nThe gangway is blue.\n"}

LINES = [
    ["list", "--json"],
    ["recall", "gangway", "-n", "2"],
    ["show", "ferry"],
    ["session", "list", "--json"],
]

#: A Typer as it might be one day: what was found by a private name is found by another.
_RENAMED_PARAMETER = """
import typer.core as core
from typer._coercion import build_runtime_param
for kind in (core.TyperArgument, core.TyperOption):
    def make(self, *given, _made=kind.__init__, **named):
        _made(self, *given, **named)
        del self._runtime_param
    kind.__init__ = make
    kind.get_runtime_param = lambda self: build_runtime_param(self.type_descriptor)
"""

_RENAMED_METHOD = """
import typer.core as core
from typer._coercion import RuntimeParam
def process(self, ctx, value):
    return self.get_runtime_param().convert_value(value, param=self, ctx=ctx)
RuntimeParam.convert_value = RuntimeParam.coerce
core._TyperParameter.process_value = process
"""

_RUN = """
import os, sys
import vaultmem.cli.app as app
from vaultmem.cli.start import main

def end(code):
    print("pydantic" in sys.modules, file=sys.stderr)
    sys.stderr.flush(), sys.stdout.flush()
    os._exit(code)

app.end_process = end
main()
"""


def run(root: Path, line: list[str], before: str = "") -> tuple[str, list[str], int]:
    """Run a command after some other lines; the last line of its errors is if pydantic is there."""
    program = f"import sys\nsys.argv = {['vaultmem', *line]!r}\n{before}{_RUN}"
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr.splitlines(), done.returncode


@pytest.mark.campaign
@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_commands_do_without_pydantic_under_the_installed_typer(
    make_vault: Make, line: list[str]
) -> None:
    out, err, code = run(make_vault(NOTES), line)

    assert (code, bool(out)) == (0, True)
    assert err[-1:] == ["False"], f"Typer {version('typer')}: quick_typer.py saves nothing any more"


def test_every_parameter_of_a_plain_type_is_converted_here() -> None:
    commands = [build_commands()]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        _simplify(command.params)
    params = [param for command in commands for param in command.params]
    plain = [param for param in params if param.type_descriptor.annotation in _CONVERTERS]

    assert len(plain) > 200
    assert all(isinstance(param._runtime_param, _PlainParameter) for param in plain)


@pytest.mark.campaign
@pytest.mark.parametrize("line", [LINES[0], ["recall", "gangway", "-n", "x"]])
def test_another_release_of_typer_converts_for_itself(make_vault: Make, line: list[str]) -> None:
    root = make_vault(NOTES)
    out, err, code = run(root, line)
    assert code == 0 or "Usage" in err[0]

    for other in (_RENAMED_PARAMETER, _RENAMED_METHOD):
        there = run(root, line, other)
        assert (there[0], there[2]) == (out, code), other
        assert there[1][-1:] == ["True"], other
        assert code == 0 or "'-n' / '--limit'" in there[1][-2]


@pytest.mark.parametrize("option", [["--at", ""], ["--at="], ["--ref", ""]])
def test_an_empty_version_is_not_read_as_the_folder(
    run_cli: RunCli, make_vault: Make, option: list[str]
) -> None:
    root = make_vault(NOTES)

    done = run_cli("recall", "gangway", *option, cwd=root)

    assert (done.code, done.out) == (2, "")
    assert f"'{option[0].strip('=')}': it is empty; name a commit or branch" in done.err
    assert "ferry.md" in run_cli("recall", "gangway", cwd=root).out


def test_a_command_of_a_group_makes_no_other_one() -> None:
    program = (
        "from vaultmem.cli.app import build_commands\n"
        "group = build_commands().commands['session']\n"
        "group.commands['list']\n"
        "print(*group.commands._made)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "list"
