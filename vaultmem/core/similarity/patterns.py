"""How a text divides into tokens; the first pattern that fits counts."""

from __future__ import annotations

import re

from vaultmem.core.similarity import quantities

_NAMES = sorted(
    {name.capitalize() for name in quantities.MONTHS.split()[::2]}, key=len, reverse=True
)

#: The names of months, as a pattern.
MONTHS = rf"(?:{'|'.join(_NAMES)})"

_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"\d{4}"

_PARTS = {
    "url": r"https?://[^\s<>\"')]+",
    "mail": r"[\w.+-]+@[\w-]+\.[\w.-]*\w",
    "date": (
        rf"\b{_YEAR}-\d\d(?:-\d\d)?(?:T\d\d:\d\d(?::\d\d)?)?\b"
        rf"|\b\d{{1,2}}\.\d{{1,2}}\.{_YEAR}\b"
    ),
    "named_date": (
        rf"\b{_DAY}\.? (?:of )?{MONTHS}\b\.?(?:,? {_YEAR})?\b"
        rf"|\b{MONTHS}\b\.? {_DAY}\b(?:,? {_YEAR})?(?![:\d])"
        rf"|\b{MONTHS}\b\.? {_YEAR}\b"
    ),
    "phone": r"\+\d[\d() -]{6,}\d",
    "time": (
        r"\b\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m\b)?(?: Uhr\b)?"
        r"|\b\d{1,2} ?[ap]m\b|\b\d{1,2} Uhr\b"
    ),
    "flag": r"(?<![\w-])--?[A-Za-z][\w-]*",
    "version": r"\bv?\d+(?:\.\d+){2,}[\w.+-]*\b|\bv\d+(?:\.\d+)*\b",
    "number": (
        r"(?P<sign>[€$£] ?)?(?<![\w.])-?\d+(?:[.,_ ]\d{3})*(?:[.,]\d+)?(?P<k>[kK](?!\w))?"
        r"(?:[ -]?(?P<unit>°[CF]|%|€|\$|£|[A-Za-z]+(?:/[a-z]+)?))?(?!\w)"
    ),
    "issue": r"\#\d+",
    "limit": r"<=|>=|<|>",
    "identifier": (
        r"[./\w]*\w(?:[./:@\\]+\w+|\(\)|::\w+)+(?:\(\))?|\w*_\w+|\.\w[\w.]+|/\w[\w/.-]*"
        r"|[A-Za-z]\w*(?:-\w+)*-\d\w*"
    ),
    "word": r"[^\W_]+(?:'[^\W_]+)?(?:\+\d+)?",
    "breaks": r"(?:[,;.!?\n]|:(?! ?\d))+",
}

TOKEN = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PARTS.items()))
