"""Text of which nobody said how it is written: UTF-8, else what old editors and shells wrote."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from typing import NamedTuple

from vaultmem.errors import RefusedError

UTF_16, WINDOWS, MIXED = "UTF-16", "Windows-1252", "UTF-8 and Windows-1252"

#: What stands for the encoding of a note that is a canvas: it is read, and never rewritten as text.
CANVAS = "JSON Canvas"


class Decoded(NamedTuple):
    """A text, and how its bytes are written; `encoding` is empty where that is UTF-8."""

    text: str
    encoding: str = ""


def describe_encoding(encoding: str) -> str:
    """Say what follows for a note whose bytes are no UTF-8, or that is a canvas."""
    if encoding == CANVAS:
        return "a canvas, shown as text; only Obsidian changes its cards"
    known = encoding in {UTF_16, WINDOWS}
    how = f"`iconv -f {encoding} -t UTF-8` or an editor" if known else "an editor"
    return f"its text is {encoding}, so it is never rewritten; save it as UTF-8 with {how}"


def format_foreign(encoding: str) -> str:
    """Return what a note is of which only bytes are kept, not text."""
    return "a canvas" if encoding == CANVAS else "not UTF-8"


def find_encoding(warnings: Iterable[str]) -> str:
    """Return the encoding that a note's warnings tell of, empty if it is UTF-8."""
    told = {describe_encoding(encoding): encoding for encoding in (UTF_16, WINDOWS, MIXED)}
    return next((told[warning] for warning in warnings if warning in told), "")


def decode_text(data: bytes) -> Decoded:
    """Return the text of any bytes: UTF-8, UTF-16 by its mark, else the rest as Windows-1252.

    Only what is no UTF-8 is read as Windows-1252, so that one foreign line does not spoil a file.
    """
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return Decoded(data.decode("utf-16"), UTF_16)
        except UnicodeDecodeError:
            pass
    escaped = data.decode("utf-8", "surrogateescape")
    is_mixed = any("\x7f" < mark < "\udc80" or mark > "\udcff" for mark in escaped)
    return Decoded(read_escapes(escaped), MIXED if is_mixed else WINDOWS)


def open_to_edit(data: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Return a text for bytes that are no UTF-8, and what makes bytes of it once it is changed.

    What is not changed becomes the very same bytes, whatever they mean: those that are no UTF-8 are
    marks of a private range here, not letters.

    Raises:
        RefusedError: the text has such marks already.
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
    """Return text whose lone surrogates, as Python keeps bytes that are no UTF-8, are read too."""
    return text if text.isascii() else text.translate(_LETTERS)


# The five bytes that Windows-1252 leaves out are control characters, as browsers read them.
_LETTERS = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0x100)
}

#: Marks for those bytes that YAML takes, and that nobody uses.
_MARKS = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_ESCAPED = {mark: escape for escape, mark in _MARKS.items()}
