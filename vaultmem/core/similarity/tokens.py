"""A statement's tokens: words in one form, quantities in one unit, dates, names and identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.languages import read_pairs
from vaultmem.core.similarity import words
from vaultmem.core.similarity.words import (
    MONTHS,
    Language,
    guess_language,
    has_trait,
    is_environment,
    is_function_word,
    is_light,
    unify_word,
)
from vaultmem.core.text.patterns import compile_later


class TokenKind(StrEnum):
    """The kind of a token; `STOP` has no meaning of its own, `LIGHT` hardly any."""

    WORD = "word"
    NAME = "name"
    IDENTIFIER = "identifier"
    ENVIRONMENT = "environment"
    DATE = "date"
    TIME = "time"
    NUMBER = "number"
    LIGHT = "light"
    LABEL = "label"
    STOP = "stop"
    LIMIT = "limit"
    BREAK = "break"


class Token(NamedTuple):
    """A token: its canonical `key`, its written form, and its kind."""

    key: str
    raw: str
    kind: TokenKind


#: Longer figures are truncated: converting them takes long.
_MAX_FIGURE = 40

_IDENTIFIER_PATTERN = compile_later(
    r"(?=.*\d)(?=.*[^\W\d])|[a-z][A-Z]|[A-Z]{2,}[a-z]|[A-Z][a-z]+[A-Z]"
)


_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"\d{4}"

#: Patterns of tokens; the first one that matches counts.
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

_TOKEN = compile_later("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PARTS.items()))


@lru_cache(maxsize=4096)
def read_tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text in order; `BREAK` is a possible end of a clause."""
    plain = _unify_phrases(text)
    language = guess_language(plain)
    all_tokens: list[Token] = []
    starts_sentence = True
    for match in _TOKEN.finditer(plain):
        tokens = _read_match(match, language, starts_sentence)
        if tokens:
            ends = match.lastgroup == "breaks" and any(mark in match.group() for mark in ".;!?\n:")
            starts_sentence = ends
            all_tokens.extend(tokens)
    return tuple(_find_labels(all_tokens))


def _find_labels(tokens: list[Token]) -> Iterator[Token]:
    """Mark words that only describe the name or number next to them."""
    proper = {TokenKind.IDENTIFIER, TokenKind.NUMBER}
    for place, token in enumerate(tokens):
        neighbours = tokens[max(place - 2, 0) : place] + tokens[place + 1 : place + 3]
        is_label = token.raw.lower() in words.LABELS and any(t.kind in proper for t in neighbours)
        if token.kind is TokenKind.WORD and (is_label or token.raw.lower() in words.GENERIC):
            token = token._replace(kind=TokenKind.LABEL)
        yield token


def _read_match(match: re.Match[str], language: Language, starts: bool) -> Sequence[Token]:
    raw, kind = match.group(), match.lastgroup
    if kind == "breaks":
        return [Token("", raw, TokenKind.BREAK)]
    if kind in {"url", "mail", "flag", "issue", "identifier"}:
        return _read_identifier(raw)
    if kind == "phone":
        return [Token("+" + re.sub(r"\D", "", raw), raw, TokenKind.NUMBER)]
    if kind == "version":
        return [Token(raw.lower().removeprefix("v"), raw, TokenKind.NUMBER)]
    if kind == "limit":
        return [Token(raw, raw, TokenKind.LIMIT)]
    if kind == "date":
        return [Token(words.read_date(raw), raw, TokenKind.DATE)]
    if kind == "named_date":
        return [Token(words.read_named_date(raw), raw, TokenKind.DATE)]
    if kind == "time":
        return [Token(words.read_time(raw), raw, TokenKind.TIME)]
    if match["number"]:
        return _read_number(match, language)
    return _read_word(raw, language, starts)


def _read_identifier(raw: str) -> list[Token]:
    name = raw.rstrip(".:/").removesuffix("()")
    name = name.removeprefix("./")
    has_case = "_" in name or _IDENTIFIER_PATTERN.search(name)
    return [Token(name if has_case else name.casefold(), raw, TokenKind.IDENTIFIER)]


def _read_number(match: re.Match[str], language: Language) -> list[Token]:
    raw = match.group()
    sign = (match["sign"] or "").strip()
    unit = sign or (match["unit"] or "").lower()
    figure = re.match(r"[^\d-]*(-?[\d.,_ ]*\d)", raw)
    value = words.read_figure(figure[1] if figure else raw)[:_MAX_FIGURE]
    if match["k"]:
        value = f"{float(value) * 1000:.9g}"
    rest: tuple[Token, ...] = ()
    if match["unit"] and (sign or unit not in words.read_units()):
        rest = _read_word(match["unit"], language, False)
        unit, raw = sign, raw.removesuffix(match["unit"])
    return [_make_quantity(value, unit, raw), *rest]


def _make_quantity(value: str, unit: str, raw: str) -> Token:
    if not unit:
        return Token(value, raw, TokenKind.NUMBER)
    dimension, factor = words.read_units()[unit]
    try:
        amount = f"{float(value) * factor:.9g}"
    except ValueError:
        amount = value
    return Token(f"{amount} {dimension}", raw, TokenKind.NUMBER)


@lru_cache(maxsize=10_000)
def _read_word(raw: str, language: Language, starts: bool) -> tuple[Token, ...]:
    word = raw.lower()
    if word == "second" or re.fullmatch(r"\d+(?:st|nd|rd|th)", word):
        return (Token({"second": "2nd"}.get(word, word), raw, TokenKind.WORD),)
    if weekday := read_pairs("weekdays").get(word.removesuffix("s")):
        return (Token(f"weekday {weekday}", raw, TokenKind.DATE),)
    if raw[0].isupper() and (month := read_pairs("months").get(word)) and word != "may":
        return (Token(f"-{int(month):02}", raw, TokenKind.DATE),)
    if has_trait(word, "conjunction", language):
        return (Token("", "", TokenKind.BREAK), Token(word, raw, TokenKind.STOP))
    if word in read_pairs("negated"):
        left = _read_word(read_pairs("negated")[word], language, True)
        return (Token("not", raw, TokenKind.STOP), *left)
    key = unify_word(word, language)
    if word in words.LIGHT and not is_function_word(word, language):
        return (Token(key, raw, TokenKind.LIGHT),)
    if raw.isupper() and len(raw) > 1 and not language.is_shouting:
        return (Token(unify_word(word, language), raw, TokenKind.IDENTIFIER),)
    if re.fullmatch(r"[A-Z]{2,}s", raw):
        return (Token(unify_word(word[:-1], language), raw[:-1], TokenKind.IDENTIFIER),)
    is_name = (
        raw[0].isupper() and not starts and not raw.isupper() and not language.has_capital_nouns
    )
    if is_function_word(word, language) and not is_name:
        return (Token(word, raw, TokenKind.STOP),)
    if is_environment(key):
        return (Token(key, raw, TokenKind.ENVIRONMENT),)
    if is_light(key) and not word.endswith("ings"):
        return (Token(key, raw, TokenKind.LIGHT),)
    if _IDENTIFIER_PATTERN.search(raw):
        return (Token(key if word != raw else raw, raw, TokenKind.IDENTIFIER),)
    return (Token(key, raw, TokenKind.NAME if is_name else TokenKind.WORD),)


# Marks for `statement`: <= >= < > for limits, and three words of its own.
INSTEAD, EXCEPT = "insteadof", "except"

_NUMBERS = read_pairs("numbers")
_BEFORE_NUMBER = rf"\s+(?=[€$£-]?\s?(?:\d|(?:{'|'.join(_NUMBERS)})\b))"

_PHRASES: tuple[tuple[str, str], ...] = (
    # Markup.
    (r"<!--.*?-->|%%.*?%%", " "),
    (r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]+)\]\]", r"\1"),
    (r"!?\[([^\[\]\n]*)\]\((?:[^()\n]*)\)", r"\1"),
    (r"[*`\"“”„«»]+|(?<!\w)_+|_+(?!\w)|^[ \t]*(?:[-+>]|#{1,6}|\d+[.)])[ \t]+", " "),
    (r"(?:^|(?<=[.;] ))(?:please )?(?:note|remember|keep in mind|be aware)(?: that\b|:)", " "),
    # Negation.
    (r"\bcan(?:no|')t\b|\bcan not\b", "can not"),
    (r"\bwon't\b", "will not"),
    (r"n't\b", " not"),
    (r"(?<=\w)'(?:ve|re|ll|d|m)\b", " "),
    (r"\b(?:forbids?|prohibits?|disallows?|bans?)\b", "not allow"),
    (r"\b(?:no longer|not any ?more|nicht mehr|fails? to)\b", "not"),
    (r"\bno (?:more|later|less|fewer|earlier) than\b", "<="),
    (r"\b(?:nobody|no one|none|nothing|everyone|everybody|all|anyone) but\b", rf"nobody {EXCEPT}"),
    (r"\b(?:don't forget|do not forget|make sure|be sure) to\b", " "),
    (r"\b(?:instead of|rather than|as opposed to|anstatt|anstelle von|statt)\b", f", {INSTEAD} "),
    (
        r"[,;]? \b(?:and|but|und|aber) (?:not|never|nicht|nie)\b|, ?(?:not|never|keine?n?|nicht)\b",
        f", {INSTEAD} ",
    ),
    (
        r"\b(?:apart from|other than|except for|with the exception of|es sei denn|save for)\b",
        f" {EXCEPT} ",
    ),
    # German ordinals.
    (r"\bzweite[nrsm]?\b", "ordinal2"),
    (r"\bdritte[nrsm]?\b", "ordinal3"),
    (r"\bvierte[nrsm]?\b", "ordinal4"),
    (r"\b(\d{1,2})\. (?=[A-ZÄÖÜ](?-i:[a-zäöü]))(?!" + MONTHS + ")", r"ordinal\1 "),
    # Limits.
    (r"\b(?:at least|a minimum of|mindestens|wenigstens|no less than)\b", ">="),
    (r"\b(?:at most|up to|a maximum of|höchstens|maximal|capped at)\b", "<="),
    (r"\blimited to" + _BEFORE_NUMBER, "<= "),
    (r"\b(?:restricted|limited) to\b", "only to"),
    (
        r"\b(?:(?:more|greater|larger|bigger|higher|longer) than|above|over|exceed\w*|über"
        r"|mehr als)" + _BEFORE_NUMBER,
        "> ",
    ),
    (
        r"\b(?:(?:less|fewer|smaller|lower|shorter) than|below|under|unter|weniger als)"
        + _BEFORE_NUMBER,
        "< ",
    ),
    # Obligation and the like.
    (r"\b(?:has|have|had|need|needs) to\b|\b(?:is|are) required to\b|\ba must\b", "must"),
    (r"\b(?:is|are) (?:allowed|permitted|able) to\b", "may"),
    (r"\bin order to\b", "to"),
    (r"\b(?:because of|due to|owing to|aufgrund|wegen)\b", "because"),
    # `stand-up` is one word, `force-push` two.
    (r"\b([^\W\d_]+)-(up|on|off|in|out|down|over|by|back|through)\b", r"\1\2"),
    (r"\b(up|on|off|in|out|down|over|by|back|through)-([^\W\d_]+)\b", r"\1\2"),
    # Synonyms.
    (r"\b(?:and|or) (newer|later|higher|above|up|upwards)\b", "newer"),
    (r"\b(?:and|or) (older|earlier|lower|below)\b", "older"),
    (r"\b(?:at the moment|right now|as of (?:now|today)|for now|so far|these days)\b", " "),
    (r"\b(?:each|every) time\b|\bas soon as\b|\bin case(?: of)?\b", "when"),
    (r"\bas well as\b|\btogether with\b|\balong with\b|&", "and"),
    (r"\bas well\b|\btoo\b(?=[.,;]|$)", " "),
    (r"\bby means of\b|\bwith the help of\b|\bw/(?=\s)", "with"),
    (r"\bw/o\b", "without"),
    (r"\b(?:e\.g\.|i\.e\.|etc\.)", " "),
    (r"\bprior to\b", "before"),
    (r"\b(?:a lot of|lots of|plenty of)\b", "many"),
    (r"\b(?:is|are) (?:made|composed|made up) of\b|\bconsists? of\b", "contains"),
    (r"\b(?:log|sign)(?:s|ged|ned|ging|ning)?[ -]in\b", "login"),
    (r"\b(?:log|sign)(?:s|ged|ned|ging|ning)?[ -]out\b", "logout"),
    (r"\bsign(?:s|ed|ing)?[ -]up\b", "register"),
    (r"\broll(?:s|ed|ing)? back\b", "rollback"),
    (r"\b(?:is|are) in charge of\b", "is responsible for"),
    (r"\b(?:gets?|got) rid of\b", "delete"),
    (r"\b(?:go|goes|went|gone) up\b", "increase"),
    (r"\b(?:go|goes|went|gone) down\b", "decrease"),
    (r"\b(?:depends?|depending|relies|rely) (?:up)?on\b", "depend on"),
    (r"\bat the same time\b", "simultaneously"),
    (r"\bby hand\b|\bvon hand\b", "manually"),
    (r"\bfree of charge\b|\bfor free\b", "free"),
    (r"\bused up\b", "exhausted"),
    (r"\bpull[ -]requests?\b|\bprs?\b", "pullrequest"),
    (r"\bmerge[ -]requests?\b|\bmrs\b", "mergerequest"),
    (r"\be-?mails?\b", "email"),
    (
        r"\b(?:turn|switch)(?:ed|es|s)? off\b|\b(?:(?<=is )|(?<=are ))off\b(?! by (?!default))",
        "disabled",
    ),
    (r"\b(?:turn|switch)(?:ed|es|s)? ((?:\w+ ){1,4}?)off\b", r"disabled \1"),
    (r"\b(?:turn|switch)(?:ed|es|s)? on\b|\b(?<=is )on(?= by default)", "enabled"),
    (
        r"\b(after|within|for|in|than|takes?) an? (?=(?:second|minute|hour|day|week|month|year)\b)",
        r"\1 1 ",
    ),
    (r"\bhalf an hour\b|\beiner? halben stunde\b", "30 minutes"),
    (r"\b(?:at )?(?:noon|midday)\b", "12:00"),
    (r"\b(?:at )?midnight\b|\bmitternacht\b", "00:00"),
    (r"\bper ?cent\b", "percent"),
    (r"\bvalid for\b", "expire after"),
    (r"(?<=[a-z])/(?:s|sec)\b", " per second "),
    (r"(?<=[a-z])/min\b", " per minute "),
    (r"(?<=[a-z])/h\b", " per hour "),
    (r"'s\b|(?<=s)'(?=\s)", " "),
)


def _unify_phrases(text: str) -> str:
    """Return a text without markup, its phrases in one form; case and numbers stay."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    for pattern, replacement in _compiled():
        text = pattern.sub(replacement, text)
    text = _TENS.sub(_join_tens, text)
    return _number_words().sub(lambda match: _NUMBERS[match.group().casefold()], text)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    flags = re.IGNORECASE | re.MULTILINE
    return tuple((re.compile(pattern, flags), replacement) for pattern, replacement in _PHRASES)


@cache
def _number_words() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b", re.IGNORECASE)


_TENS = compile_later(
    r"\b(twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)[ -]"
    r"(one|two|three|four|five|six|seven|eight|nine)\b",
    re.IGNORECASE,
)


def _join_tens(match: re.Match[str]) -> str:
    return str(sum(int(_NUMBERS[part.casefold()]) for part in match.groups()))
