"""Choose what goes into a context pack: pinned first, then what is relevant, within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.packs.conflicts import Remarks
from vaultmem.core.packs.division import group_by_vault, share_room
from vaultmem.core.packs.pack_item import LeftWhy, PackLabels, PackSource, PackStyle
from vaultmem.core.packs.pack_text import Pack, PackAccount, choose_form, render_pack, settle_pack
from vaultmem.core.packs.room import Room
from vaultmem.core.preferences.concern import Wishes
from vaultmem.core.token_count import count_tokens
from vaultmem.errors import RefusedError

MIN_BUDGET = 100

#: What a section that does not fit takes of the budget at most, so that another one fits.
_SHORTENED_SHARE = 0.5

#: What sentences about contradictions take of the budget at most.
_MARKS_SHARE = 0.15

#: Tokens that the label of a pinned section is taken to cost, where vaults share the room for them.
_LABEL = 20


def build_pack(
    pinned: Iterable[Hit],
    relevant: Iterable[Hit],
    trusted: frozenset[NoteKey],
    source: PackSource,
    budget: int,
    pinned_share: float,
    flat_tokens: int,
    remarks: Remarks | None = None,
    style: PackStyle = PackStyle.MARKDOWN,
    wishes: Wishes = Wishes(),  # noqa: B008 - immutable.
    labels: PackLabels = PackLabels.SHORT,
) -> Pack:
    """Build a pack of at most `budget` tokens.

    Pinned sections may take `pinned_share` of it; the others are named by link, then counted. A
    relevant section that does not fit is shown by the passages that answer best, or left for a
    shorter one. Sections that contradict each other stand together, what counts more first.
    `trusted` are the notes whose promotion is on record; `flat_tokens` is the whole vault.

    Raises:
        RefusedError: a budget under 100 tokens.
    """
    if budget < MIN_BUDGET:
        raise RefusedError(f"a pack needs a budget of {MIN_BUDGET} tokens or more, not {budget}")
    empty = PackAccount(pinned=0, relevant=0, sent=budget, budget=budget, flat=flat_tokens)
    form = choose_form(source, style, labels)
    remarks = remarks or Remarks()
    frame = count_tokens(render_pack([], [], 0, source, empty, style, told=remarks.told)) + 4
    relevant = list(relevant)
    for_pinned = min(int(budget * pinned_share), budget - frame)
    room = Room(
        left=for_pinned,
        trusted=trusted,
        remarks=remarks,
        form=form,
        known={hit.note: hit for hit in reversed(relevant)},
        for_marks=int(budget * _MARKS_SHARE),
    )
    unshown, unnamed = _take_pinned(room, [*pinned])
    room.left += budget - frame - for_pinned
    room.take_wishes(wishes.hits, int(budget * wishes.share))
    room.take_relevant(relevant, int(budget * _SHORTENED_SHARE))
    items = room.items
    while True:
        count = sum(item.pinned for item in items)
        account = PackAccount(
            pinned=count, relevant=len(items) - count, sent=0, budget=budget, flat=flat_tokens
        )
        arranged = room.arrange(items)
        text, account = settle_pack(arranged, unshown, unnamed, source, account, form, remarks.told)
        if account.sent <= budget or not (items or unshown):
            return Pack(
                text=text,
                items=tuple(arranged),
                unshown=tuple(unshown),
                unnamed=unnamed,
                account=account,
                source=source,
                style=style,
                pinned_tokens=room.pinned_tokens,
                labels=labels,
                told=remarks.told,
                left_out=room.list_left_out(arranged),
            )
        if items and not items[-1].pinned:
            room.leave_out(items[-1].hit, LeftWhy.ROOM)
            items = items[:-1]
            continue
        unnamed += 1
        if unshown:
            unshown = unshown[:-1]
        else:
            room.leave_out(items[-1].hit, LeftWhy.SHARE)
            items = items[:-1]


def _take_pinned(room: Room, pinned: Sequence[Hit]) -> tuple[list[Hit], int]:
    """Take pinned sections while they fit, each vault's into a share of its own."""
    groups = [*group_by_vault(pinned).values()]
    if len(groups) < 2:
        return room.take_pinned(pinned)
    needs = [sum(count_tokens(hit.text) + _LABEL for hit in group) for group in groups]
    unshown: list[Hit] = []
    unnamed = 0
    spare = room.left - sum(shares := share_room(needs, room.left))
    for group, share in zip(groups, shares, strict=True):
        room.left = share + spare
        named, more = room.take_pinned(group)
        spare = room.left
        unshown += named
        unnamed += more
    room.left = spare
    return unshown, unnamed
