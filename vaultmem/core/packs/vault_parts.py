"""A pack over several vaults, and its division into one part for each vault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vaultmem.core.packs.pack_item import PackItem, PackSource, plain_label
from vaultmem.core.packs.pack_text import Pack, PackUsage, choose_form, render_stable_account
from vaultmem.core.search.query import Hit
from vaultmem.core.text.display import format_names

#: Maximum other vaults that a pack names, and vaults whose pinned sections it includes.
MAX_NAMED_VAULTS = 12


def label_vaults(names: Sequence[str]) -> str:
    """Return the names of vaults for a pack; of many, only the first."""
    return format_names([plain_label(name) for name in names], MAX_NAMED_VAULTS)


def describe_missing(missing: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines that list the vaults missing in a pack, one for each reason.

    `missing` maps a vault's name to the reason.
    """
    names: dict[str, list[str]] = {}
    for name, reason in missing.items():
        names.setdefault(reason, []).append(name)
    return tuple(
        f"Not asked: {label_vaults(vaults)} ({plain_label(reason)})."
        for reason, vaults in names.items()
    )


def group_by_vault(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Return hits by vault name, in their order."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.vault, []).append(hit)
    return groups


def split_pack(pack: Pack, names: Sequence[str]) -> dict[str, Pack]:
    """Return the part of a pack for each vault with sections, always for the first.

    A part has no text until `build_vault_part`.
    """
    if len(names) == 1:
        return {names[0]: pack}
    vaults = {item.hit.vault for item in pack.items} | {hit.vault for hit in pack.omitted_pins}
    return {name: _extract_part(pack, name) for name in names if name == names[0] or name in vaults}


def _extract_part(pack: Pack, name: str) -> Pack:
    items = tuple(
        item._replace(hit=item.hit._replace(vault=""))
        for item in pack.items
        if item.hit.vault == name
    )
    omitted_pins = tuple(hit._replace(vault="") for hit in pack.omitted_pins if hit.vault == name)
    return pack._replace(
        text="", items=items, omitted_pins=omitted_pins, unlisted_pin_count=0, omitted=()
    )


def build_vault_part(part: Pack, many: int, source: PackSource, flat: int) -> Pack:
    """Return one vault's part of a pack over `many` vaults, as a pack of its own.

    `source` is that vault's source, `flat` the tokens of all its notes.
    """
    if many == 1:
        return part
    notices = (f"This is what a pack over {many} vaults showed of this one.",)
    form = choose_form(source, part.style, part.labels)
    account = _account(part.items, part.account.budget, flat)
    text, account = render_stable_account(
        part.items, part.omitted_pins, 0, source, account, form, notices
    )
    return part._replace(text=text, account=account, source=source, notices=notices)


def _account(items: Sequence[PackItem], budget: int, flat: int) -> PackUsage:
    pinned = sum(item.pinned for item in items)
    return PackUsage(pinned, len(items) - pinned, 0, budget, flat)
