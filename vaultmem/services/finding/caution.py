"""Say of each section that is found why it has to be checked before use, for every front end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.packs.caution import find_caution, written_at
from vaultmem.services.reading.texts import read_text
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.conflict import Otherwise
    from vaultmem.services.finding.links import LinkGraph


def add_cautions(vault: Vault, hits: Sequence[Hit], at: float) -> list[Hit]:
    """Return the hits with what is to be said of each; `at` is what counts as now."""
    changed = _find_changed_refs(vault, hits) if hits else {}
    cautions = [find_caution(hit, at, changed.get(hit.record.document, ())) for hit in hits]
    return [
        hit._replace(caution=caution, otherwise=_find_otherwise(vault, hit)) if caution else hit
        for hit, caution in zip(hits, cautions, strict=True)
    ]


def _find_otherwise(vault: Vault, hit: Hit) -> tuple[Otherwise, ...]:
    """Return what another side of a merge says in place of words of a section."""
    if not hit.record.conflict or hit.record.caution != hit.record.conflict:
        return ()
    from vaultmem.core.notes.note import parse_note

    text = read_text(vault, hit.record.path, hit.record.blob) or ""
    note = parse_note(PurePosixPath(hit.record.path), text.encode("utf-8", "surrogatepass"))
    return note.otherwise.get(hit.section.ordinal, ())


def _find_changed_refs(vault: Vault, hits: Sequence[Hit]) -> dict[int, list[str]]:
    """Return, by document, the vault's files that a note rests on and that changed after it."""
    documents = {hit.record.document: hit for hit in hits}
    found: dict[int, list[str]] = {}
    graph: LinkGraph | None = None
    for document, links in LinkStore(vault.state).refs(documents).items():
        for link in links:
            hit = documents[document]
            path: str | None = link.path
            if link.kind != "path":
                graph = graph or _open_graph(vault)
                path = graph.names.find(link, hit.record.path)
            since = max(written_at(hit), hit.record.changed)
            if path and (vault.view.changed_at(path) or 0) > since:
                found.setdefault(document, []).append(path)
    return found


def _open_graph(vault: Vault) -> LinkGraph:
    from vaultmem.services.finding.links import LinkGraph

    return LinkGraph(vault)
