"""A model and its vectors for one vault, mapped to the sections of the index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.search.ranking import FEEDBACK, best_groups, best_of_each, move_towards
from vaultmem.errors import RefusedError
from vaultmem.storage.semantic.embedder import Embedder
from vaultmem.storage.semantic.vectors import SectionVectors, VectorStore, make_keys, pack_names
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.storage.index.snapshot import Snapshot

#: Values of `semantic` in vaultmem.yaml, except "off".
MODELS = ("static", "onnx", "endpoint")


class Placement(NamedTuple):
    """The vectors of each section of a snapshot.

    `order` and `starts` group the vectors by section (see `best_of_each`). `groups` is the group of
    each section of the snapshot, -1 if it has no vector (shape: sections).
    """

    stored: SectionVectors
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    groups: NDArray[np.int64]

    def best_vector(self, similarities: NDArray[np.float32], group: int) -> int:
        """Return the index of the most similar vector of a group."""
        ends = self.starts[group + 1 : group + 2]
        rows = self.order[self.starts[group] : (int(ends[0]) if len(ends) else None)]
        return int(rows[similarities[rows].argmax()])


class EmbeddingIndex:
    """A model and a vector store, opened once for many queries."""

    def __init__(self, embedder: Embedder, store: VectorStore) -> None:
        self.embedder = embedder
        self.store = store
        #: Monotonic time until which a failed model is not used.
        self.resting_until = 0.0
        self._placed: tuple[Snapshot, Placement] | None = None
        #: State in which all sections of a view had vectors, and the counts (embedded, total).
        self.finished: tuple[tuple[object, ...], tuple[int, int]] | None = None

    def place(self, vault: Vault, snapshot: Snapshot) -> Placement:
        """Return the placement of vectors, cached until the snapshot or the vectors change."""
        stored = self.store.read()
        cache_entry = self._placed
        if (
            cache_entry is not None
            and cache_entry[0] is snapshot
            and cache_entry[1].stored is stored
        ):
            return cache_entry[1]
        placement = _place(vault, snapshot, stored)
        self._placed = (snapshot, placement)
        return placement

    def score(
        self, placement: Placement, text: str, eligible: NDArray[np.bool_]
    ) -> NDArray[np.float32] | None:
        """Return the similarity of a text and each section, NaN if it has no vector.

        A section's similarity is that of its best passage. The query vector is used twice:
        unchanged, and moved towards the nearest eligible sections. Returns None if no eligible
        section has a vector, or if the text has no words.

        Raises:
            VaultError: the model cannot be used now.
        """
        import numpy as np

        mask = (placement.groups >= 0) & eligible
        if not mask.any():
            return None
        query_vector = self.embedder.embed([text], patient=False)[0]
        if len(query_vector) != placement.stored.vectors.shape[1] or not query_vector.any():
            return None
        similarities = placement.stored.vectors @ query_vector
        best = best_of_each(similarities, placement.order, placement.starts)
        eligible_best = np.full(len(best), -np.inf, np.float32)
        eligible_best[placement.groups[mask]] = best[placement.groups[mask]]
        nearest = [
            placement.best_vector(similarities, group)
            for group in best_groups(eligible_best, FEEDBACK)
        ]
        similarities = placement.stored.vectors @ move_towards(
            query_vector, placement.stored.vectors[nearest]
        )
        best = best_of_each(similarities, placement.order, placement.starts)
        scores: NDArray[np.float32] = np.where(mask, best[placement.groups], np.float32(np.nan))
        return scores


def choose_model(vault: Vault, model: str = "") -> str:
    """Return the named model, else that of vaultmem.yaml, else "static", which needs no waiting."""
    configured = vault.config.semantic
    return model or ("static" if configured == "off" else configured)


def open_meaning(vault: Vault, kind: str) -> EmbeddingIndex:
    """Return a model by its name in vaultmem.yaml with the vault's vectors; opened once.

    Raises:
        RefusedError: there is no model of that name.
        MissingModelError: its package, file or setting is missing.
    """
    if kind not in MODELS:
        raise RefusedError(
            f'"{kind}" is not a semantic model; use {", ".join(MODELS)}, or off in vaultmem.yaml'
        )
    settings = tuple(
        sorted((k, v) for k, v in vault.environment.items() if k.startswith("VAULTMEM_EMBEDDING_"))
    )
    return _open(vault.state_folder, kind, settings if kind != "static" else ())


@lru_cache(maxsize=8)
def _open(
    state_folder: Path, kind: str, environment: tuple[tuple[str, str], ...]
) -> EmbeddingIndex:
    embedder = load_embedder(kind, dict(environment))
    return EmbeddingIndex(embedder, VectorStore(state_folder / "vectors", embedder.name))


def load_embedder(kind: str, environment: Mapping[str, str]) -> Embedder:
    """Return a model. Only the environment decides which file or endpoint is used.

    A vault cannot decide: its sender could choose the opened file or the receiver of the notes.

    Raises:
        MissingModelError: its package, file or setting is missing.
    """
    if kind == "static":
        from vaultmem.storage.semantic.local_models import StaticEmbedder

        return StaticEmbedder()
    if kind == "onnx":
        from vaultmem.storage.semantic.local_models import OnnxEmbedder

        folder = environment.get("VAULTMEM_EMBEDDING_FOLDER", "")
        return OnnxEmbedder(Path(folder) if folder else None)
    from vaultmem.storage.semantic.embedder import EndpointEmbedder, read_endpoint

    return EndpointEmbedder(read_endpoint(environment))


def _place(vault: Vault, snapshot: Snapshot, stored: SectionVectors) -> Placement:
    import numpy as np

    order = np.argsort(stored.keys, kind="stable").astype(np.int64)
    sorted_keys = stored.keys[order]
    starts = np.flatnonzero(np.diff(sorted_keys, prepend=sorted_keys[:1] + np.uint64(1))).astype(
        np.int64
    )
    keys = sorted_keys[starts]
    section_keys = _section_keys(vault, snapshot)
    places = np.searchsorted(keys, section_keys)
    groups = np.full(len(section_keys), -1, np.int64)
    in_range = places < len(keys)
    hit = np.zeros(len(section_keys), np.bool_)
    hit[in_range] = keys[places[in_range]] == section_keys[in_range]
    groups[hit] = places[hit]
    return Placement(stored, order, starts, groups)


def _section_keys(vault: Vault, snapshot: Snapshot) -> NDArray[np.uint64]:
    """Return the key of each section of a snapshot; unknown documents get an unused key."""
    import numpy as np

    documents = snapshot.column("document")
    readable_documents = vault.manifest.list_readable()
    blobs = np.zeros(
        (max(int(documents.max(initial=0)), *readable_documents.values(), 0) + 1, 24), np.uint8
    )
    numbers = list(readable_documents.values())
    names = [blob for _, blob in readable_documents]
    blobs[numbers] = pack_names(names, [0] * len(names))
    rows = blobs[documents]
    rows[:, 20:] = snapshot.column("ordinal").astype("<u4").reshape(-1, 1).view(np.uint8)
    return make_keys(rows)
