"""What `--help` says: every command, in whole sentences, without loading any of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from in_process import run_here

from vaultmem.cli.app import build_commands
from vaultmem.cli.commands import RENAMED, describe_commands, read_rows
from vaultmem.cli.help_page import tell_first

#: How Typer writes of types by itself.
ODD = ("<str>", "<list", "<int", "{")


def list_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in command.commands.items():
        yield " ".join((*words, name)), each
        if hasattr(each, "commands"):
            yield from list_commands(each, (*words, name))


COMMANDS = dict(list_commands(build_commands()))


def test_the_first_help_names_every_command_with_the_first_sentence_of_its_own() -> None:
    rows = {name: sentence for name, _, sentence in read_rows()}
    firsts = {name: tell_first(each.help) for name, each in COMMANDS.items() if " " not in name}

    assert rows == firsts
    text = describe_commands()
    assert max(map(len, text.splitlines())) <= 80
    everyday = text.partition("Everyday\n")[2].partition("\n\n")[0].splitlines()
    assert len(everyday) == 12
    for each in (option for param in build_commands().params for option in param.opts):
        assert each in text
    assert text.index("Run by other programs") < text.index("merge-driver") < text.index("Options")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "merge-driver"])
def test_each_help_is_whole_at_80_columns(name: str) -> None:
    done = run_here(*name.split(), "--help", env={"COLUMNS": "80"})

    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert not [odd for odd in ODD if odd in done.out]
    first = tell_first(COMMANDS[name].help)
    assert first.endswith(".")
    assert f"  {first}\n" in done.out, "it stands in one line"
    for inside, each in getattr(COMMANDS[name], "commands", {}).items():
        rows = [line for line in done.out.splitlines() if line.split()[:1] == [inside]]
        assert [row.endswith(f"  {tell_first(each.help)}") for row in rows] == [True], inside


def test_help_is_found_by_every_way_to_ask_for_it() -> None:
    whole = describe_commands()

    assert [run_here(*words).out for words in (["--help"], ["-h"], ["help"])] == [whole] * 3
    assert run_here("help", "recall") == run_here("recall", "--help")
    assert run_here("help", "session", "start") == run_here("session", "start", "--help")
    near, none = run_here("recal"), run_here("help", "xyzzy")
    assert (near.code, none.code) == (2, 2)
    assert "there is no command `recal`. Did you mean `recall`?" in near.err
    assert "there is no command `xyzzy`." in none.err


def test_what_a_command_was_called_still_works_and_says_what_it_is_called_now(
    make_vault: Callable[..., Path],
) -> None:
    for before, now in RENAMED.items():
        done = run_here(before, "--help")
        assert done.err == f"vaultmem: `{before}` is `{now}` now\n"
        name = " ".join(word for word in now.split() if word.isalpha())
        assert done.out == run_here(*name.removesuffix(" quarantined").split(), "--help").out

    root = make_vault({"notes/a.md": "# A\n\nTo [[b]].\n", "notes/b.md": "# B\n"})
    to, wrong = (run_here(*words, cwd=root) for words in (["backlinks", "b"], ["unpin"]))
    assert to.out == run_here("links", "--to", "b", cwd=root).out != ""
    doubted = run_here("quarantine", "b", "--reason", "who knows", "--json", cwd=root).json
    assert [each["to"] for each in doubted["moved"]] == ["quarantined"]
    assert wrong.code == 2


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_first_help_loads_no_command_and_no_library(words: list[str]) -> None:
    code = (
        f"import sys\nsys.argv[1:] = {words}\nfrom vaultmem.cli.start import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, describe_commands())
    assert not {"typer", "typing", "vaultmem.environment"} & set(done.stderr.split())
