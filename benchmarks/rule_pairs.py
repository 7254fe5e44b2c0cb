"""Make pairs by rule from the sentences of a vault: the same in other marks, or one thing changed.

Nobody chose the sentences for it, and each rule is applied wherever it can be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

#: Words of which one is put for the other; what stands for one thing in English text.
_SWAPS: dict[str, list[tuple[str, str]]] = {
    "tense": [("is", "was"), ("are", "were"), ("has", "had"), ("goes", "went"), ("runs", "ran")],
    "modality": [("must", "may"), ("can", "must"), ("should", "can"), ("will", "might")],
    "quantifier": [("all", "some"), ("every", "one"), ("most", "few"), ("both", "either")],
    "particle": [("on", "off"), ("in", "out"), ("up", "down"), ("into", "out of")],
    "relation": [("after", "during"), ("before", "after"), ("from", "to"), ("with", "without")],
    "condition": [("if", "unless"), ("when", "until"), ("because", "although")],
    "comparison": [("more", "less"), ("than", "as"), ("first", "last")],
    "direction": [("and", "or"), ("by", "for")],
}


#: What stays the same, and what does not: a name, a pattern, and what is put for its first match.
_SAME = (
    ("end", r"[.!]*$", "!"),
    ("list mark", r"^(?:- )?", "- "),
    ("bold", r"^(?:- )?([A-Za-z]{3,}) (?=[a-z])", r"**\1** "),
    ("blank", r" ", "  "),
    ("article", r" the (?=[b-z][a-z]{5,}\b)", " a "),
    ("contraction", r" (do|does|is|are|was) not ", r" \1n't "),
)
_CHANGES = (
    (
        "drop quantifier",
        r"(?i)\b(?:all|every|each|most|some|few|many|only|both|at (?:least|most)) ",
        "",
    ),
    ("drop negation", r"(?i)\b(?:never|not|no) ", ""),
    ("drop word", r"(?<= )[a-z]{5,} (?=[a-z])", ""),
    ("negation", r"\b(is|are|has|can|must|does)\b", r"\1 not"),
    ("number", r"(?<=[1-9])\b", "0"),
    ("thousands", r"(?<=\d),(?=\d{3}\b)", "."),
    ("question", r"[.!]$", "?"),
    ("plural", r"\b([a-z]{4,}[a-rt-z])\b(?= [a-z])", r"\1s"),
    ("hedge", r" (is|are) ", r" \1 supposed to be "),
    *(
        (name, rf"\b{one}\b", other)
        for name, swaps in _SWAPS.items()
        for pair in swaps
        for one, other in (pair, pair[::-1])
    ),
)


def make_rule_pairs(vault: Path) -> Iterator[dict[str, object]]:
    """Yield pairs of the sentences of a vault's notes, each with the rule that made it."""
    for sentence in _read_sentences(vault):
        same = [(name, re.sub(old, new, sentence, count=1)) for name, old, new in _SAME]
        other = [(name, re.sub(old, new, sentence, count=1)) for name, old, new in _CHANGES]
        same.append(("case", sentence.upper()))
        other.extend([("swap", _swap_names(sentence)), ("swap", _swap_ends(sentence))])
        for is_same, made in ((True, same), (False, other)):
            for name, text in made:
                if text.strip() not in {"", sentence.strip()}:
                    yield {"a": sentence, "b": text, "same": is_same, "category": name}


def _read_sentences(vault: Path) -> list[str]:
    from vaultmem.core.notes.note import parse_note
    from vaultmem.core.similarity.statement import split_sentences

    found: dict[str, None] = {}
    for file in sorted(vault.rglob("*.md")):
        note = parse_note(file.relative_to(vault), file.read_bytes())  # type: ignore[arg-type]
        for sentence in split_sentences(note.visible_body):
            if 4 <= len(sentence.split()) <= 40 and not re.match(r"[|`~>]|\d+[.)]", sentence):
                found[sentence] = None
    return list(found)


def _swap_names(text: str) -> str:
    """Put two names that stand within a sentence each in the other's place."""
    names = list(re.finditer(r"(?<=[a-z,] )[A-Z][a-z]+\b", text))
    return _exchange(text, names[0], names[-1]) if len(names) > 1 else text


def _swap_ends(text: str) -> str:
    """Put the first and the last long word of a sentence each in the other's place."""
    words = list(re.finditer(r"\b[a-z]{5,}\b", text))
    return _exchange(text, words[0], words[-1]) if len(words) > 1 else text


def _exchange(text: str, one: re.Match[str], other: re.Match[str]) -> str:
    between = text[one.end() : other.start()]
    return text[: one.start()] + other.group() + between + one.group() + text[other.end() :]
