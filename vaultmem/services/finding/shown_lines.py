"""Find the sentence that shows a note where the section that was found has none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import count_terms
from vaultmem.core.packs.excerpt import choose_sentence, has_sentence
from vaultmem.errors import VaultError
from vaultmem.services.finding.hits import list_sections
from vaultmem.vault import Vault


def add_shown_lines(vault: Vault, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with a sentence of the rest of the note where their own text has none.

    A text that compaction left has none for the terms that only the full text has.
    """
    return [hit._replace(shown_line=_find_line(vault, hit)) for hit in hits]


def _find_line(vault: Vault, hit: Hit) -> str:
    terms = [match.term for match in hit.matches]
    if hit.record.full_text:
        in_body = {match.term for match in hit.matches if "body" in match.fields}
        lacking = in_body - count_terms(hit.text).keys()
        line = choose_sentence(_read_full(vault, hit), terms) if lacking else ""
        return line if lacking.intersection(count_terms(line)) else ""
    if has_sentence(hit.text):
        return ""
    whole = "\n\n".join(each.text for each in list_sections(vault, [hit.record]))
    return choose_sentence(whole, terms) if has_sentence(whole) else ""


def _read_full(vault: Vault, hit: Hit) -> str:
    """Return what people see of a note's full text, "" if it is not here."""
    from vaultmem.services.reading.shortened import read_full_note

    path, full_text = PurePosixPath(hit.record.path), hit.record.full_text
    try:
        return read_full_note(vault, path, full_text).visible_body
    except VaultError:  # A shallow clone may lack it.
        return ""
