"""Whether two texts under titles state the same: what a title adds, and when it is only a name."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.languages import find_words
from vaultmem.core.notes.titles import TITLE, derive_title, is_named_for, make_name
from vaultmem.core.similarity.canonical import (
    canonical_form,
    read_title,
    say_same,
)
from vaultmem.core.similarity.words import (
    ALTERNATIVES,
    CONDITIONS,
    EXCEPTIONS,
    FUTURE,
    HEDGES,
    NEGATIONS,
    ONLY,
    PAST,
    QUANTIFIERS,
    RELATIONS,
    TAKING_BACK,
)

#: With one of these a title says when, where, for whom, or whether at all its text is so.
_LIMITS = NEGATIONS | ONLY | QUANTIFIERS | EXCEPTIONS | CONDITIONS | HEDGES | ALTERNATIVES
_LIMITS |= RELATIONS | PAST | FUTURE | TAKING_BACK | find_words("denial")


class Titled(NamedTuple):
    """A text, its title, and its file's name without the ending, "" for none."""

    text: str
    title: str
    stem: str = ""


def state_same(ours: Titled, theirs: Titled) -> bool:
    """Tell whether two texts state the same under their titles.

    What a title says besides its text is part of the statement, so it is equal on both sides. Or
    one side says nothing besides, and the other was made of its words alone, as its file's name
    tells: then what it is called now is a name that somebody gave it since.
    """
    extras = [read_title(each.title, each.text) for each in (ours, theirs)]
    is_one = extras[0] == extras[1] or (
        not all(extras) and (_is_named_since(ours, extras[0]) or _is_named_since(theirs, extras[1]))
    )
    return is_one and say_same(ours.text, theirs.text)


def _is_named_since(one: Titled, extra: frozenset[str]) -> bool:
    """Tell whether a title was given after a note was made, and what it adds limits nothing."""
    title = derive_title(one.text)
    begins = (f"{make_name(title)}-", f"{make_name(title, TITLE)} ")
    is_of_words = is_named_for(one.stem, title, is_given=True) or one.stem.startswith(begins)
    return bool(extra) and is_of_words and _LIMITS.isdisjoint(canonical_form(" ".join(extra)))
