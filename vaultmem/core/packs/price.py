"""What each section of a pack costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vaultmem.core.packs.labels import count_items, group_of
from vaultmem.core.packs.pack_item import PackForm, PackItem
from vaultmem.core.packs.pack_text import Pack, choose_form


def price_pack(pack: Pack) -> list[int]:
    """Return what each section of a pack adds to its tokens, in its order."""
    return price_items(pack.items, choose_form(pack.source, pack.style, pack.labels))


def price_items(items: Iterable[PackItem], form: PackForm) -> list[int]:
    """Return what each section adds to the tokens: one may stand under the label of another."""
    costs: list[int] = []
    run: list[PackItem] = []
    before = 0
    for item in items:
        if run and not _may_share(run, item):
            run, before = [], 0
        run.append(item)
        cost = count_items(run, form)
        costs.append(cost - before)
        before = cost
    return costs


def _may_share(run: Sequence[PackItem], item: PackItem) -> bool:
    return group_of(run[0], ()) == group_of(item, ())
