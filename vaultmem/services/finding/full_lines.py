"""Find the sentence that answers in the full text of a note that compaction shortened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import count_terms
from vaultmem.core.packs.excerpt import choose_sentence
from vaultmem.errors import VaultError
from vaultmem.services.reading.shortened import read_full_note
from vaultmem.vault import Vault


def add_full_lines(vault: Vault, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, each with the sentence of its full text that its own text lacks."""
    return [hit._replace(full_line=_find_line(vault, hit)) for hit in hits]


def _find_line(vault: Vault, hit: Hit) -> str:
    """Return the sentence with most of the terms, "" where the hit's text has them all."""
    if not hit.record.full_text:
        return ""
    lacking = {match.term for match in hit.matches if "body" in match.fields}
    lacking -= count_terms(hit.text).keys()
    if not lacking:
        return ""
    try:
        whole = read_full_note(vault, PurePosixPath(hit.record.path), hit.record.full_text)
    except VaultError:  # A shallow clone may lack it.
        return ""
    line = choose_sentence(whole.visible_body, [match.term for match in hit.matches])
    return line if lacking.intersection(count_terms(line)) else ""
