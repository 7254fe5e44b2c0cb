"""Notes that try to run, load, pose or break out, by their names."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_ESCAPED = " (escaped)"
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|[nr\\])")
_SIGNS = {"\\n": "\n", "\\r": "\r", "\\\\": "\\"}


@cache
def read_hostile_notes() -> dict[str, str]:
    """Return the texts of the notes; some have what no file in UTF-8 can hold (surrogates)."""
    whole = (Path(__file__).parent / "hostile_notes.txt").read_text("utf-8")
    found = {}
    for piece in re.split(r"^@@@ ", whole, flags=re.MULTILINE)[1:]:
        name, _, text = piece.partition("\n")
        if name.endswith(_ESCAPED):
            text = _ESCAPE.sub(_read_escape, text)
        found[name.removesuffix(_ESCAPED)] = text
    return found


def _read_escape(match: re.Match[str]) -> str:
    written = match[0]
    return _SIGNS.get(written) or chr(int(written[2:], 16))
