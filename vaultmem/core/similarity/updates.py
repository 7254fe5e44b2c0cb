"""Whether a text says a new value of what another says: where somebody lives, what a thing runs on.

Two facts are held against each other: of the same subject, by the same relation, or in the same
words but one, each says another value; or the new one says itself what is no longer so.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from vaultmem.core.languages import read_lines
from vaultmem.core.similarity.facts import Fact, read_facts
from vaultmem.core.similarity.marks import list_sort, read_key
from vaultmem.core.similarity.relations import Words, list_keys
from vaultmem.core.similarity.slots import MAX_WORDS, find_now, find_slot, is_alike, may_be_any
from vaultmem.core.similarity.subjects import find_subjects

#: What has a name: somebody works at Acme, not at the chess club.
_PROPER = frozenset({"city", "employer"})


class Update(NamedTuple):
    """Two sentences of which the second says a new value: of what sort, the old value, the new."""

    old: str
    new: str
    kind: str
    before: str
    after: str


def find_update(olds: Collection[Fact], news: Collection[Fact]) -> Update | None:
    """Return the first thing that facts of a text say otherwise than those of an older one."""
    pairs = ((old, new) for new in news for old in olds)
    return next((found for old, new in pairs if (found := compare_facts(old, new))), None)


def compare_facts(old: Fact, new: Fact) -> Update | None:
    """Return how one fact updates an older one, None if it does not."""
    found = None if old.keys.isdisjoint(new.keys) else _find_update(old, new)
    return None if found and find_subjects(old.text, new.text) else found


def _find_update(old: Fact, new: Fact) -> Update | None:
    if (found := _find_reversal(old, new)) is not None:
        return found
    if "more" in new.marks or (new.is_over and not new.is_new):
        return None  # What is so besides, or was so, takes the place of nothing.
    rules = (_find_gone, _find_value, _find_amount, _find_wish, _find_state, _find_place)
    found = next((each for rule in rules if (each := rule(old, new))), None)
    return None if found is None or _is_exchange(old, new, found.after) else found


def _find_reversal(old: Fact, new: Fact) -> Update | None:
    """Find what was so and is no longer, or was not and is again."""
    if old.is_negative == new.is_negative or not (old.marks | new.marks) - {"more", "since"}:
        return None
    ours, theirs = (each.predicate - list_keys(each.subject) for each in (new, old))
    if not _is_same_subject(old, new):
        ours, theirs = (each.content - list_sort("agent") for each in (new, old))
        if ours != theirs:
            return None
    is_all = "ended" in new.marks and bool(ours) and ours <= theirs
    if not is_all and 2 * len(ours & theirs) < max(len(ours), len(theirs), 1):
        return None
    kind = "no longer" if new.is_negative else "again"
    return Update(old.text, new.text, kind, _say(old.words), _say(new.words))


def _find_gone(old: Fact, new: Fact) -> Update | None:
    """Find the old value that the new fact names itself: switched from it, left it, sold it."""
    gone = list_keys(new.value) if new.kind == "ends" else new.gone
    said = list_keys(old.value) if old.kind else old.predicate
    is_long = not old.kind and len(old.words) > MAX_WORDS
    if not gone or not gone <= said or old.is_negative or is_long:
        return None
    topic = old.predicate & new.predicate - gone
    if not (_is_same_subject(old, new) or topic or _is_agent(new)):
        return None
    kind = min(old.classes & new.classes, default="value")
    return _tell(kind, old, old.value or old.words, new, () if new.kind == "ends" else new.value)


def _find_value(old: Fact, new: Fact) -> Update | None:
    """Find another value of the same relation to the same subject."""
    classes = old.classes & new.classes - {"choice", "wish"}
    if not classes or old.is_negative or new.is_negative or "ends" in {old.kind, new.kind}:
        return None
    before, after = list_keys(old.value), list_keys(new.value)
    if not (before - after and after - before) or not _is_same_subject(old, new):
        return None
    is_definite = new.is_new and old.value[0].article in list_sort("article")
    if not (is_definite or is_alike(old.value, new.value)) or not _is_single(old, new, classes):
        return None
    articles = [each.value[0].article for each in (old, new)]
    if not new.is_new and articles[1] in list_sort("indefinite"):
        return None
    if not any(word.is_proper for word in new.value):
        is_vague = bool(list_sort("indefinite") & {*articles}) or new.value[0].raw.endswith("ly")
        is_other = len({article in list_sort("article") for article in articles}) > 1
        if classes <= _PROPER or is_vague or is_other or new.is_doing:
            return None
    return _tell(min(classes), old, old.value, new, new.value)


def _find_amount(old: Fact, new: Fact) -> Update | None:
    """Find another figure of what was raised, lowered or set."""
    if "amount" not in new.classes or not new.value or not new.value[0].is_figure:
        return None
    if list_keys(old.words[: len(new.subject)]) != list_keys(new.subject):
        return None
    rest = old.words[len(new.subject) :]
    at = next((n for n, word in enumerate(rest) if word.is_figure), 0)
    units = {each[1].key for each in (rest[at:], new.value) if len(each) > 1}
    is_bare = rest[at - 1].key == "be" or rest[at - 1].is_tie if at else False
    is_same = len(units) == 1 if not is_bare else len(units) < 2
    if not at or not is_same or rest[at].key == new.value[0].key:
        return None
    return _tell("amount", old, rest[at:], new, new.value)


def _find_wish(old: Fact, new: Fact) -> Update | None:
    """Find what somebody wishes otherwise now, of the same thing."""
    if "wish" not in old.classes & new.classes or not new.marks or not _is_same_subject(old, new):
        return None
    before, after = (each.predicate - {each.verb} for each in (old, new))
    is_other = bool(before - after and (after - before or "choice" in new.classes))
    is_other = is_other and 2 * len(before & after) >= max(len(before), len(after))
    return _tell("wish", old, old.words, new, new.words) if is_other else None


def _find_state(old: Fact, new: Fact) -> Update | None:
    """Find two states of which a subject is in one at a time."""
    if any(each.is_negative or each.said.isdisjoint(_states()) for each in (old, new)):
        return None
    if new.is_doing or not _is_same_subject(old, new):
        return None
    for group in _groups():
        if group.isdisjoint(old.said) or group.isdisjoint(new.said):
            continue
        if not (new.is_new or (_is_in_state(old, group) and _is_in_state(new, group))):
            continue  # Who works with a senior need not be one.
        states = [
            tuple(w for w in each.words[1:] if w.raw.casefold() in group) for each in (old, new)
        ]
        before, after = map(list_keys, states)
        if not before & after:
            rest = old.predicate - before, new.predicate - after
            if rest[0] <= rest[1] or rest[1] <= rest[0]:
                return _tell("state", old, states[0], new, states[1])
    return None


def _is_in_state(fact: Fact, group: frozenset[str]) -> bool:
    """Tell whether a clause says a state of its subject, and not of what is tied to that."""
    at = next((n for n, w in enumerate(fact.words) if n and w.raw.casefold() in group), 0)
    ahead = fact.words[:at]
    if "be" in list_keys(ahead):
        return ahead[-1].key == "be"
    return not any(word.is_tie for word in ahead)


def _find_place(old: Fact, new: Fact) -> Update | None:
    """Find the one place where two sentences differ."""
    values = find_slot(old, new) or find_now(old, new)
    return _tell("value", old, values[0], new, values[1]) if values else None


def _tell(kind: str, old: Fact, before: Words, new: Fact, after: Words) -> Update:
    return Update(old.text, new.text, kind, _say(before), _say(after))


def _is_exchange(old: Fact, new: Fact, after: str) -> bool:
    """Tell whether the older sentence has the new value too, at another place."""
    keys = frozenset(map(read_key, after.split()))
    said = frozenset().union(*(list_keys(each.words) for each in read_facts(old.text)))
    return bool(keys) and keys <= said and "wish" not in old.classes & new.classes


def _is_single(old: Fact, new: Fact, classes: frozenset[str]) -> bool:
    """Tell whether a relation has one value at a time, and both facts mean the same by it."""
    if (old.kind, old.verb) == (new.kind, new.verb) and old.tie != new.tie:
        return False
    if new.is_new:
        return True
    rests = [list_keys(e.words) - list_keys((*e.subject, *e.value)) for e in (old, new)]
    before, after = (rest - {old.verb, old.tie, new.verb, new.tie, "be"} for rest in rests)
    if before and after and before != after:
        return False  # A cook at one place may be a guest at another.
    if "be" in {old.verb, new.verb} and may_be_any((*old.value, *new.value)):
        return False
    return not classes <= {"doer", "tool"} and (
        old.verb == new.verb or "be" not in {old.verb, new.verb}
    )


def _is_same_subject(old: Fact, new: Fact) -> bool:
    """Tell whether two facts are about the same: a name may be said in full or not."""
    ours, theirs = new.topic, old.topic
    if old.subject and new.subject:
        return ours == theirs
    return bool(ours & theirs) and ours <= old.keys and theirs <= new.keys


def _is_agent(new: Fact) -> bool:
    return not new.subject or bool(list_keys(new.words[:1]) & {"we", "i", "wir", "ich", "team"})


def _say(words: Words) -> str:
    return " ".join(word.raw for word in words)


@cache
def _groups() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(line.split()) for line in read_lines("exclusive"))


@cache
def _states() -> frozenset[str]:
    return frozenset().union(*_groups())
