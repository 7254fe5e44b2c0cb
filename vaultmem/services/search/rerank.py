"""Rerank the best sections with a model that reads them together with the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.search.query import Hit, RecallQuery
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.config import Config
    from vaultmem.storage.semantic.rerank_model import RerankModel

#: The most tokens of a section that a model reads; time grows in proportion.
_TOKENS = 160

#: The most characters if no sentence or line is that short.
_CHARS = 1_000


class ModelReranker:
    """Reranker with the model that vaultmem.yaml names.

    After a query, `done` describes the outcome, or None if there were no hits to rerank.
    """

    sections = 50

    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        self._config, self._environment = config, environment
        self.done: RerankInfo | None = None

    def __call__(self, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
        """Return the hits with the best in the model's order, unchanged if the model fails.

        Quarantined hits are never sent to a model, and keep their position.
        """
        places = [
            place
            for place, hit in enumerate(hits[: self.sections])
            if hit.record.state != NoteState.QUARANTINED
        ]
        if not places:
            return hits
        texts = [_truncate_text(hits[place]) for place in places]
        config = self._config
        try:
            model = load_reranker(config.rerank, self._environment)
            scores = model.score(query.text, texts, config.rerank_timeout_seconds)
        except VaultError as error:
            self.done = RerankInfo("", 0, str(error))
            return hits
        self.done = RerankInfo(model.name, len(places))
        return _reorder(hits, places, scores)


def _truncate_text(hit: Hit) -> str:
    """Return a section under its headings; for a long one, the passages that match best."""
    from vaultmem.core.packs.passages import choose_passages
    from vaultmem.services.semantic.embed import render_head

    text = hit.text
    if count_tokens(text) > _TOKENS:
        parts = choose_passages(text, hit.matches, _TOKENS)
        text = " ... ".join(text[start:end].strip() for start, end in parts) or text[:_CHARS]
    return f"{render_head(hit.record, hit.section)}\n{text}".strip()


def _reorder(hits: Sequence[Hit], places: Sequence[int], scores: Sequence[float]) -> list[Hit]:
    """Return hits with those at `places` ordered by their scores; ties keep their order.

    Each gets the score of its new position: later steps compare scores, and scores of a model are
    not comparable.
    """
    ordered = list(hits)
    order = sorted(range(len(places)), key=lambda nth: -scores[nth])
    for place, nth in zip(places, order, strict=True):
        hit = hits[places[nth]]
        ordered[place] = hit._replace(score=hits[place].score, rerank=scores[nth])
    return ordered


def load_reranker(kind: str, environment: Mapping[str, str]) -> RerankModel:
    """Return the reranker of that name in vaultmem.yaml; opened once.

    Only the environment sets its location: a vault from another person must not choose which file
    is opened, or which service receives the notes.

    Raises:
        RefusedError: there is no reranker of that name.
        MissingModelError: its files or settings are missing.
    """
    from vaultmem.storage.semantic.rerank_model import PREFIX

    settings = {k: v for k, v in environment.items() if k.startswith(PREFIX)}
    return _open(kind, tuple(sorted(settings.items())))


@lru_cache(maxsize=4)
def _open(kind: str, settings: tuple[tuple[str, str], ...]) -> RerankModel:
    from vaultmem.storage.semantic.embedder import MissingModelError
    from vaultmem.storage.semantic.rerank_model import PREFIX

    environment = dict(settings)
    if kind == "onnx":
        from vaultmem.storage.semantic.rerank_model import CrossEncoder

        variable = f"{PREFIX}_FOLDER"
        if not environment.get(variable):
            raise MissingModelError(f"no folder with a cross-encoder is named; set {variable}")
        return CrossEncoder(Path(environment[variable]), variable)
    if kind == "endpoint":
        from vaultmem.storage.semantic.embedder import read_address
        from vaultmem.storage.semantic.rerank_model import RerankService

        return RerankService(read_address(environment, PREFIX))
    raise RefusedError(
        f'"{kind}" is not a reranker; use onnx, endpoint or off in vaultmem.yaml, '
        f"and name its folder or service by {PREFIX}_*"
    )


class RerankInfo(NamedTuple):
    """The model that reranked and the number of sections; `problem` is the error, "" if none."""

    model: str
    sections: int
    problem: str = ""


class Reranker(Protocol):
    """Reorders the best hits; `sections` is how many it reads."""

    @property
    def sections(self) -> int:
        """The number of best hits that it needs, if there are that many."""

    def __call__(self, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
        """Return the same hits, the best first."""
