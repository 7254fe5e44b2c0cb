"""What agents say twice, and in what they contradict each other: the notes of many vaults compared.

As `curate` does it in one vault, and by the same rules. Each vault tells of its notes what finds
those that are alike; here that is joined, and each vault compares its own with what it may be like.
"""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import IO, Any

from vaultmem.services.fleetwork.compared import Compared, Differing, Same, Side
from vaultmem.services.fleetwork.comparing import (
    CONTRADICTION,
    Asks,
    Found,
    Wanted,
    compare_notes,
    read_sections,
)
from vaultmem.services.fleetwork.opposed import Opposed, find_opposed
from vaultmem.services.fleetwork.over_all import Gathered, Terms, Work, do_same, over_all
from vaultmem.services.fleetwork.signs import Sign, read_sign, sign_notes
from vaultmem.services.fleetwork.statements import Held, Place, Statements, Texts
from vaultmem.services.likeness.similar import NOTES, SECTIONS, SHARE
from vaultmem.services.likeness.updates import measure_update
from vaultmem.services.pools.pool import Pool
from vaultmem.vault import Vault


def compare_all(pool: Pool, names: Iterable[str], terms: Terms) -> Compared:
    """Compare the notes of these vaults, or of all, with those of the others.

    What differs inside one vault is left to its own `curate`.
    """
    told = over_all(pool, names, terms, do_same("reading notes", sign_notes))
    with tempfile.TemporaryFile(prefix="vaultmem-") as texts:
        return _Comparison(pool, terms, told, texts).run()


#: Two statements by number, the lower one first; what was found of them, the older one first.
_Pair = tuple[int, int]
_Found = dict[_Pair, tuple[float, tuple[tuple[str, str, str], ...]]]


class _Comparison:
    """One comparison: the statements of all vaults, and what each is held against."""

    def __init__(self, pool: Pool, terms: Terms, told: Gathered, texts: IO[bytes]) -> None:
        self._pool, self._terms, self._told = pool, terms, told
        self._names = list(told.done)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._statements, self._held = Statements(), Held()
        #: The number of each vault's first statement, and behind them that of all.
        self._starts = [0]
        #: Of each statement's first note what is another when that is.
        self._marks = array("Q")
        self._texts = Texts(texts)
        self._missing, self._behind = dict(told.missing), dict(told.behind)

    def run(self) -> Compared:
        """Compare all."""
        notes = sum(self._take(vault, name) for vault, name in enumerate(self._names))
        tell = self._terms.tell("finding what is alike")
        for vault, name in enumerate(self._names):
            tell(vault, len(self._names))
            self._choose(vault, name)
        tell(len(self._names), len(self._names))
        self._show()
        near, contradicting = self._compare()
        for each in find_opposed(self._statements, self._list_firsts):
            pair = _order(each.older, each.newer)
            if each.is_told or pair not in contradicting:
                contradicting[pair] = _tell_update(each)
        return self._describe(near, contradicting, notes)

    def _list_signs(self, name: str) -> list[Sign]:
        return [read_sign(each) for each in self._told.read(name)["notes"]]

    def _list_firsts(self) -> Iterator[tuple[int, Sign]]:
        """Yield all statements with what was told of the first note of each."""
        for vault, name in enumerate(self._names):
            yield from self._list_own(vault, self._list_signs(name))

    def _list_own(self, vault: int, signs: Sequence[Sign]) -> Iterator[tuple[int, Sign]]:
        for number in range(self._starts[vault], self._starts[vault + 1]):
            yield number, signs[self._statements.firsts[number].note]

    def _take(self, vault: int, name: str) -> int:
        """Take the notes of a vault; return how many."""
        signs = self._list_signs(name)
        for note, sign in enumerate(signs):
            self._statements.add(Place(vault, note), sign)
            if len(self._statements.firsts) > len(self._marks):
                told = f"{name} {sign.path} {sign.blob}".encode("utf-8", "surrogatepass")
                self._marks.append(int.from_bytes(hashlib.sha256(told).digest()[:8]))
        self._starts.append(len(self._marks))
        return len(signs)

    def _choose(self, vault: int, name: str) -> None:
        """Choose what the statements of a vault are held against."""
        least = self._told.read(name)["related"] * SHARE
        for number, sign in self._list_own(vault, self._list_signs(name)):
            if sign.asks:
                asked = sign.list_asked()
                found = self._statements.find_like(number, asked, SECTIONS, least)
                self._held.put(number, found[:NOTES])

    def _show(self) -> None:
        """Have vaults show the sections that others are held against."""
        work = Work("reading what is alike", self._make_shown, own=self._list_wanted)
        for name, texts in self._ask(self._list_wanted, work):
            wanted = self._held.list_wanted(*self._find_range(name))
            for number, shown in zip(wanted, texts, strict=True):
                self._texts.put(number, shown)

    def _find_range(self, name: str) -> tuple[int, int]:
        vault = self._places[name]
        return self._starts[vault], self._starts[vault + 1]

    def _list_wanted(self, name: str) -> list[Wanted]:
        wanted = self._held.list_wanted(*self._find_range(name))
        signs = dict(self._list_own(self._places[name], self._list_signs(name))) if wanted else {}
        return [Wanted(signs[n].path, signs[n].blob, places) for n, places in wanted.items()]

    def _make_shown(self, name: str) -> Callable[[Vault], Any]:
        return partial(read_sections, wanted=self._list_wanted(name))

    def _compare(self) -> tuple[_Found, _Found]:
        """Have vaults compare their notes with what others showed."""
        work = Work("comparing notes", self._make_compared, own=self._list_held)
        near: _Found = {}
        contradicting: _Found = {}
        for name, values in self._ask(self._list_held, work):
            held = self._held.list_held(*self._find_range(name))
            pairs = [(number, other) for number, others in held for other, _ in others]
            for value in values:
                each = Found(**value)
                number, other = pairs[each.number]
                is_older = self._come_first(number, other)
                told = ((k, *((a, b) if is_older else (b, a))) for k, a, b in each.differences)
                kind = contradicting if each.kind == CONTRADICTION else near
                kind.setdefault(_order(number, other), (each.similarity, tuple(told)))
        return near, contradicting

    def _list_held(self, name: str) -> list[Any]:
        """Return what of a vault is held against what, as long as both are what they are."""
        return [
            (self._marks[number], [(self._marks[other], sections) for other, sections in others])
            for number, others in self._held.list_held(*self._find_range(name))
        ]

    def _make_compared(self, name: str) -> Callable[[Vault], Any]:
        signs = dict(self._list_own(self._places[name], self._list_signs(name)))
        asked = []
        for number, others in self._held.list_held(*self._find_range(name)):
            sign = signs[number]
            counts = self._statements.count_terms(sign.list_asked())
            texts = [self._texts.read(other, sections) for other, sections in others]
            asked.append(Asks(sign.path, sign.blob, counts, texts))
        return partial(compare_notes, asked=asked, size=self._statements.size)

    def _ask(self, find_own: Callable[[str], object], work: Work) -> Iterable[tuple[str, Any]]:
        """Do a work with the vaults that have something to do in it."""
        names = [name for name in self._names if find_own(name)]
        if not names:
            return ()
        done = over_all(self._pool, names, self._terms, work, self._told.done)
        self._missing |= done.missing
        self._behind |= done.behind
        return done.items()

    def _come_first(self, number: int, other: int) -> bool:
        written = self._statements.written
        return (written[number], number) <= (written[other], other)

    def _describe(self, near: _Found, contradicting: _Found, notes: int) -> Compared:
        same = list(self._statements.list_same())
        wanted = {place for _, places in same for place in places}
        wanted |= {self._statements.firsts[n] for pair in (*near, *contradicting) for n in pair}
        sides = self._read_sides(wanted)
        alike = [
            Same(tuple(sorted((sides[each] for each in places), key=_by_time)))
            for _, places in same
        ]
        return Compared(
            same=tuple(sorted(alike, key=lambda each: (-len(each.notes), _by_time(each.notes[0])))),
            near=self._list_differing(near, sides),
            contradicting=self._list_differing(contradicting, sides),
            vaults=len(self._names),
            notes=notes,
            asked=self._told.asked,
            missing=self._missing,
            behind=self._behind,
        )

    def _read_sides(self, wanted: Iterable[Place]) -> dict[Place, Side]:
        found = {}
        by_vault: dict[int, list[Place]] = {}
        for place in wanted:
            by_vault.setdefault(place.vault, []).append(place)
        for vault, places in sorted(by_vault.items()):
            signs = self._list_signs(self._names[vault])
            for place in places:
                sign = signs[place.note]
                about = (sign.path, sign.title, sign.agent, sign.written)
                found[place] = Side(self._names[vault], *about)
        return found

    def _list_differing(self, found: _Found, sides: dict[Place, Side]) -> tuple[Differing, ...]:
        listed = []
        for pair, (similarity, differences) in found.items():
            older, newer = pair if self._come_first(*pair) else pair[::-1]
            first, then = (self._statements.list_places(number) for number in (older, newer))
            counts = len(first), len(then)
            told = sides[first[0]], sides[then[0]], similarity, differences, *counts
            listed.append(Differing(*told))
        listed.sort(key=lambda each: (_by_time(each.newer), _by_time(each.older)), reverse=True)
        return tuple(listed)


def _order(number: int, other: int) -> _Pair:
    return (number, other) if number < other else (other, number)


def _by_time(side: Side) -> tuple[float, str, str]:
    return side.written, side.vault, side.path


def _tell_update(found: Opposed) -> tuple[float, tuple[tuple[str, str, str], ...]]:
    update = found.update
    similarity = measure_update(update, update.new).similarity
    return similarity, (("update", update.before, update.after or "no longer"),)
