"""What differs between two statements that look alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from vaultmem.core.similarity import words
from vaultmem.core.similarity.canonical import canonical_form
from vaultmem.core.similarity.statement import LIMITS, Statement, tells_past
from vaultmem.core.similarity.tokens import Token, TokenKind

#: Kinds of tokens that say what a difference is about.
_TELLING = (
    TokenKind.NAME,
    TokenKind.ENVIRONMENT,
    TokenKind.DATE,
    TokenKind.TIME,
    TokenKind.IDENTIFIER,
)

#: Differences that leave the subject as it is. Another name or word may be another subject.
_VALUES = frozenset(
    ["number", "date", "time", "negation", "limit", "modality", "quantifier", "update"]
)


class Difference(NamedTuple):
    """One thing that two texts say differently; a side that says nothing of it is empty."""

    kind: str
    ours: str
    theirs: str

    @property
    def is_value(self) -> bool:
        """Tell whether both name a value of one thing, so that they contradict each other."""
        return self.kind in _VALUES and (self.kind == "negation" or bool(self.ours and self.theirs))


class Unmatched(NamedTuple):
    """The content and numbers of each side that the other does not have."""

    ours: tuple[Token, ...]
    theirs: tuple[Token, ...]
    our_numbers: tuple[Token, ...]
    their_numbers: tuple[Token, ...]


def find_unmatched(
    ours: Statement,
    theirs: Statement,
    our_context: frozenset[str] = frozenset(),
    their_context: frozenset[str] = frozenset(),
) -> Unmatched:
    """Return what each side has alone; the keys of a context (a title) explain the other side."""
    left = _only_in(ours, theirs, their_context)
    right = _only_in(theirs, ours, our_context)
    our_numbers, their_numbers = _match_numbers(ours, theirs)
    our_numbers, right = _match_hours(our_numbers, right)
    their_numbers, left = _match_hours(their_numbers, left)
    return Unmatched(
        left,
        right,
        tuple(n for n in our_numbers if n.key not in their_context),
        tuple(n for n in their_numbers if n.key not in our_context),
    )


def compare_content(ours: Statement, theirs: Statement, alone: Unmatched) -> list[Difference]:
    """Return what differs in numbers, words, limits and negations, in whatever order."""
    return [
        *_compare_numbers(ours, theirs, alone),
        *_compare_words(ours, theirs, alone),
        *_compare_limits(ours, theirs, alone),
        *_compare_negations(ours, theirs),
    ]


def _only_in(one: Statement, other: Statement, context: frozenset[str]) -> tuple[Token, ...]:
    alone = [
        token
        for key, token in one.content.items()
        if key not in other.content
        and key not in context
        and token.raw.casefold() not in other.compounds
    ]
    if not alone:
        return ()
    theirs = {token.raw.casefold() for token in other.content.values()}
    joined = theirs & one.compounds  # Two words of ours that the other side writes as one.
    return tuple(each for each in alone if not _is_half(each.raw.casefold(), joined))


def _is_half(raw: str, joined: Iterable[str]) -> bool:
    return any(word.startswith(raw) or word.endswith(raw) for word in joined)


def _match_numbers(
    ours: Statement, theirs: Statement
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """Return the numbers without a partner; `480` has one in `480 px` where both name the unit."""
    if not (ours.numbers or theirs.numbers):
        return (), ()
    left = list(Counter(t.key for t in ours.numbers) - Counter(t.key for t in theirs.numbers))
    right = list(Counter(t.key for t in theirs.numbers) - Counter(t.key for t in ours.numbers))
    by_key = {token.key: token for token in (*ours.numbers, *theirs.numbers)}
    units = _units_of(ours) & _units_of(theirs)
    for key in list(left):
        for other in right:
            bare, full = sorted((by_key[key], by_key[other]), key=lambda token: bool(token.unit))
            if not bare.unit and full.unit == bare.key and full.key.split()[-1] in units:
                left.remove(key)
                right.remove(other)
                break
    return (
        tuple(by_key[key] for key in left if by_key[key].key != "1"),
        tuple(by_key[key] for key in right if by_key[key].key != "1"),
    )


def _units_of(statement: Statement) -> set[str]:
    return {token.key.split()[-1] for token in statement.numbers if token.unit}


def _match_hours(
    numbers: tuple[Token, ...], others: tuple[Token, ...]
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """Take `at 11` for 11:00 where the other side says so."""
    times = {token.key: token for token in others if token.kind is TokenKind.TIME}
    for number in numbers:
        if (
            number.key.isdigit()
            and len(number.key) < 3
            and (time := times.get(f"{int(number.key):02}:00"))
        ):
            numbers = tuple(each for each in numbers if each is not number)
            others = tuple(each for each in others if each is not time)
    return numbers, others


def _compare_numbers(ours: Statement, theirs: Statement, alone: Unmatched) -> Iterator[Difference]:
    """Yield other numbers, and that one of them is what was while the other is what is."""
    if not (alone.our_numbers or alone.their_numbers):
        return
    yield Difference("number", _say(alone.our_numbers), _say(alone.their_numbers))
    tenses = ["past" if tells_past(each.text) else "present" for each in (ours, theirs)]
    if tenses[0] != tenses[1]:
        yield Difference("tense", *tenses)


def _compare_words(ours: Statement, theirs: Statement, alone: Unmatched) -> Iterator[Difference]:
    """Yield what only one side has, or has another word for; what hardly counts left out."""
    mine = [token for token in alone.ours if token.kind is not TokenKind.LIGHT]
    yours = [token for token in alone.theirs if token.kind is not TokenKind.LIGHT]
    if yours and not mine:  # A word said twice may stand where the other has another.
        mine = [ours.content[key] for key in _repeated_only(ours, theirs)]
    if mine and not yours:
        yours = [theirs.content[key] for key in _repeated_only(theirs, ours)]
    if not (mine and yours):
        mine = [token for token in mine if not _may_go(token, ours)]
        yours = [token for token in yours if not _may_go(token, theirs)]
    if mine or yours:
        kinds = {token.kind for token in (*mine, *yours)}
        telling = [kind for kind in _TELLING if kind in kinds]
        kind = telling[0] if len(telling) == 1 else TokenKind.WORD
        if kind in {TokenKind.DATE, TokenKind.TIME} and TokenKind.WORD in kinds:
            kind = TokenKind.WORD  # On another day, another thing.
        yield Difference(kind.value, _say(mine), _say(yours))


def _may_go(token: Token, statement: Statement) -> bool:
    """Tell whether a word may be missing from the other side: a label, a verb of little meaning."""
    if token.kind in {TokenKind.LABEL, TokenKind.LIGHT}:
        return True
    return token.key in statement.verbs and token.key not in words.TAKING_BACK


def _repeated_only(one: Statement, other: Statement) -> list[str]:
    return [key for key in sorted(one.repeated - other.repeated) if key in one.content]


def _compare_limits(ours: Statement, theirs: Statement, alone: Unmatched) -> Iterator[Difference]:
    for name, count in ours.limits.items():
        if count == theirs.limits[name]:
            continue
        fuller, extra = (
            (ours, alone.ours) if count > theirs.limits[name] else (theirs, alone.theirs)
        )
        if name == "condition" and all(_may_go(t, fuller) for t in extra):
            continue  # `when there are more than 120` for `above 120`.
        said = " ".join(sorted(fuller.little & LIMITS[name]))
        yield Difference(name, said if fuller is ours else "", said if fuller is theirs else "")
    if ours.bounds != theirs.bounds:
        yield Difference("limit", " ".join(ours.bounds), " ".join(theirs.bounds))
    if not (ours.negated or theirs.negated):
        yield from _oppose("modality", ours, theirs, words.OBLIGATIONS, words.PERMISSIONS)
    yield from _oppose("tense", ours, theirs, words.PAST, words.PRESENT)
    yield from _oppose("tense", ours, theirs, words.PAST, words.FUTURE)
    yield from _oppose("choice", ours, theirs, words.ALTERNATIVES, words.ADDITIONS)


def _oppose(
    kind: str, ours: Statement, theirs: Statement, first: frozenset[str], second: frozenset[str]
) -> Iterator[Difference]:
    """Yield that one side has only words of one group, and the other only of the other."""
    for one, other, swapped in ((ours, theirs, False), (theirs, ours, True)):
        mine, yours = one.little & first, other.little & second
        if mine and yours and not one.little & second and not other.little & first:
            said = (" ".join(sorted(mine)), " ".join(sorted(yours)))
            yield Difference(kind, *(said[::-1] if swapped else said))


def compare_wording(ours: str, theirs: str) -> list[Difference]:
    """Return where two texts of the same content are worded otherwise; none if they are one."""
    if canonical_form(ours) == canonical_form(theirs):
        return []
    mine, yours = ours.split(), theirs.split()
    changes = SequenceMatcher(None, mine, yours, autojunk=False).get_opcodes()
    parts = [(mine[a:b], yours[c:d]) for kind, a, b, c, d in changes if kind != "equal"]
    said = (" ... ".join(" ".join(part[side]) for part in parts if part[side]) for side in (0, 1))
    return [Difference("wording", *said)]


def _compare_negations(ours: Statement, theirs: Statement) -> Iterator[Difference]:
    """Yield that one side negates what the other does not, or rules out another thing."""
    counts = [len(each.negated) + len(each.replaced) for each in (ours, theirs)]
    if counts[0] != counts[1]:
        yield Difference("negation", *("not" * bool(count) for count in counts))
        return
    (our_scope, our_rest), (their_scope, their_rest) = map(_scopes, (ours, theirs))
    if ours.replaced and theirs.replaced:
        if our_rest - their_rest and their_rest - our_rest:
            yield Difference("direction", _name(our_rest), _name(their_rest))
    elif ours.replaced or theirs.replaced:
        if not (our_rest or their_rest) <= (our_scope or their_scope):
            yield Difference("direction", _name(our_rest), _name(their_rest))
    elif 2 * len(our_scope & their_scope) <= min(len(our_scope), len(their_scope)) > 0:
        yield Difference("negation", _name(our_scope), _name(their_scope))


def _scopes(statement: Statement) -> tuple[frozenset[str], frozenset[str]]:
    """Return all that is in a clause with a negation, and all that is ruled out."""
    return frozenset().union(*statement.negated), frozenset().union(*statement.replaced)


def _name(keys: frozenset[str]) -> str:
    return " ".join(sorted(keys))


def _say(tokens: tuple[Token, ...] | list[Token]) -> str:
    return ", ".join(token.raw.strip() for token in tokens)
