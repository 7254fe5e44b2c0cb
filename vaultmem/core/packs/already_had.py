"""What of a section a session has had: its sentences, list items and lines, by a digest each."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.packs.passages import Unit, divide_text, render_passages

#: Bytes of a digest: one of a session's few thousand units is not taken for another.
_BYTES = 8


def name_shown(item: PackItem) -> list[str]:
    """Return the digests of what is shown of a section.

    They are of this version of it: a section that was changed anywhere is new throughout.
    """
    return [name for name, _ in _list_units(item)]


def leave_out_had(item: PackItem, had: Collection[str]) -> PackItem | None:
    """Return what is shown of a section without what a session has had, None if that is all."""
    units = list(_list_units(item))
    new = [unit for name, unit in units if name not in had]
    if len(new) == len(units):
        return item
    if not new:
        return None
    parts = tuple(sorted({span for unit in new for span in (unit.span, *unit.needs)}))
    text = render_passages(item.hit.text, parts)
    return item._replace(text=text, shortened=True, parts=parts)


def _list_units(item: PackItem) -> Iterator[tuple[str, Unit]]:
    text, record = item.hit.text, item.hit.record
    shown = item.parts if item.shortened else ((0, len(text)),)
    version = hashlib.blake2b(f"{item.hit.vault}:{record.path}\n{text}".encode("utf-8", "replace"))
    for unit in divide_text(text):
        start, end = unit.span
        if any(first <= start and end <= last for first, last in shown):
            named = version.copy()
            named.update(f"\n{start}-{end}".encode())
            yield named.hexdigest()[: 2 * _BYTES], unit
