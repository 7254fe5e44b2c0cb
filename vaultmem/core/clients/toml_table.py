"""One table of a TOML file, changed by position: every other byte stays."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from vaultmem.errors import RefusedError

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def read_toml(text: str) -> dict[str, Any]:
    """Return what a TOML text says.

    Raises:
        RefusedError: it is no TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise RefusedError(f"the settings are no TOML ({error}); correct them by hand") from None


def set_table(text: str, name: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with this table in the place of the one of that name, else at its end.

    Raises:
        RefusedError: it is no TOML, or it writes the table in another form.
    """
    before = read_toml(text)
    eol = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{name[0]}.{name[1]}]"]
    lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    table = eol.join(lines) + eol
    span = _find(text, name)
    if span is not None:
        new = text[: span[0]] + table + text[span[1] :]
    else:
        gap = "" if not text.strip() else eol if text.endswith(("\n", "\r")) else eol * 2
        new = text + gap + table
    _check(before, new, name, values)
    return new


def remove_table(text: str, name: tuple[str, str]) -> str:
    """Return the text without the table; unchanged if it is not there in the form we write."""
    span = _find(text, name)
    if span is None:
        return text
    before, after = text[: span[0]], text[span[1] :]
    for eol in ("\r\n", "\n"):  # The line that sets the table apart was written with it.
        if not after and before.endswith(eol * 2):
            return before[: -len(eol)]
    return before + after


def _find(text: str, name: tuple[str, str]) -> tuple[int, int] | None:
    """Return where a table begins, and where the next one, or comments before it, do."""
    header = re.compile(
        rf"^[ \t]*\[[ \t]*{re.escape(name[0])}[ \t]*\.[ \t]*"
        rf"\"?{re.escape(name[1])}\"?[ \t]*\][^\n]*\n?",
        re.MULTILINE,
    ).search(text)
    if header is None:
        return None
    following = _HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    body = text[header.end() : end]
    # Blank lines and comments before the next table belong to that.
    kept = re.search(r"^(?:[ \t]*(?:#[^\n]*)?\r?\n)*\Z", body, re.MULTILINE)
    if following and kept:
        end -= len(kept[0])
    return header.start(), end


def _check(before: dict[str, Any], new: str, name: tuple[str, str], values: dict[str, Any]) -> None:
    """Make sure that nothing but the table changed."""
    try:
        after = tomllib.loads(new.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError:
        after = {}
    was = {**before, name[0]: {**before.get(name[0], {}), name[1]: values}}
    if after != was:
        raise RefusedError(
            f'the settings write "{name[0]}.{name[1]}" in a form of their own; change it by hand'
        )
