"""Find text that tries to instruct an agent, by rules stored as data.

A text is checked as written, and without hidden characters and look-alike letters. It is also
decoded: base64, hexadecimal, percent and other escapes, ROT13, reversed, spaced out, and digits as
letters.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from vaultmem.core.secrets.rules import Rule, Rules, compile_regex, read_rules_file
from vaultmem.core.secrets.scan import drop_hidden, find_candidates
from vaultmem.core.text.display import LATIN

#: The property with the names of the rules that caused a quarantine.
PROPERTY = "suspicious"

#: Maximum decoded texts to check, their total characters, and the depth of nested encodings.
_MAX_DECODED_TEXTS, _MAX_CHARACTERS, _MAX_DECODING_DEPTH = 200, 1_000_000, 3

#: Minimum length of an encoded text.
_SHORTEST = 20

#: Encoded texts: base64, hexadecimal, and sequences of character escapes.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,20000}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){10,10000}(?![0-9A-Za-z])")
_ESCAPES = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}){8,4000}|(?:\\u[0-9a-fA-F]{4}){8,4000}"
    r"|(?:&#(?:x[0-9a-fA-F]{1,6}|[0-9]{1,7});){8,4000}"
)
_PERCENT_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_LETTERS = re.compile(r"[A-Za-z]{3}")

_SPACED_LETTERS = re.compile(r"(?<!\w)(?:\w ){5,400}\w(?!\w)")
_GAP = re.compile(r"(?<=\w) (?=\w)")
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_LEET = str.maketrans("0134579@$", "oieastgas")


#: A disguised instruction contains one of these words.
_WORDS = ("instruction", "anweisung", "prompt", "curl ")


class SuspiciousFinding(NamedTuple):
    """A text that tries to instruct an agent: its 1-based line and the rule's id."""

    line: int
    rule: str


@cache
def read_suspicious_rules() -> Rules:
    """Return the rules of `suspicious.toml`, with their shorthands expanded."""
    rules = read_rules_file(Path(__file__).with_name("suspicious.toml"))
    return Rules(tuple(_write_out(rule) for rule in rules.rules))


def find_suspicious(text: str) -> list[SuspiciousFinding]:
    """Return the places where a text tries to instruct an agent, once for each rule, by line."""
    lines: dict[str, int] = {}
    for line, view in _list_views(text):
        for rule in find_candidates(view, _rules(is_raw=False)):
            _add(lines, rule, view, line)
    if not text.isascii():
        for rule in _rules(is_raw=True).rules:
            _add(lines, rule, text, 0)
    return sorted(SuspiciousFinding(line, rule) for rule, line in lines.items())


def _add(lines: dict[str, int], rule: Rule, view: str, line: int) -> None:
    """Record a rule's first match. `line` is the line of the whole view, 0 to count it."""
    if rule.id not in lines and (match := compile_regex(rule.regex).search(view)):
        lines[rule.id] = line or view.count("\n", 0, match.start()) + 1


def _list_views(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lowercase texts to check, with the line of decoded text or 0."""
    plain = _fold(text)
    yield 0, plain
    yield from ((0, view) for view in _list_disguised(plain) if _says_more(view, plain))
    yield from ((1, view) for view in (plain[::-1],) if _says_more(view, plain))
    if _PERCENT_ESCAPE.search(text):
        yield 0, _fold(unquote(text))
    budget, length = _MAX_DECODED_TEXTS, 0
    for line, decoded in _decode(text, _MAX_DECODING_DEPTH):
        budget, length = budget - 1, length + len(decoded)
        if budget < 0 or length > _MAX_CHARACTERS:
            return
        yield line, _fold(decoded)


def _list_disguised(plain: str) -> Iterator[str]:
    """Yield a text with letters for digits, with spaced letters joined, and as ROT13."""
    yield plain.translate(_ROT13)
    yield plain.translate(_LEET)
    if _SPACED_LETTERS.search(plain):
        yield _SPACED_LETTERS.sub(lambda match: _GAP.sub("", match[0]), plain)


def _says_more(view: str, plain: str) -> bool:
    """Return whether a view has suspicious words that the text itself has not."""
    return any(view.count(word) > plain.count(word) for word in _WORDS)


def _fold(text: str) -> str:
    """Return a text in lower case, with look-alike letters replaced by Latin ones."""
    if text.isascii():
        return drop_hidden(text)[0].lower()
    visible = drop_hidden(text)[0]
    return unicodedata.normalize("NFKC", visible).translate(_letters()).lower()


@cache
def _letters() -> dict[int, str]:
    """Return the look-alike letters to replace, without letters of Latin alphabets."""
    return {code: latin for code, latin in LATIN.items() if code > 0x250}


def _decode(text: str, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the text encoded in long words of a text, also nested, with its line."""
    for line, words in enumerate(map(str.split, text.split("\n")), 1):
        for word in words:
            for decoded in _find_encoded(word) if len(word) >= _SHORTEST else ():
                if len(_LETTERS.findall(decoded)) > 1:
                    yield line, decoded
                    inner = _decode(decoded, depth - 1) if depth > 1 else ()
                    yield from ((line, each) for _, each in inner)


def _find_encoded(word: str) -> Iterator[str]:
    """Yield the texts encoded in a word."""
    for match in _BASE64.finditer(word):
        yield from _decode_base64(match[0])
    for match in _HEX.finditer(word):
        yield _as_text(bytes.fromhex(match[0]))
    for match in _ESCAPES.finditer(word) if "\\" in word or "&#" in word else ():
        from html import unescape

        yield unescape(match[0]) if match[0][0] == "&" else _unescape(match[0])


def _decode_base64(text: str) -> Iterator[str]:
    """Yield the text encoded as base64, if it is text."""
    if text.isalpha() and (text.islower() or text.isupper()):
        return
    whole = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(whole[: len(whole) // 4 * 4 + (len(whole) % 4 > 1) * 4] + "==")
    except (binascii.Error, ValueError):
        return
    if decoded := _as_text(data):
        yield decoded


def _as_text(data: bytes) -> str:
    """Return bytes as text, or "" if they are not printable UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return text if sum(map(str.isprintable, text)) * 10 >= len(text) * 9 else ""


def _unescape(text: str) -> str:
    """Return the characters of hexadecimal escapes."""
    return "".join(chr(int(code, 16)) for code in re.findall(r"[xu]([0-9a-fA-F]{2,4})", text))


@cache
def _rules(*, is_raw: bool) -> Rules:
    """Return the rules for raw characters, or those for words."""
    rules = read_suspicious_rules().rules
    return Rules(tuple(each for each in rules if (not each.keywords) is is_raw))


def _write_out(rule: Rule) -> Rule:
    """Return a rule with its spaces and "~4 " expanded to regular expressions."""
    if not rule.keywords:
        return rule
    words = re.sub(r"~(\d) ", r"(?:[^\\W_]{1,30}[\\W_]{1,6}){0,\1}?", rule.regex)
    return rule._replace(regex=words.replace(" ", r"(?:[\W_]{1,6})"))
