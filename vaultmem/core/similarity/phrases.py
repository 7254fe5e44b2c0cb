"""Turns of phrase, put into the one form in which statements are compared."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from vaultmem.core.languages import read_pairs
from vaultmem.core.similarity.figures import MONTHS

# Marks that the reading of a statement knows: <= >= < > for limits, and three words of its own.
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
    # Other words for one thing.
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


def unify_phrases(text: str) -> str:
    """Return a text without markup, its turns of phrase in one form; case and numbers stay."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    for pattern, replacement in _compiled():
        text = pattern.sub(replacement, text)
    text = _TENS.sub(_join_tens, text)
    return _number_words().sub(lambda match: _NUMBERS[match.group().casefold()], text)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    flags = re.IGNORECASE | re.MULTILINE
    return tuple((re.compile(pattern, flags), into) for pattern, into in _PHRASES)


@cache
def _number_words() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b", re.IGNORECASE)


_TENS = re.compile(
    r"\b(twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)[ -]"
    r"(one|two|three|four|five|six|seven|eight|nine)\b",
    re.IGNORECASE,
)


def _join_tens(match: re.Match[str]) -> str:
    return str(sum(int(_NUMBERS[part.casefold()]) for part in match.groups()))
