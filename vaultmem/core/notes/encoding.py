"""Decode text of unknown encoding: UTF-8, UTF-16 or Windows-1252."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from typing import NamedTuple

from vaultmem.errors import RefusedError

UTF_16, WINDOWS, MIXED = "UTF-16", "Windows-1252", "UTF-8 and Windows-1252"

#: The encoding given for a canvas: it is never rewritten as text.
CANVAS = "JSON Canvas"


class DecodedText(NamedTuple):
    """A text and its encoding; `encoding` is empty for UTF-8."""

    text: str
    encoding: str = ""


def describe_encoding(encoding: str) -> str:
    """Return a warning about a note that is a canvas or not UTF-8."""
    if encoding == CANVAS:
        return "a canvas, shown as text; only Obsidian changes its cards"
    is_known = encoding in {UTF_16, WINDOWS}
    tool = f"`iconv -f {encoding} -t UTF-8` or an editor" if is_known else "an editor"
    return f"its text is {encoding}, so it is never rewritten; save it as UTF-8 with {tool}"


def format_foreign(encoding: str) -> str:
    """Return a label for a note whose text is not shown: a canvas, or not UTF-8."""
    return "a canvas" if encoding == CANVAS else "not UTF-8"


def find_encoding(warnings: Iterable[str]) -> str:
    """Return the encoding that a note's warnings report, "" for UTF-8."""
    encodings = {describe_encoding(encoding): encoding for encoding in (UTF_16, WINDOWS, MIXED)}
    return next((encodings[warning] for warning in warnings if warning in encodings), "")


def decode_text(data: bytes) -> DecodedText:
    """Return the text of any bytes: UTF-8, UTF-16 with a byte order mark, or Windows-1252.

    Only invalid bytes are read as Windows-1252, so one foreign line does not change the others.
    """
    try:
        return DecodedText(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return DecodedText(data.decode("utf-16"), UTF_16)
        except UnicodeDecodeError:
            pass
    escaped = data.decode("utf-8", "surrogateescape")
    is_mixed = any("\x7f" < mark < "\udc80" or mark > "\udcff" for mark in escaped)
    return DecodedText(read_escapes(escaped), MIXED if is_mixed else WINDOWS)


def open_to_edit(data: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Return an editable text for bytes that are not UTF-8, and a function that encodes it again.

    Unchanged parts give the same bytes. Bytes that are not UTF-8 become private-use characters in
    the text.

    Raises:
        RefusedError: the text contains such characters already.
    """
    if decode_text(data).encoding == UTF_16:
        mark = data[:2]
        codec = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
        return data[2:].decode(codec), lambda text: mark + text.encode(codec)
    text = data.decode("utf-8", "surrogateescape")
    if any(chr(mark) in text for mark in _ESCAPED):
        raise RefusedError("it has marks of a private range")
    return text.translate(_MARKS), lambda text: text.translate(_ESCAPED).encode(
        "utf-8", "surrogateescape"
    )


def read_escapes(text: str) -> str:
    """Return text with lone surrogates (bytes that are not UTF-8) as Windows-1252 characters."""
    return text if text.isascii() else text.translate(_LETTERS)


# Windows-1252 does not define five bytes; browsers read them as control characters.
_LETTERS = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0x100)
}

#: Private-use characters for those bytes; YAML accepts them.
_MARKS = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_ESCAPED = {mark: escape for escape, mark in _MARKS.items()}
