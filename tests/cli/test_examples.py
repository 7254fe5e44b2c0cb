"""The examples in the help: each is a line that its command takes, and most are run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pytest
from in_process import run_here
from test_help import COMMANDS, list_commands

from vaultmem.cli.app import build_commands
from vaultmem.cli.topics import list_topics, read_topic

ROOT = Path(__file__).parents[2]

#: Beginnings of those that are only read: they go on until they are stopped, ask another machine,
#: or stand for what is not in the sample.
READ = (
    *("watch", "serve", "mcp", "hook", "demo", "edit", "sync", "embed", "export", "merge-driver"),
    *(
        "push-check",
        "undo --session",
        "vault add",
        "check --since",
        "projects rename",
        "projects move",
    ),
    *(
        "eval",
        "import",
        "bisect",
        "resolve refund-rules",
        "task expand",
        "receipt 9",
        "fleet",
        "hub",
    ),
)

MANUAL = "# Scanner\n\n## Charging\n\nIt takes two hours.\n"


def list_examples(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield each command's name and its examples, without `vaultmem`."""
    for name, each in command.commands.items():
        for line in cleandoc(each.help).partition("Examples:\n")[2].splitlines():
            yield " ".join((*words, name)), line.partition("vaultmem ")[2]
        if hasattr(each, "commands"):
            yield from list_examples(each, (*words, name))


EXAMPLES = list(list_examples(build_commands()))


def test_every_command_has_an_example() -> None:
    names = {name for name, command in list_commands(build_commands()) if command.callback}
    assert {name for name, _ in EXAMPLES} == names - {"fleet", "session", "task"}


def test_every_example_is_a_line_that_its_command_takes() -> None:
    topics = "".join(map(read_topic, list_topics()))
    told = re.findall(r"^  vaultmem (.*?)(?:   .*)?$", topics, re.MULTILINE)
    assert len(told) > 30
    for line in (*(line for _, line in EXAMPLES), *told):
        words = shlex.split(re.sub(r"^--(agent|ref) \S+ ", "", line))
        name = next(each for each in (" ".join(words[:2]), words[0]) if each in COMMANDS)
        COMMANDS[name].make_context(name, words[len(name.split()) :])


def test_every_example_is_of_the_command_that_has_it() -> None:
    for name, line in EXAMPLES:
        assert line.removeprefix("--agent claude ").startswith(name), name


@pytest.mark.campaign
def test_the_examples_work_one_after_the_other_in_the_sample(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "ferrylane"
    told = "refunds-through-the-queue MEMORY USER " + " ".join(line for _, line in EXAMPLES)
    for file in (ROOT / "sample-vault").rglob("*.*"):  # Of its notes, those that are named.
        if file.is_file() and (file.suffix != ".md" or file.stem in told):
            copy = root / file.relative_to(ROOT / "sample-vault")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    (tmp_path / "manual.md").write_text(MANUAL)
    Path("~/code/payments").expanduser().mkdir(parents=True, exist_ok=True)
    (root / "notes/pier-holm.md").write_text("# Pier at Holm\n\nIt is closed.\n")
    for _, line in EXAMPLES:
        if line.startswith(READ):
            continue
        if line.startswith(("undo", "switch", "merge")):
            run_here("checkpoint", "what the examples wrote", cwd=root)
        words = map(os.path.expanduser, shlex.split(line))
        done = run_here(*words, cwd=root, stdin="Boats moor at noon.")
        assert done.code == 0, (line, done)
