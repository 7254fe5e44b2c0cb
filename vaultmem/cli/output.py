"""All printing: plain in a pipe, colours only with a meaning, and cleaned texts of notes."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vaultmem.core.text.display import clean_text, escape_bytes, one_line, width
from vaultmem.core.text.json_values import as_plain
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.operations.declaration import Line
    from vaultmem.vault import Vault

_COLOURS = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31"}


@contextlib.contextmanager
def _naming_output() -> Iterator[None]:
    """Add the name of standard output, which Python does not, to its errors."""
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def _write(text: str) -> None:
    with _naming_output():
        sys.stdout.write(text)


def print_line(text: str = "") -> None:
    """Print text without control characters."""
    _write("\n".join(map(clean_text, text.split("\n"))) + "\n")


def print_raw(text: str) -> None:
    """Print a note's text: unchanged in a pipe, cleaned on a terminal."""
    if sys.stdout.isatty():
        print_line(text.rstrip("\n"))
    else:
        with _naming_output():
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()


def truncate_to_terminal(line: str) -> str:
    """Return a line truncated to the terminal's width; unchanged without a terminal."""
    if fits_terminal(line):
        return line
    end = columns = _find_width() - 3
    while width(line[:end]) > columns:
        end -= 1
    return f"{line[:end]}..."


def fits_terminal(line: str) -> bool:
    """Return whether a line fits the terminal; always true without a terminal."""
    return not sys.stdout.isatty() or width(line) <= _find_width()


def _find_width() -> int:
    from vaultmem.environment import current_environment

    columns = current_environment().get("COLUMNS", "")
    count = int(columns) if columns.isdecimal() else 0
    return max(count or shutil.get_terminal_size().columns, 20)


def confirm(action: str, yes: bool) -> None:
    """Ask for confirmation of what was printed, unless `yes` is set.

    Raises:
        RefusedError: standard input is not a terminal.
        typer.Abort: the user declined.
    """
    import typer

    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"standard input is not a terminal; add --yes to make {action}")
    typer.confirm(f"Make {action}?", abort=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    end_line()
    sys.stderr.write(f"vaultmem: {one_line(text)}\n")


def emit_error(text: str, code: int) -> None:
    """Print an error to standard error as a line of JSON."""
    end_line()
    data = {"error": escape_bytes(text), "exit_code": code}
    sys.stderr.write(json.dumps(data, ensure_ascii=False) + "\n")


#: Why the current result is from an old index, "" if the index is up to date.
_behind = ""


def print_stale_reason(why: str) -> None:
    """Print why a result is older than the notes, if it is; JSON has it as `behind`."""
    global _behind
    _behind = why
    if why and not _is_for_program:
        warn(why)


#: Written branches that are not checked out, and sentences about suspicious text, of the current
#: command.
_landed: list[str] = []
_suspicious: list[str] = []


def follow_writes(landed: list[str], suspicious: list[str]) -> None:
    """Set the lists that are reported in JSON or by `print_written_branch`."""
    global _landed, _suspicious
    _landed, _suspicious = landed, suspicious


def print_written_branch() -> None:
    """Print the written branches that are not checked out, and the suspicious texts."""
    for branch in dict.fromkeys(_landed):
        print_styled("on  ", "green", f"{escape_bytes(branch)}, which is not checked out")
    for sentence in dict.fromkeys(_suspicious):
        warn(sentence)
    follow_writes([], [])


#: Whether a program reads the output of the current command.
_is_for_program = False


def answer_program(is_one: bool = True) -> None:
    """Record that a program reads the output: hints and stale reasons are not printed."""
    global _is_for_program
    _is_for_program = is_one


def print_hint(make: Callable[[], str]) -> None:
    """Print a hint for people on standard error, if there is one."""
    if not _is_for_program and (hint := make()):
        end_line()
        sys.stderr.write(f"hint: {one_line(hint)}\n")


def emit_json(value: Any) -> None:
    """Print a value as JSON: indented by two spaces on a terminal, otherwise in one line."""
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
    _write(json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def paint(text: str, style: str) -> str:
    """Return text in a style ("": none) if standard output is a terminal with colours."""
    if not (style and sys.stdout.isatty()):
        return text
    from vaultmem.environment import current_environment  # Slow to import, and not needed for help.

    environment = current_environment()
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"


def print_styled(text: str, style: str, rest: str = "") -> None:
    """Print a cleaned line whose first part has a style."""
    _write(paint(one_line(text), style) + one_line(rest) + "\n")


def print_lines(lines: Iterable[Line]) -> None:
    """Print the lines of a result."""
    for line in lines:
        if line.style == "raw":
            print_raw(line.text)
        elif line.style:
            print_styled(*line)
        else:
            print_line(line.text + line.rest)


class ProgressLine:
    """A progress line on standard error: only on a terminal, and only after a second."""

    #: Whether a progress line is printed and not ended.
    is_open = False

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` items are complete."""
        if not sys.stderr.isatty() or time.monotonic() - self._started < 1:
            return
        columns = 24
        filled = columns * done // total if total else columns
        bar = "#" * filled + "." * (columns - filled)
        sys.stderr.write(f"\r{self._label} [{bar}] {done:,} of {total:,}")
        ProgressLine.is_open = True
        if done >= total:
            end_line()
        sys.stderr.flush()


def end_line() -> None:
    """End the current progress line, if there is one."""
    if ProgressLine.is_open:
        ProgressLine.is_open = False
        sys.stderr.write("\n")


@contextlib.contextmanager
def following(vault: Vault) -> Iterator[ProgressLine]:
    """Show the progress of indexing; after Ctrl-C, print what was indexed."""
    progress = ProgressLine("reading notes")
    try:
        yield progress
    except KeyboardInterrupt:
        if progress.is_open:
            from vaultmem.services.views.update_index import count_indexed

            indexed, notes = count_indexed(vault)
            warn(f"stopped; {indexed:,} of {notes:,} notes are indexed; the next command goes on")
        raise
