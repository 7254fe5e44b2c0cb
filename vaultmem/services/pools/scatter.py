"""Ask vaults that are in several shards as one: the same hits, scores and reasons as of one.

Each shard keeps what it opened for a question until that is answered, and says what it is asked of
it in turn: figures, what may answer, texts. One that is late, dies or has forgotten ends the
attempt, and the question is asked again of the others, so that an answer is of the same vaults from
its first figure to its last text.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar

from vaultmem.config import Config
from vaultmem.core.finding.query import NoteFilter, RecallQuery
from vaultmem.core.packs.division import tell_missing
from vaultmem.errors import DamagedError, NoteNotFoundError, RefusedError, VaultError, name_failure
from vaultmem.services.finding.ask import Answer, Ask, Models, count_shown, find_answer
from vaultmem.services.finding.ask_pack import AskPack, PackAnswer, find_material, finish_pack
from vaultmem.services.finding.parts import AS_IT_IS, How
from vaultmem.services.finding.reach import Reach
from vaultmem.services.pools import question
from vaultmem.services.pools.engine import LATE, Engine
from vaultmem.services.pools.shard import Shard
from vaultmem.vault import Vault, VaultSettings

if TYPE_CHECKING:
    from vaultmem.core.finding.hit import Hit

_T = TypeVar("_T")

#: How often a question is asked that shards have forgotten, or that found an index damaged.
_ATTEMPTS = 3

_NO_VECTORS = "vaults in several shards are asked by words alone"


class LostError(VaultError):
    """Shards were late or died while a question was asked; `missing` are their vaults, and why.

    Those of shards that are there and have forgotten the question, or found an index damaged, are
    `again`: they can be asked from the beginning.
    """

    def __init__(self, missing: Mapping[str, str], again: Mapping[str, str] = {}) -> None:
        super().__init__(" ".join(tell_missing(missing)))
        self.missing, self.again = missing, again


def ask_scattered(
    engine: Engine,
    names: Sequence[str],
    answer: Callable[[Scattered], _T],
    settings: VaultSettings,
    seconds: float | None = None,
    at: str = "",
    refs: Sequence[str] = (),
) -> tuple[_T, dict[str, str]]:
    """Return what `answer` makes of vaults in shards, and why some have no part in it.

    A shard is waited for `seconds` each time that it is asked something; who does not answer then
    is left out.

    Raises:
        VaultError: none of them can be asked.
    """
    missing: dict[str, str] = {}
    attempts = _ATTEMPTS
    while wanted := [name for name in names if name not in missing]:
        try:
            with _open_all(engine, wanted, settings, seconds, at, refs) as reach:
                told = {**missing, **reach.missing}
                reach.missing = {name: told[name] for name in names if name in told}
                return answer(reach), reach.missing
        except LostError as lost:
            attempts -= bool(lost.again)
            missing |= lost.missing if attempts else {**lost.missing, **lost.again}
    raise LostError(missing)


@contextlib.contextmanager
def _open_all(
    engine: Engine,
    names: Sequence[str],
    settings: VaultSettings,
    seconds: float | None,
    at: str,
    refs: Sequence[str],
) -> Iterator[Scattered]:
    """Open vaults for one question, for a `with`."""
    placed = engine.place(names)
    calls = _Calls(engine, placed, seconds)
    try:
        given = {n: (own, settings, at, refs) for n, (_, own) in enumerate(placed)}
        yield Scattered(calls, names, calls.make(question.open_group, given))
    finally:
        calls.end()


class _Calls:
    """What shards are asked for one question; each has a number, its place among these."""

    def __init__(
        self,
        engine: Engine,
        placed: Sequence[tuple[int, Sequence[str]]],
        seconds: float | None,
    ) -> None:
        self._engine, self._placed, self._seconds = engine, placed, seconds
        self._id = secrets.token_hex(8)

    def make(
        self,
        work: Callable[Concatenate[Shard, str, ...], _T],
        given: Mapping[int, Sequence[Any]],
    ) -> dict[int, _T]:
        """Return what a function makes in each shard of what is given for it.

        Raises:
            LostError: some were late, or could not answer.
            VaultError: what is asked cannot be answered.
        """
        found, lost = self.try_to(work, given)
        if lost is not None:
            raise lost
        return found

    def try_to(
        self,
        work: Callable[Concatenate[Shard, str, ...], _T],
        given: Mapping[int, Sequence[Any]],
    ) -> tuple[dict[int, _T], LostError | None]:
        """Return what `make` returns of those that answer, and what it raises of others."""
        running = {
            number: self._engine.submit(self._placed[number][0], work, self._id, *args)
            for number, args in given.items()
        }
        wait(running.values(), self._seconds)
        found: dict[int, _T] = {}
        lost: dict[str, str] = {}
        again: dict[str, str] = {}
        for number, done in running.items():
            names = self._placed[number][1]
            if not done.done():
                done.cancel()
                lost |= dict.fromkeys(names, LATE)
                continue
            try:
                found[number] = done.result()
            except (NoteNotFoundError, RefusedError):
                raise
            except DamagedError as error:
                again |= dict.fromkeys(names, str(error))
            except (VaultError, OSError) as error:
                lost |= dict.fromkeys(names, str(name_failure(error)))
        return found, LostError(lost, again) if lost or again else None

    def end(self) -> None:
        """Let the shards forget the question; nobody waits for that."""
        for shard, _ in self._placed:
            with contextlib.suppress(VaultError, OSError, RuntimeError):
                self._engine.submit(shard, question.forget, self._id)


class Scattered(Reach):
    """Vaults in several shards, opened for one question; each shard's are a group.

    `missing` are those that have no part in the answer, and why; `moment` is what counts as now in
    what is looked at (seconds since the epoch).
    """

    def __init__(
        self, calls: _Calls, names: Sequence[str], opened: Mapping[int, question.Opened]
    ) -> None:
        self._calls = calls
        self.missing = {name: why for each in opened.values() for name, why in each.missing.items()}
        groups = {name: number for number, each in opened.items() for name in each.names}
        if not groups:
            raise LostError(self.missing)
        self._names = [name for name in names if name in groups]
        self._groups = [groups[name] for name in self._names]
        self._places = {
            number: [place for place, each in enumerate(self._groups) if each == number]
            for number in sorted(set(self._groups))
        }
        first = opened[self._groups[0]]
        self._config, self._now, self.moment = first.config, first.now, first.moment

    @property
    def names(self) -> Sequence[str]:
        """What each vault is called, by its place."""
        return self._names

    @property
    def config(self) -> Config:
        """The settings of the first vault."""
        return self._config

    def now(self) -> float:
        """Return the time by the first vault's clock, as it was opened."""
        return self._now

    def open_models(self, semantic: bool | None, waits: bool, settings: VaultSettings) -> Models:
        """Return what scores a question besides its words, as `ask.open_models` does.

        Vectors are not asked over several shards; a reranker reads here what they found.
        """
        wanted = self.config.semantic != "off" if semantic is None else semantic
        problem = _NO_VECTORS if wanted else ""
        if not waits or self.config.rerank == "off":
            return Models(problem=problem)
        from vaultmem.services.finding.rerank import ModelReranker

        reranker = ModelReranker(self.config, settings.get("environment", {}))
        return Models(problem=problem, reranker=reranker)

    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[int, Sequence[Any]]
    ) -> dict[int, _T]:
        """Do a work with some of them, in their shards."""
        return _join(self._calls.make(question.do_each, self._divide(work, given)))

    def keep(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[int, Sequence[Any]]
    ) -> dict[int, _T]:
        """Have some of them keep what was answered; a shard that is lost then asks nobody again."""
        return _join(self._calls.try_to(question.do_each, self._divide(work, given))[0])

    def _divide(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[int, Sequence[Any]]
    ) -> dict[int, tuple[Any, ...]]:
        """Return what each shard is given to do a work with its own."""
        own = {
            number: {place: given[place] for place in places if place in given}
            for number, places in self._places.items()
        }
        return {number: (self._places[number], work, each) for number, each in own.items() if each}

    def _find_each(
        self, work: Callable[[Vault], Sequence[Hit]], limit: int
    ) -> Mapping[int, Sequence[Hit]]:
        given = {number: (places, work, limit) for number, places in self._places.items()}
        found: dict[int, list[Hit]] = {}
        for told in self._calls.make(question.find_best, given).values():
            for place, hit in told:
                found.setdefault(place, []).append(hit)
        return found

    def find(self, query: RecallQuery, how: How = AS_IT_IS) -> tuple[RecallQuery, list[Hit]]:
        """Return what answers as of one vault; `how.dense` is none, for vectors are not asked."""
        from vaultmem.services.finding.divided import DividedGround
        from vaultmem.services.finding.recall import find_sections

        if not (query.terms or query.compounds):
            return query, []
        ground = DividedGround(self._tell, self._groups, self._names, self.config.recency)
        return find_sections(ground.choose, query, how)

    def _tell(
        self, note_filter: NoteFilter, method: str, given: Mapping[int, Sequence[Any]]
    ) -> dict[int, Any]:
        asked = {n: (self._places[n], note_filter, method, args) for n, args in given.items()}
        return self._calls.make(question.tell, asked)


def _join(told: Mapping[int, Mapping[int, _T]]) -> dict[int, _T]:
    """Return what shards tell of their vaults, in the order of the places."""
    found = {place: each for own in told.values() for place, each in own.items()}
    return {place: found[place] for place in sorted(found)}


def recall_scattered(reach: Scattered, asked: Ask, settings: VaultSettings) -> Answer:
    """Return what answers a question, and count it as shown, as `ask` does."""
    models = reach.open_models(asked.semantic, asked.waits, settings)
    answer = find_answer(reach, asked, models, reach.moment)
    return count_shown(reach, asked, answer, [(hit, hit.text) for hit in answer.hits])


def pack_scattered(reach: Scattered, asked: AskPack, settings: VaultSettings) -> PackAnswer:
    """Return the pack for a question, counted and with its receipt, as `ask_pack` does."""
    models = Models()
    if asked.question.strip():
        models = reach.open_models(asked.semantic, asked.waits, settings)
    asked = tell_left_out(asked, reach.missing)
    return finish_pack(reach, asked, models, find_material(reach, asked, models))


def tell_left_out(asked: AskPack, missing: Mapping[str, str]) -> AskPack:
    """Return what is asked, and that its pack is to name the vaults that have no part in it."""
    return asked._replace(told=(*asked.told, *tell_missing(missing)))
