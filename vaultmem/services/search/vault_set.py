"""Vaults that are searched together, each with a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, TypeVar

from vaultmem.config import Config
from vaultmem.core.packs.vault_parts import group_by_vault
from vaultmem.core.search.query import Hit, NoteKey, RecallQuery, Statistics, add_statistics
from vaultmem.errors import ArgumentError, VaultError
from vaultmem.services.search.rerank import RerankInfo
from vaultmem.services.search.score import Depth, Scorer
from vaultmem.services.search.search import MultiVaultSearch, count, score_words
from vaultmem.services.views.resolve_names import choose_note_paths
from vaultmem.services.views.update_index import read_healed, sync_once
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.search.rerank import ModelReranker
    from vaultmem.services.semantic.embed import DenseScorer, DenseScorers

_T = TypeVar("_T")

#: Makes the progress callback (`services.views.read_index.Progress`) of a long task, by its label.
TellProgress = Callable[[str], Callable[[int, int], None]]


class SemanticInfo(NamedTuple):
    """The model that scored, the share of the score by words, and the sections with vectors."""

    model: str
    weight: float
    embedded: int
    sections: int


class ScoringModels(NamedTuple):
    """The models that score a query besides its words; `problem` is why none scores meaning."""

    dense: DenseScorer | DenseScorers | None = None
    problem: str = ""
    reranker: ModelReranker | None = None

    def describe(self) -> tuple[SemanticInfo | None, str, RerankInfo | None]:
        """Return, after a query, the semantic model, why there was none, and the reranker."""
        rerank_info = self.reranker.done if self.reranker else None
        dense = self.dense
        if dense is None or dense.problem:
            return None, dense.problem if dense else self.problem, rerank_info
        name = dense.meaning.embedder.name
        meaning = SemanticInfo(name, dense.weight, dense.embedded, dense.sections)
        advice = "no section has a vector yet; run `vaultmem embed`"
        return meaning, "" if dense.embedded else advice, rerank_info


class VaultSet:
    """Vaults of this process; the settings of the first apply to all.

    A subclass can have its vaults elsewhere: `count`, `score_words`, `search` and `run` are then
    calls of other processes, and all arguments and results except models are plain values.
    """

    def __init__(self, vaults: Iterable[Vault]) -> None:
        opened = [*vaults]
        self.vaults: dict[str, Vault] = {}
        for each in opened:
            name = each.name if len(opened) > 1 else ""
            self.vaults[str(each.root) if name in self.vaults else name] = each

    @property
    def names(self) -> Sequence[str]:
        """The name of each vault, in order; "" for a single vault."""
        return [*self.vaults]

    @property
    def first(self) -> Vault:
        """The first vault."""
        return next(iter(self.vaults.values()))

    @property
    def config(self) -> Config:
        """The settings of the first vault."""
        return self.first.config

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return self.first.now()

    @property
    def viewed_at(self) -> float:
        """The time of the viewed commit, or else the present, in seconds since the epoch."""
        sources = self.first.view.sources
        return sources[0].at if sources else self.now()

    def count(
        self, query: RecallQuery, misspelt: Sequence[str] = (), is_alone: bool = False
    ) -> Statistics:
        """Return the sum of the vaults' statistics."""
        return add_statistics(
            count(each, query, misspelt, is_alone) for each in self.vaults.values()
        )

    def score_words(self, query: RecallQuery, statistics: Statistics) -> list[float]:
        """Return the scores by words of all vaults, unordered; see `search.score_words`."""
        scores_by_vault = self.run(score_words, dict.fromkeys(self.names, (query, statistics)))
        return [score for scores in scores_by_vault.values() for score in scores]

    def search(
        self, query: RecallQuery, statistics: Statistics, depth: Depth, dense: Scorer | None = None
    ) -> list[tuple[str, list[Hit]]]:
        """Return the best hits of each vault, as `search.search` does."""
        search = MultiVaultSearch(query, statistics, depth, dense)
        return [(name, search(vault)) for name, vault in self.vaults.items()]

    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Return the result of a function for each vault in `given`, with that vault's arguments.

        The results are in the order of the vaults.
        """
        return {
            name: work(vault, *given[name]) for name, vault in self.vaults.items() if name in given
        }

    def keep(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Run a function that stores data in some vaults, as `run` does.

        Vaults that cannot be reached any more are omitted from the results.
        """
        return self.run(work, given)

    def view(
        self, at: str = "", refs: Sequence[str] = (), progress: TellProgress | None = None
    ) -> VaultSet:
        """Return the vaults at a ref or date, or else on their branches, or else in their folders.

        Raises:
            NoteNotFoundError: a ref does not exist.
        """
        result = VaultSet([])
        result.vaults = {n: look(each, at, refs, progress) for n, each in self.vaults.items()}
        return result

    def open_models(
        self, semantic: bool | None, waits: bool, progress: TellProgress | None = None
    ) -> ScoringModels:
        """Return the models that score a query besides its words."""
        return open_models([*self.vaults.values()], semantic, waits, progress)

    def read_with_rebuild(self, read: Callable[[], _T]) -> _T:
        """Return the result of a read, repeated if an index or database is damaged."""
        return read_healed([*self.vaults.values()], read)

    def change(
        self,
        hits: Sequence[Hit],
        work: Callable[Concatenate[Vault, list[Hit], ...], Sequence[Hit]],
        *args: Any,
    ) -> list[Hit]:
        """Return hits after a function has changed those of each vault.

        Hits that it adds or removes do not change the order of the others.
        """
        arguments = {name: (own, *args) for name, own in group_by_vault(hits).items()}
        hits_by_vault = self.run(work, arguments)
        if len(self.names) == 1:
            return [*next(iter(hits_by_vault.values()), ())]
        order = {hit.key: n for n, hit in enumerate(hits)}
        placed: list[tuple[int, Hit]] = []
        for name, own in hits_by_vault.items():
            last = -1
            positions = [last := order.get(hit.key, last) for hit in label_vault(name, own)]
            # A hit that moved up comes before the hits that now follow it.
            first = [*accumulate(reversed(positions), min)][::-1]
            placed += zip(first, label_vault(name, own), strict=True)
        return [hit for _, hit in sorted(placed, key=lambda each: each[0])]


def label_vault(name: str, hits: Iterable[Hit]) -> list[Hit]:
    """Return hits with the name of their vault."""
    return [hit._replace(vault=name) for hit in hits] if name else [*hits]


def build_handles(vaults: VaultSet, hits: Iterable[Hit]) -> dict[NoteKey, str]:
    """Return the handle of each hit's note in its own vault."""
    arguments = {name: (own,) for name, own in group_by_vault(hits).items()}
    handles_by_vault = vaults.run(choose_note_paths, arguments)
    return {
        note: handle for handles in handles_by_vault.values() for note, handle in handles.items()
    }


def open_set(vaults: Vault | Iterable[Vault] | VaultSet) -> VaultSet:
    """Return one vault or several as a set.

    Raises:
        ArgumentError: there is no vault.
    """
    if isinstance(vaults, VaultSet):
        return vaults
    result = VaultSet([vaults] if isinstance(vaults, Vault) else vaults)
    if not result.vaults:
        raise ArgumentError("no vault to query; give at least one")
    return result


def look(
    vault: Vault, at: str = "", refs: Sequence[str] = (), progress: TellProgress | None = None
) -> Vault:
    """Return the vault at the given ref or date, or else on its branch, or else in the folder.

    The index is updated first, once. A vault that already views commits is returned unchanged if no
    ref is given.
    """
    if not vault.view.sources:
        sync_once(vault, progress and progress("reading notes"))
    if not (at or refs or (vault.ref and not vault.view.sources)):
        return vault
    from vaultmem.services.views.open_view import view_at

    return view_at(vault, at, refs, progress and progress("reading notes of git"))


def open_scorer(
    vaults: Sequence[Vault],
    semantic: bool | None,
    waits: bool,
    progress: TellProgress | None = None,
) -> tuple[DenseScorer | DenseScorers | None, str]:
    """Return the scorer by meaning, if it is wanted, and the reason if it is not available."""
    if semantic is False or (semantic is None and vaults[0].config.semantic == "off"):
        return None, ""
    from vaultmem.services.semantic.embed import find_scorer

    step_progress = progress and progress("embedding sections")
    try:
        return find_scorer(vaults, semantic, step_progress, waits=waits), ""
    except VaultError as error:
        return None, str(error)


def open_models(
    vaults: Sequence[Vault],
    semantic: bool | None,
    waits: bool,
    progress: TellProgress | None = None,
) -> ScoringModels:
    """Return the models that score a query besides its words; a reranker only if `waits`."""
    scorer, problem = open_scorer(vaults, semantic, waits, progress)
    if not waits or vaults[0].config.rerank == "off":
        return ScoringModels(scorer, problem)
    from vaultmem.services.search.rerank import ModelReranker

    return ScoringModels(scorer, problem, ModelReranker(vaults[0].config, vaults[0].environment))
