"""Which memories have to be checked before they are used: old claims about what may change.

"The tests cannot run here" was true on one machine on one day, and "the API does not support tool
calls" of one version. Such a claim is one of kind `working_context`, one with the tag
`environment`, or a fact, trace, reflection or skill with a sentence that `core.claims` finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from vaultmem.core.counting import count_things
from vaultmem.core.finding.hit import Hit
from vaultmem.core.lifecycle import Kind
from vaultmem.core.notes.record import DOUBT, has_tag
from vaultmem.core.notes.values import read_timestamp
from vaultmem.core.packs.excerpt import choose_excerpt

#: Days after which such a claim is old.
OLD_DAYS = 60

_KINDS = frozenset(
    {Kind.SEMANTIC_FACT, Kind.EPISODIC_TRACE, Kind.REFLECTION, Kind.PROCEDURAL_SKILL}
)

#: Reference material has a version of its own, and is no memory.
_REFERENCE = "primed/"


def quote_claim(hit: Hit) -> str:
    """Return the sentence of a section that may not be so any more, "" where there is none."""
    record = hit.record
    if record.path.startswith(_REFERENCE):
        return ""
    if record.kind == Kind.WORKING_CONTEXT or has_tag(record.tags, "environment"):
        return choose_excerpt(hit.text, ()) or record.title
    if record.kind not in _KINDS:
        return ""
    from vaultmem.core.claims import find_claim  # Its tables take longer to read than most asks.

    claim = find_claim(f"{record.title}\n{hit.text}")
    return choose_excerpt(claim, ()) if claim else ""


def shorten_caution(hit: Hit) -> str:
    """Return a section's caution as a pack has it: why a note is in doubt, its file can tell."""
    is_doubtful = hit.caution.startswith(DOUBT)
    return DOUBT.rstrip(": ") if is_doubtful else hit.caution


def find_caution(hit: Hit, at: float, changed_refs: Sequence[str]) -> str:
    """Return what is to be said wherever a section is shown, "" for nothing.

    `at` is what counts as now in seconds since the epoch, `changed_refs` what the note rests on
    and what changed after it was written.
    """
    record = hit.record
    if record.caution != record.conflict:
        return record.caution
    check = _check_claim(hit, at, changed_refs)
    return "; ".join(filter(None, (record.conflict, record.shortened, check)))


def _check_claim(hit: Hit, at: float, changed_refs: Sequence[str]) -> str:
    """Return why a claim has to be checked before use, "" if it has not."""
    days = int((at - written_at(hit)) // 86_400)
    if not (changed_refs or days > OLD_DAYS) or not quote_claim(hit):
        return ""
    if changed_refs:
        more = f" and {len(changed_refs) - 1} more" if len(changed_refs) > 1 else ""
        return f"check before use: {changed_refs[0]}{more} changed since"
    return f"check before use: {count_things(days, 'day')} old"


def written_at(hit: Hit) -> float:
    """Return when a section's note was written (seconds since the epoch)."""
    at = read_timestamp(hit.record.updated or hit.record.created)
    return hit.record.changed if at is None else at
