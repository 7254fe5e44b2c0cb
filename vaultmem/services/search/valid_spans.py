"""Label the notes that are not valid at a given time, and put them last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from vaultmem.core.search.query import Hit
from vaultmem.core.text.display import one_line
from vaultmem.core.text.timestamps import parse_timestamp
from vaultmem.core.validity import EARLY, EXPIRED, Span, describe_limits, is_invalid, read_day
from vaultmem.errors import PendingError, VaultError
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.core.packs.conflicts import Contradiction, Remarks
    from vaultmem.services.search.vault_set import VaultSet
    from vaultmem.storage.git.code_files import SearchLimit


#: The suffix of a `valid_until` that depends on a change of code.
_CHANGES = " changes"


def has_limits(hits: Sequence[Hit]) -> bool:
    """Return whether a note of the hits has a `valid_from` or `valid_until`."""
    return any(hit.record.valid_from or hit.record.valid_until for hit in hits)


def span_of(at: float) -> Span:
    """Return the day of a time in seconds since the epoch."""
    day = datetime.fromtimestamp(int(at)).date()
    return _make_span(day)


def _make_span(day: date) -> Span:
    return Span(day, day if day == date.max else day + timedelta(days=1))


def find_span(vaults: VaultSet, as_of: date | None) -> Span:
    """Return the day in question, or else the day of the viewed commit, or else today."""
    return _make_span(as_of) if as_of else span_of(vaults.viewed_at)


def parse_day(text: str) -> date:
    """Return the day that `--as-of` names.

    Raises:
        RefusedError: the text is not a date.
    """
    return datetime.fromtimestamp(int(parse_timestamp(text))).date()


def order_valid(vaults: VaultSet, hits: Sequence[Hit], on: Span) -> list[Hit]:
    """Return hits in which those not valid at that time are last and labelled.

    Notes that were written later and have no `valid_from` come just before these.
    """
    if not has_limits(hits):
        return list(hits)
    labelled_hits = vaults.change(hits, label_hits, on)
    return sorted(labelled_hits, key=lambda hit: _rank(hit, on))


def _rank(hit: Hit, on: Span) -> int:
    if is_invalid(hit.caution):
        return 2
    created = read_day(hit.record.created[:10]) if hit.record.created else None
    is_later = created is not None and on.end is not None and created >= on.end
    return int(is_later and not hit.record.valid_from)


def store_valid_relations(remarks: Remarks, hits: Sequence[Hit]) -> list[Contradiction]:
    """Return the contradictions between valid notes: an expired note contradicts no other."""
    invalid = {hit.note for hit in hits if is_invalid(hit.caution)}
    return [each for each in remarks.relations if invalid.isdisjoint((each.first, each.second))]


def label_hits(vault: Vault, hits: Sequence[Hit], on: Span) -> list[Hit]:
    """Return hits with a label on those that are not valid at a time."""
    limit = None
    if any(hit.record.valid_until.endswith(_CHANGES) for hit in hits):
        from vaultmem.services.anchors.check import limit_query

        limit = limit_query()
    labels = [hit.caution or describe_validity(vault, hit.record, on, limit) for hit in hits]
    return [hit._replace(caution=label) for hit, label in zip(hits, labels, strict=True)]


def describe_validity(
    vault: Vault, record: NoteRecord, on: Span, limit: SearchLimit | None = None
) -> str:
    """Return a label for a note that is expired or not valid yet, or else "".

    `limit` is that of `check_anchors`, for a note that ends when code changes.
    """
    if not (record.valid_from or record.valid_until):
        return ""
    start = find_day(vault, record.valid_from)
    if record.valid_from and start is None and is_reference(record.valid_from):
        return f"{EARLY}{record.valid_from}"
    if record.valid_until.endswith(_CHANGES):
        return _describe_change(vault, record, start, on, limit)
    return describe_limits(start, find_day(vault, record.valid_until), on)


def _describe_change(
    vault: Vault, record: NoteRecord, start: date | None, on: Span, limit: SearchLimit | None
) -> str:
    """Return a label if the code has changed that ends a note's validity, or else "".

    An edit without a commit counts from today on.
    """
    from vaultmem.core.anchors import AnchorCheck, AnchorStatus, parse_change
    from vaultmem.services.anchors.check import check_anchors, cited_by, find_change

    anchor = parse_change(record.valid_until)
    if anchor is None:
        return describe_limits(start, None, on)
    cited = cited_by(record, anchor)
    (anchor_check,) = check_anchors(vault, [cited], limit)
    check = anchor_check or AnchorCheck(anchor, AnchorStatus.UNKNOWN)
    commit = None
    try:
        commit = find_change(vault, cited, limit) if check.is_different else None
    except PendingError:
        check = AnchorCheck(anchor, AnchorStatus.UNKNOWN)
    if check.status is AnchorStatus.UNKNOWN:
        unknown = f"valid until {one_line(anchor.place)} changes: {check.verdict}"
        return describe_limits(start, None, on) or unknown
    if check.is_same:
        return describe_limits(start, None, on)
    end = datetime.fromtimestamp(commit.at if commit else vault.now()).date()
    label = describe_limits(start, end, on)
    if not label.startswith(EXPIRED):
        return label
    change = "removed" if check.status is AnchorStatus.GONE else "changed"
    where = f"in {commit.commit[:10]}" if commit else "in the work tree"
    return f"{label} ({one_line(anchor.place)} {change} {where})"


def is_reference(text: str) -> bool:
    """Return whether a limit names a commit or a tag."""
    return bool(text) and read_day(text) is None and " " not in text


def find_day(vault: Vault, text: str) -> date | None:
    """Return the day of a date, or of a commit or tag that the checked-out commit contains.

    A tag that does not exist yet, or only on another branch, has no day.
    """
    day = read_day(text) if text else None
    if day is not None or not is_reference(text) or text.startswith("-"):
        return day
    head = vault.head()
    if head is None or not head.commit:
        return None
    history = vault.history
    try:
        commit = history.git.run("rev-parse", "--verify", "-q", f"{text}^{{commit}}", check=False)
        if commit and history.refs.is_ancestor(commit, head.commit):
            return datetime.fromtimestamp(history.commit_time(commit)).date()
    except VaultError:
        return None
    return None
