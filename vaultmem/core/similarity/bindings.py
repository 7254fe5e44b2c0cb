"""How the words of a statement are bound: what is negated, and what belongs to what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations, takewhile

from vaultmem.core.languages import read_lines
from vaultmem.core.similarity import words
from vaultmem.core.similarity.differences import Difference
from vaultmem.core.similarity.figures import read_units
from vaultmem.core.similarity.statement import Statement
from vaultmem.core.similarity.tokens import Token, TokenKind

_SPANS = words.TIMES_OF_DAY | frozenset(read_units())


def compare_negations(ours: Statement, theirs: Statement) -> Iterator[Difference]:
    """Yield that one side negates what the other does not, or rules out another thing."""
    counts = [len(each.negated) + len(each.replaced) for each in (ours, theirs)]
    if counts[0] != counts[1]:
        yield Difference("negation", *("not" * bool(count) for count in counts))
        return
    (our_scope, our_rest), (their_scope, their_rest) = map(_scopes, (ours, theirs))
    if ours.replaced and theirs.replaced:
        if our_rest - their_rest and their_rest - our_rest:
            yield Difference("direction", _list(our_rest), _list(their_rest))
    elif ours.replaced or theirs.replaced:
        if not (our_rest or their_rest) <= (our_scope or their_scope):
            yield Difference("direction", _list(our_rest), _list(their_rest))
    elif 2 * len(our_scope & their_scope) <= min(len(our_scope), len(their_scope)) > 0:
        yield Difference("negation", _list(our_scope), _list(their_scope))


def _scopes(statement: Statement) -> tuple[frozenset[str], frozenset[str]]:
    """Return all that is in a clause with a negation, and all that is ruled out."""
    return frozenset().union(*statement.negated), frozenset().union(*statement.replaced)


def compare_relations(ours: Statement, theirs: Statement) -> Iterator[Difference]:
    """Yield what follows `from`, `before` and the like on one side alone.

    On the other side it follows the opposite, or another word that both have is in its place.
    """
    shared = ours.keys & theirs.keys
    for relation, phrases in ours.roles.items():
        if relation not in words.DIRECTIONS:
            continue
        keys, there = frozenset().union(*phrases), theirs.roles.get(relation, ())
        for opposite in _opposites().get(relation, ()):
            turned = keys & frozenset().union(*theirs.roles.get(opposite, ()))
            if turned - frozenset().union(*ours.roles.get(opposite, ())):
                said = (f"{relation} {_list(turned)}", f"{opposite} {_list(turned)}")
                yield Difference("direction", *said)
                return
        mine, yours = _find_exchanged(phrases, there, shared)
        if mine and yours:
            yield Difference("direction", f"{relation} {_list(mine)}", f"{relation} {_list(yours)}")
            return


def _find_exchanged(
    ours: tuple[frozenset[str], ...], theirs: tuple[frozenset[str], ...], shared: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return what is in a phrase on each side and, though it is said there, in none there."""
    left = [phrase for phrase in ours if phrase not in theirs]
    right = [phrase for phrase in theirs if phrase not in ours]
    mine = [p - max(right, key=lambda q: len(p & q), default=frozenset()) for p in left]
    yours = [q - max(left, key=lambda p: len(p & q), default=frozenset()) for q in right]
    return frozenset().union(*mine) & shared, frozenset().union(*yours) & shared


def compare_order(ours: Statement, theirs: Statement) -> Iterator[Difference]:
    """Yield what is bound to one thing on one side, and to another on the other side."""
    shared = ours.keys & theirs.keys
    understood = _find_understood(ours, theirs)
    loose, there = (_pairs(_loosen(each, understood)) for each in (ours, theirs))
    mine = {pair for pair in _pairs(ours.clauses) - there if pair <= shared}
    yours = {pair for pair in _pairs(theirs.clauses) - loose if pair <= shared}
    if all(sum(len(clause) > 1 for clause in each.clauses) > 1 for each in (ours, theirs)):
        for pair in sorted(mine, key=sorted):
            for key in sorted(pair):
                if any(key in other for other in yours):
                    yield Difference("direction", " ".join(sorted(pair)), key)
                    return
    for turned in _turned(ours, theirs):
        yield turned
        return


def _find_understood(ours: Statement, theirs: Statement) -> frozenset[str]:
    """Return what both say in their first clause and need not say again: subject and verb.

    "Icons come as SVG, photos as WebP" is "Photos come as WebP, icons as SVG". A pronoun may stand
    for anything of the first clause.
    """
    both = _opening(ours) & _opening(theirs)
    if ours.little & words.PRONOUNS and theirs.little & words.PRONOUNS:
        return both
    light = {key for key, token in ours.content.items() if token.kind is TokenKind.LIGHT}
    verbs = ours.predicates | theirs.predicates | ours.verbs | theirs.verbs | light
    later = [c for each in (ours, theirs) for c in each.clauses if c != _opening(each)]
    if not any(clause & verbs for clause in later):  # "Svea into Swedish, Timo into Finnish"
        return both
    return both & (verbs | ours.subject | theirs.subject)


def _opening(statement: Statement) -> frozenset[str]:
    return next((clause for clause in statement.clauses if len(clause) > 1), frozenset())


def _pairs(clauses: Iterable[frozenset[str]]) -> set[frozenset[str]]:
    return {frozenset(pair) for clause in clauses for pair in combinations(clause, 2)}


def _loosen(statement: Statement, understood: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yield the clauses with all that may belong to them without standing in them.

    That is what is understood, and the single items of an enumeration beside them.
    """
    clauses, items = statement.clauses, statement.items
    for place, clause in enumerate(clauses):
        if len(clause) > 1:
            before = takewhile(items.__contains__, range(place - 1, -1, -1))
            behind = takewhile(items.__contains__, range(place + 1, len(clauses)))
            yield clause.union(understood, *(clauses[n] for n in (*before, *behind)))


def _turned(ours: Statement, theirs: Statement) -> Iterator[Difference]:
    """Yield `A calls B` against `B calls A`; `B is called by A` has another word before A.

    Who acts has no relation before it, and neither dates nor numbers act. `A is B` is `B is A`, but
    where both are names.
    """
    names = {k for s in (ours, theirs) for k, t in s.content.items() if t.kind is TokenKind.NAME}
    is_copula = bool(ours.little & words.COPULAS and theirs.little & words.COPULAS)
    turned = dict(_triples(theirs))
    for (first, middle, last), relation in _triples(ours):
        if is_copula and not {first, last} <= names:
            continue
        if turned.get((last, middle, first)) == relation:
            yield Difference("direction", f"{first} {middle} {last}", f"{last} {middle} {first}")


def _triples(statement: Statement) -> Iterator[tuple[tuple[str, str, str], str]]:
    for clause in statement.order:
        for (first, before), (middle, _), (last, relation) in combinations(clause, 3):
            acting = not before and first in statement.content and last in statement.content
            if not acting or len({first, middle, last} - statement.verbs | {middle}) < 3:
                continue
            if all(_may_act(statement.content[key]) for key in (first, last)):
                yield (first, middle, last), relation


def _may_act(token: Token) -> bool:
    """Tell whether a word may be who does something: no date, no adverb, no span of time."""
    if token.kind in {TokenKind.DATE, TokenKind.TIME}:
        return False
    raw = token.raw.lower()
    return not raw.endswith("ly") and not {raw, raw.rstrip("esn")} & _SPANS


@cache
def _opposites() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for one, other in map(str.split, read_lines("opposites")):
        found[one] = (*found.get(one, ()), other)
        found[other] = (*found.get(other, ()), one)
    return found


def _list(keys: frozenset[str]) -> str:
    return " ".join(sorted(keys))
