"""Turns of a transcript as JSON lines, chained by digests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from vaultmem.core.secrets.scan import find_secrets, mask_secrets
from vaultmem.core.text.json_values import as_json_object
from vaultmem.core.text.token_count import count_tokens

#: Most characters of text in one line; longer turns are split.
MAX_PART = 16_384

#: Most characters of a call's tool, command and files in a line; the text contains all of them.
_MAX_TOOL, _MAX_COMMAND, _MAX_FILES = 100, 1_000, 4_000

_DIGEST_DIGITS = 32
_END_OF_KEY = re.compile(r"-----END [A-Z0-9 ]+-----")


class Turn(NamedTuple):
    """A message of the user or agent, or a tool's call or result; `at` is ISO 8601, "" if unknown.

    For a call, `tool` is its name, `files` are the files that it names, and `command` is what it
    runs. `failed` is set on the result of a failed call.
    """

    role: str
    text: str
    at: str = ""
    tool: str = ""
    files: tuple[str, ...] = ()
    command: str = ""
    failed: bool = False


class TranscriptLine(NamedTuple):
    """A line of a transcript: a turn, or a part of one.

    `tokens` are the line's, `total` the session's up to its end. `digest` covers the line and the
    digest before it. The last four fields are the turn's.
    """

    number: int
    part: int
    parts: int
    role: str
    at: str
    text: str
    tokens: int
    total: int
    digest: str
    tool: str = ""
    files: tuple[str, ...] = ()
    command: str = ""
    failed: bool = False


class TranscriptPosition(NamedTuple):
    """The end of a transcript: turns and tokens so far, and the digest of its last line."""

    turns: int = 0
    tokens: int = 0
    digest: str = ""


def add_lines(
    turn: Turn, tally: TranscriptPosition
) -> tuple[list[TranscriptLine], TranscriptPosition]:
    """Return a turn as the lines after a position, and the position after them."""
    text = leave_out_secrets(turn.text).encode("utf-8", "replace").decode("utf-8")
    pieces = [text[at : at + MAX_PART] for at in range(0, len(text), MAX_PART)] or [""]
    number, total, digest = tally.turns + 1, tally.tokens, tally.digest
    deed = _deed_of(turn)
    lines = []
    for part, piece in enumerate(pieces, 1):
        tokens = count_tokens(piece)
        total += tokens
        fresh = TranscriptLine(
            number=number,
            part=part,
            parts=len(pieces),
            role=turn.role,
            at=turn.at,
            text=piece,
            tokens=tokens,
            total=total,
            digest="",
            **deed,
        )
        digest = _digest(digest, fresh)
        lines.append(fresh._replace(digest=digest))
    return lines, TranscriptPosition(number, total, digest)


def encode_line(line: TranscriptLine) -> bytes:
    """Return a line of a transcript as bytes, with its line end."""
    return (json.dumps(_fields_of(line), ensure_ascii=False) + "\n").encode("utf-8")


def encode_dropped(tally: TranscriptPosition) -> bytes:
    """Return the line that replaces all dropped lines up to a position."""
    return (json.dumps({"dropped": as_json_object(tally)}) + "\n").encode()


def decode_line(data: bytes) -> TranscriptLine | TranscriptPosition | None:
    """Return the content of a line of a transcript; None if it is broken."""
    try:
        value: Any = json.loads(data)
        if "dropped" in value:
            return TranscriptPosition(
                **{name: kind(value["dropped"][name]) for name, kind in _TALLY}
            )
        deed = {name: kind(value[name]) for name, kind in _DEED if name in value}
        return TranscriptLine(**{name: kind(value[name]) for name, kind in _LINE}, **deed)
    except (ValueError, TypeError, KeyError):
        return None


def tally_of(line: TranscriptLine | TranscriptPosition) -> TranscriptPosition:
    """Return the position of a transcript after a line."""
    return (
        line
        if isinstance(line, TranscriptPosition)
        else TranscriptPosition(line.number, line.total, line.digest)
    )


def join_turns(lines: Iterable[TranscriptLine | TranscriptPosition]) -> Iterator[tuple[int, Turn]]:
    """Yield turns with their numbers; a turn without its first parts is yielded as found."""
    parts: list[TranscriptLine] = []
    for line in lines:
        if isinstance(line, TranscriptPosition):
            continue
        if parts and line.number != parts[0].number:
            yield _join(parts)
            parts = []
        parts.append(line)
    if parts:
        yield _join(parts)


def leave_out_secrets(text: str) -> str:
    """Return text with each line that looks like a credential replaced by a remark."""
    rules = {
        number: each.rule
        for each in find_secrets(text)
        for number in range(each.line, each.line + text.count("\n", each.start, each.end) + 1)
    }
    if not rules:
        return text
    lines: list[str] = []
    in_key = False
    for number, line in enumerate(text.split("\n"), 1):
        if number in rules:
            if rules.get(number - 1) != rules[number]:
                lines.append(f"(left out: it looks like a credential, {rules[number]})")
            in_key = rules[number] == "private-key" and not _END_OF_KEY.search(line)
        elif not in_key:
            lines.append(line)
        elif _END_OF_KEY.search(line):
            in_key = False
    return "\n".join(lines)


_LINE: tuple[tuple[str, Any], ...] = (
    *(("number", int), ("part", int), ("parts", int), ("role", str), ("at", str)),
    *(("text", str), ("tokens", int), ("total", int), ("digest", str)),
)
#: Optional fields, omitted if empty.
_DEED: tuple[tuple[str, Any], ...] = (
    *(("tool", str), ("files", tuple), ("command", str), ("failed", bool)),
)
_TALLY: tuple[tuple[str, Any], ...] = (("turns", int), ("tokens", int), ("digest", str))


def _join(lines: list[TranscriptLine]) -> tuple[int, Turn]:
    first = lines[0]
    turn = Turn(first.role, "".join(line.text for line in lines), first.at)
    return first.number, turn._replace(**{name: getattr(first, name) for name, _ in _DEED})


def _deed_of(turn: Turn) -> dict[str, Any]:
    """Return the fields of a turn's call or result, bounded and without credentials."""
    files, left = list[str](), _MAX_FILES
    for file in map(_as_plain, turn.files):
        if len(file) <= left:
            files.append(file)
            left -= len(file)
    return {
        "tool": turn.tool[:_MAX_TOOL],
        "files": tuple(files),
        "command": _as_plain(turn.command)[:_MAX_COMMAND],
        "failed": turn.failed,
    }


def _as_plain(text: str) -> str:
    return mask_secrets(text).encode("utf-8", "replace").decode("utf-8")


def _fields_of(line: TranscriptLine) -> dict[str, Any]:
    """Return a line's fields by name; empty optional ones are omitted."""
    optional = {name for name, _ in _DEED}
    return {n: v for n, v in as_json_object(line).items() if v or n not in optional}


def _digest(before: str, line: TranscriptLine) -> str:
    """Return the digest of a line: SHA-256 of the previous digest and all of its fields."""
    fields = _fields_of(line) | {"digest": before}
    data = json.dumps(fields, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:_DIGEST_DIGITS]
