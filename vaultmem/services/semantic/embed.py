"""Compute missing embeddings, and score sections by them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.indexing.note_facts import STATES
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.errors import VaultError
from vaultmem.services.semantic.meaning import EmbeddingIndex, choose_model, open_meaning
from vaultmem.services.views.read_index import Progress
from vaultmem.services.views.texts import read_sections
from vaultmem.services.views.update_index import retries_after_rebuild
from vaultmem.storage.semantic.embedder import MissingModelError
from vaultmem.storage.semantic.vectors import pack_names
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.storage.index.snapshot import Snapshot


#: Maximum words of a passage; longer passages dilute the embedding.
_WORDS = 120

#: Maximum passages of one section, to bound the time for a huge table.
_MAX_PASSAGES = 40

#: A word: two characters of a script without spaces, or sixteen of any other.
_WORD = re.compile(r"[\u2e80-\ud7ff]{1,2}|[^\s\u2e80-\ud7ff]{1,16}")


def make_passages(record: NoteRecord, section: SectionRecord, text: str) -> list[str]:
    """Return the passages of a section, each with the note's title and headings first."""
    head = render_head(record, section)
    return [f"{head}\n{passage}".strip() for passage in split_passages(text)]


def render_head(record: NoteRecord, section: SectionRecord) -> str:
    """Return the context of a passage for the model: title and headings, one on each line."""
    names = dict.fromkeys((record.title, *section.parents, section.heading))
    return "\n".join(name for name in names if name)


def split_passages(text: str) -> list[str]:
    """Return a text in parts of even length, 120 words at most; one part if it is empty."""
    words = list(_WORD.finditer(text))
    count = min(math.ceil(len(words) / _WORDS), _MAX_PASSAGES)
    if count <= 1:
        return [text.strip()]
    words = words[: count * _WORDS]
    cuts = [len(words) * part // count for part in range(count + 1)]
    return [text[words[first].start() : words[last - 1].end()] for first, last in pairwise(cuts)]


#: Documents to read in one batch.
_DOCUMENTS = 200

#: Minimum share, and minimum number, of vectors of missing notes before they are dropped.
_GARBAGE = 0.25
_MIN_GARBAGE = 1_000

#: Seconds to wait after a model failed, for callers with idle time only.
_RETRY_SECONDS = 60.0


class EmbedResult(NamedTuple):
    """The model, the numbers of embedded and of all sections, and of those added now."""

    model: str
    embedded: int
    sections: int
    added: int
    seconds: float


def embed_pending(vault: Vault, seconds: float) -> EmbedResult | None:
    """Embed missing sections for about `seconds`, if the vault's settings name a model.

    This is for idle time, such as a watcher's, and never retries. Returns None if no model is named
    or it cannot be used. A failed model is then not used for a minute. The index must be up to
    date.
    """
    if vault.config.semantic == "off":
        return None
    try:
        meaning = open_meaning(vault, vault.config.semantic)
        if time.monotonic() < meaning.resting_until:
            return None
        return embed_sections(vault, meaning, seconds, patient=False)
    except MissingModelError:
        return None
    except VaultError:
        meaning.resting_until = time.monotonic() + _RETRY_SECONDS
        return None


@retries_after_rebuild
def embed_sections(
    vault: Vault,
    meaning: EmbeddingIndex,
    seconds: float | None = None,
    progress: Progress | None = None,
    patient: bool = True,
) -> EmbedResult:
    """Embed the sections of the vault's view that have no vectors, within `seconds`.

    At least one batch is done. `patient` is as for `Embedder.embed`. The index must be up to date.

    Raises:
        VaultError: the model cannot be used; finished batches are kept.
    """
    started = time.monotonic()
    snapshot = vault.index.snapshot()
    placement = meaning.place(vault, snapshot)
    state = (snapshot, placement.stored.version, vault.view.key())
    if meaning.finished is not None and meaning.finished[0] == state:
        return EmbedResult(meaning.embedder.name, *meaning.finished[1], 0, 0.0)
    view_mask = _rows_in_view(vault, snapshot)
    missing_mask = view_mask & (placement.groups < 0)
    before, total = int((view_mask & ~missing_mask).sum()), int(view_mask.sum())
    embedded_count = 0
    for names, texts, count in _batches(vault, snapshot, missing_mask, meaning.embedder.batch):
        meaning.store.append(pack_names(*names), meaning.embedder.embed(texts, patient))
        embedded_count += count
        if progress is not None:
            progress(before + embedded_count, total)
        if seconds is not None and time.monotonic() - started >= seconds:
            break
    if embedded_count:
        drop_garbage(vault, meaning)
    placement = meaning.place(vault, snapshot)
    embedded = int((view_mask & (placement.groups >= 0)).sum())
    if embedded == total:
        meaning.finished = ((snapshot, placement.stored.version, state[2]), (embedded, total))
    spent = time.monotonic() - started
    return EmbedResult(meaning.embedder.name, embedded, total, embedded - before, spent)


def drop_garbage(vault: Vault, meaning: EmbeddingIndex) -> int:
    """Drop the vectors of missing documents, if there are many; return how many were dropped."""
    stored = meaning.store.read()
    blobs = {blob for _, blob in vault.manifest.list_readable()}
    limit = max(_MIN_GARBAGE, int(_GARBAGE * len(stored.keys)))
    return meaning.store.retain_only(blobs, limit)


def find_embeddable(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Return a mask of the sections that a model may get: all except quarantined ones."""
    may: NDArray[np.bool_] = snapshot.column("state") != STATES.index(NoteState.QUARANTINED)
    return may


def _rows_in_view(vault: Vault, snapshot: Snapshot) -> NDArray[np.bool_]:
    import numpy as np

    documents = np.asarray(vault.view.documents(), np.int64)
    return np.isin(snapshot.column("document"), documents) & find_embeddable(snapshot)


def _batches(
    vault: Vault, snapshot: Snapshot, missing: NDArray[np.bool_], size: int
) -> Iterator[tuple[tuple[list[str], list[int]], list[str], int]]:
    """Yield (blobs, ordinals) of passages, the passages, and their number of sections.

    All passages of a section are in one batch. A section shared by several notes is included once.
    """
    blobs: list[str] = []
    ordinals: list[int] = []
    texts: list[str] = []
    seen: set[tuple[str, int]] = set()
    count = 0
    for blob, ordinal, passages in _read_passages(vault, snapshot, missing):
        count += 1
        if (blob, ordinal) not in seen:
            seen.add((blob, ordinal))
            blobs.extend([blob] * len(passages))
            ordinals.extend([ordinal] * len(passages))
            texts.extend(passages)
        if len(texts) >= size:
            yield (blobs, ordinals), texts, count
            blobs, ordinals, texts, count = [], [], [], 0
    if texts:
        yield (blobs, ordinals), texts, count


def _read_passages(
    vault: Vault, snapshot: Snapshot, missing: NDArray[np.bool_]
) -> Iterator[tuple[str, int, list[str]]]:
    import numpy as np

    documents, ordinals = snapshot.column("document")[missing], snapshot.column("ordinal")[missing]
    keys = set(zip(documents.tolist(), ordinals.tolist(), strict=True))
    distinct = np.unique(documents).tolist()
    for start in range(0, len(distinct), _DOCUMENTS):
        part = distinct[start : start + _DOCUMENTS]
        records = vault.view.records_of(part)
        places = [
            (records[key[0]], section)
            for key, section in sorted(vault.view.sections_of(part).items())
            if key in keys and key[0] in records
        ]
        for record, section, text in read_sections(vault, places):
            yield record.blob, section.ordinal, make_passages(record, section, text)


# Score sections by embedding similarity, for recall.

#: Maximum seconds that a query waits for new vectors. Later queries compute the rest.
_MAX_QUERY_WAIT_SECONDS = 10.0


@dataclass
class DenseScorer:
    """Scores sections by embedding similarity to a query.

    `weight` is the weight of the lexical score. After a query, `problem` is why only the lexical
    score could be used, or "". `embedded` is how many of the eligible `sections` have vectors.
    """

    vault: Vault
    meaning: EmbeddingIndex
    problem: str = ""
    embedded: int = 0
    sections: int = 0

    @property
    def weight(self) -> float:
        """The weight of the lexical score that suits the model best."""
        return self.meaning.embedder.weight

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a score for each section of the snapshot, NaN if it has no vector."""
        import numpy as np

        try:
            placement = self.meaning.place(self.vault, snapshot)
            embeddable = eligible & find_embeddable(snapshot)
            self.sections = int(np.count_nonzero(embeddable))
            self.embedded = int(np.count_nonzero(embeddable & (placement.groups >= 0)))
            scores = self.meaning.score(placement, text, eligible)
        except VaultError as error:
            self.problem = str(error)
            return None
        return scores


@dataclass
class DenseScorers:
    """Scorers of several vaults. The model is that of the first."""

    each: Sequence[DenseScorer]

    @property
    def weight(self) -> float:
        """The weight of the lexical score."""
        return self.each[0].weight

    @property
    def meaning(self) -> EmbeddingIndex:
        """The model, with the first vault's vectors."""
        return self.each[0].meaning

    @property
    def problem(self) -> str:
        """The first problem of a scorer, or ""."""
        return next((one.problem for one in self.each if one.problem), "")

    @property
    def embedded(self) -> int:
        """How many of the `sections` have vectors."""
        return sum(one.embedded for one in self.each)

    @property
    def sections(self) -> int:
        """How many sections were eligible."""
        return sum(one.sections for one in self.each)

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a score for each section of the snapshot, by its vault's scorer."""
        scorer = next(
            (candidate for candidate in self.each if candidate.vault.index.snapshot() is snapshot),
            None,
        )
        return scorer(text, eligible, snapshot) if scorer else None


def find_scorer(
    vaults: Sequence[Vault],
    semantic: bool | None = None,
    progress: Progress | None = None,
    *,
    waits: bool = True,
) -> DenseScorer | DenseScorers | None:
    """Return a semantic scorer for some vaults, or None if semantic recall is off.

    All vaults use the first one's model, each with its own vectors. `semantic` is the caller's
    choice, None for the setting in vaultmem.yaml. A quick model first embeds missing sections for
    some seconds; with `waits` false, only one batch. The indexes must be up to date.

    Raises:
        RefusedError: vaultmem.yaml names an unknown model.
        MissingModelError: the model's package, file or setting is missing.
    """
    if semantic is False or (semantic is None and vaults[0].config.semantic == "off"):
        return None
    model = choose_model(vaults[0])
    scorers = [_open_scorer(vault, model, progress, waits) for vault in vaults]
    return scorers[0] if len(scorers) == 1 else DenseScorers(scorers)


def _open_scorer(vault: Vault, model: str, progress: Progress | None, waits: bool) -> DenseScorer:
    meaning = open_meaning(vault, model)
    if meaning.embedder.is_quick:
        embed_sections(vault, meaning, _MAX_QUERY_WAIT_SECONDS if waits else 0.0, progress)
    return DenseScorer(vault, meaning)
