"""Write the manual page, vaultmem.1, from what the commands say of themselves.

`make man` runs it. The page has the help of each command, and the topics of `vaultmem help`; of
options that many commands share it tells once. The form is that of man(7), without macros of groff.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from vaultmem import __version__
from vaultmem.cli.app import build_commands
from vaultmem.cli.commands import read_groups
from vaultmem.cli.options import SHARED_HELP
from vaultmem.cli.topics import list_topics, read_topic

#: Topics that have a section of their own in manual pages, by the name that it has there.
_SECTIONS = {"exit-codes": "EXIT STATUS", "environment": "ENVIRONMENT", "settings": "FILES"}


class Page:
    """Takes what a command writes as its help, in place of Typer's own formatter, as man(7)."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, macro: str, text: str = "") -> None:
        """Add a macro, and a text below it."""
        self.lines += [macro, *map(escape, textwrap.wrap(text, 72))]

    def write_usage(self, program: str, words: str) -> None:
        """Begin a command; the page has its name already."""
        self.add(".PP")
        self.lines.append(f"\\fB{escape(program)}\\fR {escape(words)}")

    def write_paragraph(self) -> None:
        """Begin a paragraph: `write_text` does."""

    @contextmanager
    def indentation(self) -> Iterator[None]:
        """Indent nothing."""
        yield

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Begin a part of the help; its rows are told apart by their look."""
        yield

    def write_text(self, text: str) -> None:
        """Add paragraphs; those that are indented stay as they are."""
        for each in text.strip("\n").split("\n\n"):
            if each.startswith(" "):
                self.write(each)
            else:
                self.add(".PP", each)

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add options and what they are for, but not those that are told of once."""
        for name, text in rows:
            if text not in SHARED_HELP:
                self.lines += [".TP", f"\\fB{escape(name)}\\fR"]
                self.lines += map(escape, textwrap.wrap(text, 72))

    def write(self, text: str) -> None:
        """Add lines that stay as they are."""
        kept = textwrap.dedent(text).strip("\n").split("\n")
        self.lines += [".PP", ".nf", *map(escape, kept), ".fi"]


def escape(text: str) -> str:
    """Return text in which nothing is a request of roff."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain[:1] in {".", "'"} else plain


def make_page() -> str:
    """Return the manual page."""
    page, root = Page(), build_commands()
    page.lines.append(f'.TH VAULTMEM 1 "" "vaultmem {__version__}" "User Commands"')
    page.add(".SH NAME")
    page.lines.append("vaultmem \\- an agent's long\\-term memory as a folder of markdown in git")
    page.add(".SH SYNOPSIS")
    page.lines.append("\\fBvaultmem\\fR [OPTIONS] COMMAND [ARGS]...")
    page.add(".SH DESCRIPTION")
    page.lines.append("Files are the truth, git is the history, all else is a cache.")
    for heading, names in read_groups():
        page.add(f'.SH "{escape(heading.upper())}"')
        for name in names:
            _write_command(page, root.commands[name], ("vaultmem", name))
    page.add(".SH OPTIONS", "Most commands take these, and all do before the command's name:")
    rows = {each.opts[-1]: each for command in root.commands.values() for each in command.params}
    for option in ("--vault", "--agent", "--session", "--ref", "--json"):
        shared = rows[option]
        value = f" {shared.metavar}" if shared.metavar else ""
        page.lines += [".TP", f"\\fB{escape(option)}\\fR{value}", escape(shared.help)]
    for name in [*_SECTIONS, *(each for each in list_topics() if each not in _SECTIONS)]:
        title, _, text = read_topic(name).partition("\n\n")
        page.add(f'.SH "{escape(_SECTIONS.get(name, title.partition(":")[0].upper()))}"')
        page.write_text(text.partition("\nSee also:")[0])
    page.add(".SH SEE ALSO", "git(1), and the how-tos and the tutorial in the sources' docs/.")
    # A heading begins a paragraph by itself.
    pairs = zip(["", *page.lines], page.lines, strict=False)
    return "".join(f"{line}\n" for before, line in pairs if line != ".PP" or before[:2] != ".S")


def _write_command(page: Page, command: Any, words: tuple[str, ...]) -> None:
    page.add(f'.SS "{escape(" ".join(words[1:]))}"')
    command.format_help(typer.Context(command, info_name=" ".join(words)), page)
    for name, each in getattr(command, "commands", {}).items():
        _write_command(page, each, (*words, name))


def main() -> None:
    """Write the page into a folder."""
    parser = argparse.ArgumentParser(description="Write the manual page vaultmem.1.")
    parser.add_argument("--into", type=Path, default=Path("dist"))
    file = parser.parse_args().into / "vaultmem.1"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(make_page(), encoding="utf-8")
    print(file)


if __name__ == "__main__":
    main()
