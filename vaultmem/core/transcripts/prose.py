"""What an answer says in few words: chosen from its own sentences, without a model."""

from __future__ import annotations

import re

_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
_MARKS = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+(?:\[.\][ \t]+)?|\d{1,3}[.)][ \t]+)"
)
_END = re.compile(r"(?<=[.!?:])[*_\"')\]]*\s+(?=[\"'(\[`*_]*[^\Wa-zß-ÿ])|\n+")
#: What tells of the state of things: what is open, what failed and why, what comes next.
_SIGNS = re.compile(
    r"(?i)\b(?:fail\w*|still|yet|next|remain\w*|todo|missing|not (?:committed|done|tested|run)|"
    r"uncommitted|blocked|open|left|because|cause[ds]?|instead|must|never|only|broken|wait\w*|"
    r"noch|nicht|fehl\w*|schl[aä]gt|offen|weil|Ursache|n[aä]chste\w*|bleib\w*|statt|nur)\b"
)
_WORD = re.compile(r"[^\W\d_]{4,}")
_YES = 4


#: Words that a question and a reply share without having to do with each other.
_SHARED = """
about also and another back does done else from have here into just like make more only shall should
some than that them then there they this want were what when where which will with would your yours
soll wird oder auch noch nicht eine einen
"""
_COMMON = frozenset(each[:5] for each in _SHARED.split())


def split_prose(text: str) -> list[str]:
    """Return the sentences of a text in markdown, without code, tables and marks of lists."""
    plain = _TABLE.sub("", _FENCED.sub("", text))
    lines = (_MARKS.sub("", line).strip() for line in plain.splitlines())
    found = (each.strip() for line in lines if line for each in _END.split(line))
    return [each for each in found if re.search(r"\w", each)]


def shorten_answer(text: str, limit: int) -> str:
    """Return the sentences of an answer that say how things stand, in their order.

    The first is among them, then those that tell of what is open, then the last ones; `limit` is
    in characters. Questions are told elsewhere.
    """
    sentences = [each for each in split_prose(text) if not each.endswith("?")]
    if not sentences:
        return ""
    count = len(sentences)

    def weigh(place: int) -> tuple[bool, int, int]:
        signs = {each.lower() for each in _SIGNS.findall(sentences[place])}
        return (place != 0, -len(signs), -place)

    kept: list[int] = []
    left = limit
    for place in sorted(range(count), key=weigh):
        if len(sentences[place]) < left:
            kept.append(place)
            left -= len(sentences[place]) + 1
    if not kept:
        return sentences[0][: limit - 4].rsplit(" ", 1)[0] + " ..."
    return " ".join(sentences[place] for place in sorted(kept))


def find_questions(text: str) -> list[str]:
    """Return what an answer asks the user, the last ones where it asks much."""
    return [each for each in split_prose(text) if each.endswith("?") and len(each) > _YES * 2][-4:]


def is_answered(question: str, reply: str) -> bool:
    """Tell whether a reply takes up a question: it is very short, or shares a word with it."""
    if len(reply.split()) <= _YES:
        return True
    asked, told = (set(map(str.lower, _WORD.findall(each))) for each in (question, reply))
    return bool({each[:5] for each in asked} & {each[:5] for each in told} - _COMMON)
