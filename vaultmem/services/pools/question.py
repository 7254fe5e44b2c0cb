"""What a shard does for a question over several shards: open its vaults, and tell of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, TypeVar

from vaultmem.config import Config
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter
from vaultmem.errors import DamagedError, VaultError
from vaultmem.services.finding.ask import look
from vaultmem.services.finding.reach import choose_best
from vaultmem.services.pools.shard import Shard
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault, VaultSettings

if TYPE_CHECKING:
    from vaultmem.services.finding.own_ground import OwnGround

_T = TypeVar("_T")


class Group:
    """A vault and those beside it, for one question, which is asked of them as they are now.

    `places` are theirs among all vaults that are asked, in ascending order. What changes meanwhile
    is for the next question, so that what is told first and last belongs together.
    """

    def __init__(self, vault: Vault, places: Sequence[int]) -> None:
        vault.apart = True
        self.vaults = dict(zip(places, vault.together, strict=True))
        self._vault = vault
        self._grounds: dict[NoteFilter, OwnGround | None] = {}

    def tell(self, note_filter: NoteFilter, method: str, args: Sequence[Any]) -> Any:
        """Return what a method of `OwnGround` returns; None where there is no note at all.

        Raises:
            DamagedError: what it read before is no more.
        """
        if note_filter not in self._grounds:
            return _begin(self._vault, self, note_filter, method, args)
        return _call(self._grounds[note_filter], method, args)

    def choose(self, note_filter: NoteFilter) -> OwnGround | None:
        """Return what can be found by a filter, as it is from now on for this question."""
        from vaultmem.services.finding.own_ground import OwnGround
        from vaultmem.services.finding.together import choose_parts

        searched = choose_parts(self._vault, note_filter, [*self.vaults])
        found = None if searched is None else OwnGround(searched, as_part=True)
        self._grounds[note_filter] = found
        return found


@heals
def _begin(
    vault: Vault, group: Group, note_filter: NoteFilter, method: str, args: Sequence[Any]
) -> Any:
    return _call(group.choose(note_filter), method, args)


def _call(ground: OwnGround | None, method: str, args: Sequence[Any]) -> Any:
    return None if ground is None else getattr(ground, method)(*args)


#: Questions for which a shard keeps what it opened, at most.
_MOST = 32


class Opened(NamedTuple):
    """What a shard opened for a question, and of the first of it the settings and two times.

    `now` is the vault's clock, `moment` what counts as now in what is looked at, both in seconds
    since the epoch.
    """

    names: Sequence[str]
    missing: Mapping[str, str]
    config: Config = Config()
    now: float = 0.0
    moment: float = 0.0


class _Question:
    """What a shard has open for a question."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._group: Group | None = None

    def group(self, places: Sequence[int]) -> Group:
        """Return the vaults as a group, whose places among all do not change any more."""
        if self._group is None:
            self._group = Group(self._vault, places)
        return self._group


def open_group(
    shard: Shard,
    question: str,
    names: Sequence[str],
    settings: VaultSettings,
    at: str,
    refs: Sequence[str],
) -> Opened:
    """Open vaults for a question, and look where it asks for.

    Raises:
        NoteNotFoundError: a ref does not exist.
    """
    missing: dict[str, str] = {}
    try:
        vault = shard.group(names, settings, missing)
    except VaultError:
        if len(missing) < len(names):
            raise
        return Opened((), missing)
    vault = look(vault, at, refs)
    known = shard.questions
    known[question] = _Question(vault)
    while len(known) > _MOST:
        known.pop(next(iter(known)))
    moment = vault.view.sources[0].at if vault.view.sources else vault.now()
    opened = [each.name for each in vault.together]
    return Opened(opened, missing, vault.config, vault.now(), moment)


def tell(
    shard: Shard,
    question: str,
    places: Sequence[int],
    note_filter: NoteFilter,
    method: str,
    args: Sequence[Any],
) -> Any:
    """Return what a group of vaults tells, as `Group.tell` does.

    Raises:
        DamagedError: the question is not known here any more.
    """
    return _find(shard, question, places).tell(note_filter, method, args)


def do_each(
    shard: Shard,
    question: str,
    places: Sequence[int],
    work: Callable[Concatenate[Vault, ...], _T],
    given: Mapping[int, Sequence[Any]],
) -> dict[int, _T]:
    """Do a work with the vaults at some places, each with what is given for it.

    Raises:
        DamagedError: the question is not known here any more.
    """
    vaults = _find(shard, question, places).vaults
    return {place: work(vaults[place], *args) for place, args in given.items()}


def find_best(
    shard: Shard,
    question: str,
    places: Sequence[int],
    work: Callable[[Vault], Sequence[Hit]],
    limit: int,
) -> list[tuple[int, Hit]]:
    """Return the best of what a work finds in the vaults of a shard, with their places.

    Raises:
        DamagedError: the question is not known here any more.
    """
    vaults = _find(shard, question, places).vaults
    return choose_best({place: work(vault) for place, vault in vaults.items()}, limit)


def _find(shard: Shard, question: str, places: Sequence[int]) -> Group:
    known: _Question | None = shard.questions.get(question)
    if known is None:
        raise DamagedError("this shard was begun anew since the question came")
    return known.group(places)


def forget(shard: Shard, question: str) -> None:
    """Let go of what was opened for a question."""
    shard.questions.pop(question, None)
