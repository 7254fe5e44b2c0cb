"""Put the best sections in the order of a model that reads them together with the question."""

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

#: Tokens of a section that a model gets to read: more cost as much more time.
_TOKENS = 160

#: Characters, where not even one sentence or line is as short.
_CHARS = 1_000


class ModelReranker:
    """What reranks by the model that vaultmem.yaml names.

    After a question, `done` says what came of it, None if there was nothing to be put in order.
    """

    sections = 50

    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        self._config, self._environment = config, environment
        self.done: RerankInfo | None = None

    def __call__(self, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
        """Return the hits with the best in the model's order, as they are where it gives none.

        What is quarantined is shown to no model, and stays in its place.
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
    """Return a section under its headings; of a long one the passages that answer best."""
    from vaultmem.core.packs.passages import choose_passages
    from vaultmem.services.semantic.embed import render_head

    text = hit.text
    if count_tokens(text) > _TOKENS:
        parts = choose_passages(text, hit.matches, _TOKENS)
        text = " ... ".join(text[start:end].strip() for start, end in parts) or text[:_CHARS]
    return f"{render_head(hit.record, hit.section)}\n{text}".strip()


def _reorder(hits: Sequence[Hit], places: Sequence[int], scores: Sequence[float]) -> list[Hit]:
    """Return hits with those at the places in the order of their scores, ties as they were.

    Each takes over the score of its new place: what follows compares scores, and those of a model
    mean something else.
    """
    ordered = list(hits)
    order = sorted(range(len(places)), key=lambda nth: -scores[nth])
    for place, nth in zip(places, order, strict=True):
        found = hits[places[nth]]
        ordered[place] = found._replace(score=hits[place].score, rerank=scores[nth])
    return ordered


def load_reranker(kind: str, environment: Mapping[str, str]) -> RerankModel:
    """Return the reranker of that name in vaultmem.yaml; opened once.

    Where it is only the environment says: a vault that somebody sent may not choose which file is
    opened, or who gets the notes.

    Raises:
        RefusedError: there is none of that name.
        MissingModelError: its files or settings are not there.
    """
    from vaultmem.storage.semantic.rerank_model import PREFIX

    named = {k: v for k, v in environment.items() if k.startswith(PREFIX)}
    return _open(kind, tuple(sorted(named.items())))


@lru_cache(maxsize=4)
def _open(kind: str, named: tuple[tuple[str, str], ...]) -> RerankModel:
    from vaultmem.storage.semantic.embedder import MissingModelError
    from vaultmem.storage.semantic.rerank_model import PREFIX

    environment = dict(named)
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
    """Which model put how many sections in order; `problem` says why none did, "" if one did."""

    model: str
    sections: int
    problem: str = ""


class Reranker(Protocol):
    """Puts the best hits in an order of its own; `sections` is how many it looks at."""

    @property
    def sections(self) -> int:
        """How many of the best hits it has to be given, where there are so many."""

    def __call__(self, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
        """Return the same hits, the best first."""
