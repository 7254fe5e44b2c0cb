"""The one place that prints: plain when piped, coloured only for meaning, never misled by notes."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vaultmem.core.text.display import clean_text, escape_bytes, one_line
from vaultmem.core.text.json_values import as_plain
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.operations.declaration import Line
    from vaultmem.vault import Vault

_COLOURS = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31"}


def print_line(text: str = "") -> None:
    """Print text of our own and of notes: control characters are left out."""
    sys.stdout.write("\n".join(map(clean_text, text.split("\n"))) + "\n")


def print_raw(text: str) -> None:
    """Print a note's own text exactly as it is when piped; cleaned on a terminal."""
    if sys.stdout.isatty():
        print_line(text.rstrip("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()


def truncate_to_terminal(line: str) -> str:
    """Return a line as wide as the terminal at most; whole where it goes elsewhere."""
    return line if fits_terminal(line) else f"{line[: _find_width() - 3]}..."


def fits_terminal(line: str) -> bool:
    """Tell whether a line has room in the terminal, or goes elsewhere."""
    return not sys.stdout.isatty() or len(line) <= _find_width()


def _find_width() -> int:
    from vaultmem.environment import current_environment

    columns = current_environment().get("COLUMNS", "")
    given = int(columns) if columns.isdecimal() else 0
    return max(given or shutil.get_terminal_size().columns, 20)


def confirm(what: str, yes: bool) -> None:
    """Ask whether what is shown shall be done, unless `yes` says so.

    Raises:
        RefusedError: nobody is at a terminal to be asked.
        typer.Abort: the answer is no.
    """
    import typer

    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"standard input is not a terminal; add --yes to make {what}")
    typer.confirm(f"Make {what}?", abort=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    end_line()
    sys.stderr.write(f"vaultmem: {one_line(text)}\n")


def emit_error(text: str, code: int) -> None:
    """Print an error to standard error as a line of JSON."""
    end_line()
    told = {"error": escape_bytes(text), "exit_code": code}
    sys.stderr.write(json.dumps(told, ensure_ascii=False) + "\n")


#: Why the answer under way is not from an index in sync, empty if it is.
_behind = ""


def print_stale_reason(why: str) -> None:
    """Print why an answer is older than the notes, if it is; JSON has it as `behind`."""
    global _behind
    _behind = why
    if why:
        warn(why)


#: The branches, not checked out, that the command under way has written to, and what it wrote that
#: tries to instruct an agent.
_landed: list[str] = []
_suspicious: list[str] = []


def follow_writes(landed: list[str], suspicious: list[str]) -> None:
    """Report what these lists will hold, as JSON or as `print_written_branch` does."""
    global _landed, _suspicious
    _landed, _suspicious = landed, suspicious


def print_written_branch() -> None:
    """Print on which branch it is that was written, where that is not what is checked out."""
    for branch in dict.fromkeys(_landed):
        print_styled("on  ", "green", f"{escape_bytes(branch)}, which is not checked out")
    for sentence in dict.fromkeys(_suspicious):
        warn(sentence)
    follow_writes([], [])


#: Whether a program reads what the command under way prints.
_is_for_program = False


def answer_program(is_one: bool = True) -> None:
    """Note that a program reads the answer; `print_hint` prints nothing for it."""
    global _is_for_program
    _is_for_program = is_one


def print_hint(make: Callable[[], str]) -> None:
    """Print a hint for a person on standard error, if there is one."""
    if not _is_for_program and (hint := make()):
        end_line()
        sys.stderr.write(f"hint: {one_line(hint)}\n")


def emit_json(value: Any) -> None:
    """Print a value as JSON: two spaces of indent on a terminal, one line otherwise."""
    answer_program()
    plain = as_plain(value)
    if _landed and isinstance(plain, dict):
        plain = {**plain, "ref": escape_bytes(_landed[-1])}
    if _suspicious and isinstance(plain, dict):
        plain = {**plain, "suspicious": list(dict.fromkeys(map(escape_bytes, _suspicious)))}
    if isinstance(plain, dict):
        follow_writes([], [])
    if _behind and isinstance(plain, dict):
        plain = {**plain, "behind": _behind}
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False))


def paint(text: str, style: str) -> str:
    """Return text in a style, if standard output is a terminal that wants colours; "" is none."""
    if not (style and sys.stdout.isatty()):
        return text
    from vaultmem.environment import current_environment  # It brings much that help does not need.

    if current_environment().get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"


def print_styled(text: str, style: str, rest: str = "") -> None:
    """Print a cleaned line whose first part has a style."""
    sys.stdout.write(paint(one_line(text), style) + one_line(rest) + "\n")


def print_lines(lines: Iterable[Line]) -> None:
    """Print the lines of an answer."""
    for line in lines:
        if line.style == "raw":
            print_raw(line.text)
        elif line.style:
            print_styled(*line)
        else:
            print_line(line.text + line.rest)


class ProgressLine:
    """A line on standard error about long work: only on a terminal, only after a second."""

    #: Whether one stands there that has not been ended.
    is_open = False

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        if not sys.stderr.isatty() or time.monotonic() - self._started < 1:
            return
        width = 24
        filled = width * done // total if total else width
        bar = "#" * filled + "." * (width - filled)
        sys.stderr.write(f"\r{self._what} [{bar}] {done:,} of {total:,}")
        ProgressLine.is_open = True
        if done >= total:
            end_line()
        sys.stderr.flush()


def end_line() -> None:
    """End the line of progress that stands there, if one does: what comes next has its own."""
    if ProgressLine.is_open:
        ProgressLine.is_open = False
        sys.stderr.write("\n")


@contextlib.contextmanager
def following(vault: Vault) -> Iterator[ProgressLine]:
    """Show how far reading notes is; where Ctrl-C stops it, say what is kept of it."""
    progress = ProgressLine("reading notes")
    try:
        yield progress
    except KeyboardInterrupt:
        if progress.is_open:
            from vaultmem.services.views.update_index import count_indexed

            indexed, notes = count_indexed(vault)
            warn(f"stopped; {indexed:,} of {notes:,} notes are indexed; the next command goes on")
        raise
