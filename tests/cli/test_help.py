"""What `--help` says: every command, in whole sentences, without loading any of them."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from in_process import run_here

import vaultmem.errors
from vaultmem.cli.app import build_commands
from vaultmem.cli.commands import NEW_COMMAND_NAMES, describe_commands, read_rows
from vaultmem.cli.quick_typer import extract_first_sentence
from vaultmem.cli.topics import list_topics, read_topic
from vaultmem.config import CONFIG_NAME, read_config
from vaultmem.core.lifecycle import NoteKind, NoteState

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
    firsts = {
        name: extract_first_sentence(each.help)
        for name, each in COMMANDS.items()
        if " " not in name
    }

    assert rows == firsts
    text = describe_commands()
    assert max(map(len, text.splitlines())) <= 80
    everyday = text.partition("Everyday\n")[2].partition("\n\n")[0].splitlines()
    assert len(everyday) == 12
    for each in (option for param in build_commands().params for option in param.opts):
        assert each in text
    listed = [
        line.split()[0] for line in text.splitlines() if re.match(r"  [a-z][a-z-]* +[A-Z]", line)
    ]
    assert len(listed) <= 55
    named = text.partition("For programs, and for measuring\n")[2].partition("\n\n")[0]
    assert re.findall(r"[a-z-]+", named) == [name for name in rows if name not in listed]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "merge-driver"])
def test_each_help_is_whole_at_80_columns(name: str) -> None:
    done = run_here(*name.split(), "--help", env={"COLUMNS": "80"})

    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert not [odd for odd in ODD if odd in done.out]
    first = extract_first_sentence(COMMANDS[name].help)
    assert first.endswith(".")
    assert f"  {first}\n" in done.out, "it stands in one line"
    for inside, each in getattr(COMMANDS[name], "commands", {}).items():
        rows = [line for line in done.out.splitlines() if line.split()[:1] == [inside]]
        assert [row.endswith(f"  {extract_first_sentence(each.help)}") for row in rows] == [True], (
            inside
        )


def test_help_is_found_by_every_way_to_ask_for_it() -> None:
    whole = describe_commands()

    assert [run_here(*words).out for words in (["--help"], ["-h"], ["help"])] == [whole] * 3
    assert run_here("help", "recall") == run_here("recall", "--help")
    assert run_here("help", "session", "start") == run_here("session", "start", "--help")
    assert run_here("session") == run_here("session", "--help")
    near, none = run_here("recal"), run_here("help", "xyzzy")
    assert (near.code, none.code) == (2, 2)
    assert "there is no command `recal`. Did you mean `recall`?" in near.err
    assert "there is no command or topic `xyzzy`." in none.err


def test_what_a_command_was_called_still_works_and_says_what_it_is_called_now(
    make_vault: Make,
) -> None:
    for before, now in NEW_COMMAND_NAMES.items():
        done = run_here(*before.split(), "--help")
        assert done.err == f"vaultmem: `{before}` is `{now}` now\n"
        name = " ".join(word for word in now.split() if word.isalpha())
        assert done.out == run_here(*name.removesuffix(" quarantined").split(), "--help").out

    root = make_vault({"notes/a.md": "# A\n\nTo [[b]].\n", "notes/b.md": "# B\n"})
    to, wrong = (run_here(*words, cwd=root) for words in (["backlinks", "b"], ["unpin"]))
    assert to.out == run_here("links", "--to", "b", cwd=root).out != ""
    doubted = run_here("quarantine", "b", "--reason", "who knows", "--json", cwd=root).json
    assert [each["to"] for each in doubted["moved"]] == ["quarantined"]
    assert wrong.code == 2
    absent = run_here("assert", "b", "--says", "quay", "--not", cwd=root)
    assert (absent.code, absent.out) == (0, "as expected\n")
    assert sorted(absent.err.splitlines()) == [
        "vaultmem: `--not` is `--absent` now",
        "vaultmem: `--says` is `--contains` now",
    ]
    sessions = run_here("session", "list", "--of=ada", cwd=root)
    assert (sessions.code, sessions.err) == (0, "vaultmem: `--of` is `--from-agent` now\n")


def test_show_prints_a_note_or_what_a_commit_changed(make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "# A\n\nTo [[b]].\n"})
    run_here("checkpoint", "one", cwd=root)
    assert run_here("show", "a", cwd=root).out == "# A\n\nTo [[b]].\n"
    last = run_here("show", cwd=root).out
    assert "notes/a.md" in last
    assert run_here("show", "HEAD", cwd=root).out == last
    unknown, commit = (run_here("show", each, cwd=root) for each in ("nope", "HEAD~9"))
    assert (unknown.code, commit.code) == (4, 4)
    assert "no note is called" in unknown.err
    assert "commit" in commit.err


def test_each_topic_is_one_screen_and_named_in_the_first_help() -> None:
    topics = list_topics()
    told = describe_commands().partition("One concept: ")[2].replace(".", "").split()
    assert [each.strip(",") for each in told] == topics
    for name in topics:
        done = run_here("help", name)
        lines = done.out.splitlines()
        assert (done.code, done.err) == (0, "")
        assert len(lines) <= 30
        assert max(map(len, lines)) < 80
        for also in re.findall(r"vaultmem help ([a-z-]+)\b(?!\.)", done.out):
            assert also in topics
    assert run_here("help", "states").out == run_here("help", "kinds-and-states").out
    near = run_here("help", "enviroment")
    assert (near.code, "Did you mean `environment`?" in near.err) == (2, True)


def test_topics_say_what_is_so(tmp_path: Path) -> None:
    """Kinds, states, exit codes, settings and variables are those that there are."""
    text = read_topic("kinds-and-states")
    for each in {*NoteKind, *NoteState} - {NoteState.UNREADABLE}:
        assert re.search(rf"^  .*\b{each}\b", text, re.M), each
    codes = {int(each) for each in re.findall(r"^ {2,4}(\d+)  ", read_topic("exit-codes"), re.M)}
    errors = {getattr(each, "exit_code", 0) for each in vars(vaultmem.errors).values()}
    assert codes == {0, 2, 125, 130} | errors
    lines = re.findall(r"^  (\w+: \S+)", read_topic("settings"), re.M)
    (tmp_path / CONFIG_NAME).write_text("\n".join(lines))
    assert len(lines) > 8
    assert read_config(tmp_path).promoting_agents == ("claude",)
    sources = "".join(file.read_text() for file in Path(vaultmem.__file__).parent.rglob("*.py"))
    for name in re.findall(r"VAULTMEM_\w+", read_topic("environment")):
        assert name in sources


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


def test_the_manual_page_has_every_command_and_nothing_that_roff_takes_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["man", "--into", str(tmp_path)])
    runpy.run_path(str(Path(__file__).parents[2] / "docs/man.py"), run_name="__main__")
    page = (tmp_path / "vaultmem.1").read_text()

    assert re.findall(r"^\.SS \"(.*)\"$", page.replace("\\-", "-"), re.M) == list(COMMANDS)
    requests = {line.split()[0] for line in page.splitlines() if line[:1] in {".", "'"}}
    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi"}
    assert not re.search(r"\\(?!-|e|&|f[BR])", page)
    assert page.count("\\fB\\-\\-vault\\fR") == 1, "what is shared is told once"
