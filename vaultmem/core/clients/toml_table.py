"""One table of a TOML file, changed by position: every other byte stays.

A table in another form than ours is not found; `settings` sees that what comes out is not right.
"""

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
        raise RefusedError(f"the settings are not TOML ({error}); correct them by hand") from None


def set_table(text: str | None, name: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these values in the table of that name, which is put at its end if new.

    What else the table has stays. Before a new one comes one line end, whatever was before it, so
    that `remove_table` knows what to cut; None is no file, and nothing comes before it.
    """
    span = _find(text or "", name)
    if text is None or span is None:
        eol = _line_end(text or "")
        lines = [f"[{name[0]}.{name[1]}]", *(_write(*each) for each in values.items())]
        return f"{'' if text is None else text + eol}{eol.join(lines)}{eol}"
    body = text[span[0] : span[1]]
    for key, value in values.items():
        body = _set_key(body, key, value)
    return text[: span[0]] + body + text[span[1] :]


def remove_table(text: str, name: tuple[str, str]) -> str | None:
    """Return the text without the table and those below it; None if the file was made for it."""
    while (span := _find(text, name, is_below=True)) is not None:
        # The blank lines before it set it apart from what was above.
        above = re.sub(r"(?<=\n)(?:[ \t]*\r?\n)+\Z", "", text[: span[0]])
        text = above + text[span[1] :]
    if (span := _find(text, name)) is not None:
        before, after = text[: span[0]], text[span[1] :]
        if not before + after:
            return None
        shorter = before.removesuffix("\n").removesuffix("\r")
        # The line end before it is ours, unless what is left would come into one line.
        if shorter[-1:] in ("", "\n", "\ufeff") or after[:1] in ("", "\r", "\n"):
            before = shorter
        text = before + after
    return text


def _find(text: str, name: tuple[str, str], is_below: bool = False) -> tuple[int, int] | None:
    """Return where a table begins and ends; or, of those that are below it, the first one."""
    below = r"\.[^\n]*" if is_below else ""
    header = re.compile(
        rf"^[ \t]*\[\[?[ \t]*\"?{re.escape(name[0])}\"?[ \t]*\.[ \t]*"
        rf"\"?{re.escape(name[1])}\"?[ \t]*{below}\][^\n]*\n?",
        re.MULTILINE,
    ).search(text)
    if header is None:
        return None
    following = _HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    # Blank lines and comments behind it belong to what comes next.
    body = text[header.end() : end]
    kept = re.search(r"^(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:[ \t]*#[^\n]*)?\Z", body, re.MULTILINE)
    return header.start(), end - len(kept[0] if kept else "")


def _set_key(body: str, key: str, value: Any) -> str:
    """Return a table's text with another value of a key; it comes first if it is new."""
    found = re.compile(rf"^[ \t]*\"?{re.escape(key)}\"?[ \t]*=[ \t]*", re.MULTILINE).search(body)
    if found is None:
        head, eol, rest = body.partition("\n")
        return f"{head}{eol or _line_end(body)}{_write(key, value)}{_line_end(body)}{rest}"
    for end in range(found.end() + 1, len(body) + 1):
        try:
            old = tomllib.loads(f"v = {body[found.end() : end]}".replace("\r\n", "\n"))["v"]
        except tomllib.TOMLDecodeError:
            continue
        new = body[found.end() : end] if old == value else json.dumps(value, ensure_ascii=False)
        return body[: found.end()] + new + body[end:]
    return body


def _write(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
