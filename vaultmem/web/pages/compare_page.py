"""Two packs side by side: sections of only one, moved sections, and changed texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.changes import diff_text
from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.packs.pack_text import PackUsage
from vaultmem.core.text.line_diff import Passage, mark_diff
from vaultmem.errors import VaultError
from vaultmem.services.packs.build import AskPack
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, open_asked, read
from vaultmem.web.pages.pack_page import PackPiece, describe_pack, describe_replay, read_asked
from vaultmem.web.rendering import build_link_context, render_page

_SIDES = ("left", "right")


class ComparedPack(NamedTuple):
    """A pack: its label, its pieces in order, and their cost.

    `problem` is the error if there is no pack.
    """

    name: str
    at: str
    pieces: list[PackPiece]
    account: PackUsage | None
    problem: str = ""


class Row(NamedTuple):
    """A section in either pack or both, with its positions (1-based, 0 if missing).

    `differences` are those of the texts.
    """

    item: PackItem
    left: int
    right: int
    differences: list[Passage]

    @property
    def kind(self) -> str:
        """The packs that contain it ("left", "right" or "both"), or "changed"."""
        if not (self.left and self.right):
            return "left" if self.left else "right"
        return "changed" if self.differences else "both"


class PackComparison(NamedTuple):
    """Two packs, and their sections in the order of the right one."""

    left: ComparedPack
    right: ComparedPack
    rows: list[Row]

    def get_piece(self, row: Row) -> PackPiece:
        """Return the section of a row from the right pack, or else from the left one."""
        return self.right.pieces[row.right - 1] if row.right else self.left.pieces[row.left - 1]

    @property
    def counts(self) -> Counter[str]:
        """The number of sections of each kind."""
        return Counter(row.kind for row in self.rows)

    @property
    def moved(self) -> int:
        """The number of sections in both packs whose order differs."""
        left_positions = [row.left for row in self.rows if row.left and row.right]
        return sum(
            position != rank
            for position, rank in zip(left_positions, sorted(left_positions), strict=True)
        )


class CompareRequest(NamedTuple):
    """The packs to compare; the left one can be that of a receipt."""

    question: str
    receipt: str
    pack_requests: tuple[AskPack, AskPack]

    @property
    def fields(self) -> list[tuple[str, AskPack]]:
        """The settings of both sides, without those of a receipt, which are fixed."""
        return [
            (side, pack_request)
            for side, pack_request in zip(_SIDES, self.pack_requests, strict=True)
            if side == "right" or not self.receipt
        ]


def read_wanted(params: QueryParams) -> CompareRequest:
    """Return the comparison that an address requests."""
    question = params.get("q", "")[:1_000]
    pack_requests = [
        read_asked(
            QueryParams(
                {
                    "q": question,
                    "budget": params.get(f"{side}_budget", ""),
                    "labels": params.get(f"{side}_labels", ""),
                    **({"links": "1"} if f"{side}_links" in params else {}),
                }
            )
        )._replace(at=params.get(f"{side}_at", "").strip())
        for side in _SIDES
    ]
    return CompareRequest(question, params.get("receipt", ""), (pack_requests[0], pack_requests[1]))


def collect_comparison(compare_request: CompareRequest, other: str, vault: Vault) -> PackComparison:
    """Return two packs side by side."""
    first, second = compare_request.pack_requests
    left = (
        _replay(compare_request.receipt, vault)
        if compare_request.receipt
        else _ask(first, other, vault)
    )
    right = _ask(second, other, vault)
    items = ([piece.item for piece in side.pieces] for side in (left, right))
    return PackComparison(left, right, match_items(*items))


def _ask(pack_request: AskPack, other: str, vault: Vault) -> ComparedPack:
    from vaultmem.services.packs.build import ask_pack

    name = f"as of {pack_request.at}" if pack_request.at else "now"
    try:
        page = describe_pack(
            ask_pack(open_asked(vault, other), pack_request),
            build_link_context(pack_request.at, vault, embeds=False),
        )
    except VaultError as error:
        return ComparedPack(name, pack_request.at, [], None, str(error))
    return ComparedPack(name, pack_request.at, page.pieces, page.answer.pack.account)


def _replay(name: str, vault: Vault) -> ComparedPack:
    from vaultmem.services.packs.receipts import replay_receipt

    replay = replay_receipt(vault, name)
    receipt = replay.receipt
    agent = receipt.agent or "a person"
    label = f"shown to {agent} on {receipt.time[:10]}"
    return ComparedPack(
        label, receipt.source.commit, describe_replay(vault, replay), receipt.account
    )


def match_items(left: Sequence[PackItem], right: Sequence[PackItem]) -> list[Row]:
    """Return the sections of two packs in the order of the right one.

    A section that is only in the left pack comes after the section that precedes it there.
    """
    left_items, right_items = _name(left), _name(right)
    positions = {key: position for position, key in enumerate(right_items, 1)}
    rows = [
        _make_row(key, position, left_items, item)
        for position, (key, item) in enumerate(right_items.items(), 1)
    ]
    index = 0
    for position, (key, item) in enumerate(left_items.items(), 1):
        if key in positions:
            index = next(n for n, row in enumerate(rows, 1) if row.right == positions[key])
        else:
            rows.insert(index, Row(item, position, 0, []))
            index += 1
    return rows


def _make_row(
    key: tuple[str, str, int],
    position: int,
    left_items: dict[tuple[str, str, int], PackItem],
    item: PackItem,
) -> Row:
    if key not in left_items:
        return Row(item, 0, position, [])
    diff, _, _ = diff_text(f"{left_items[key].text}\n", f"{item.text}\n")
    return Row(item, list(left_items).index(key) + 1, position, mark_diff(diff))


def _name(items: Iterable[PackItem]) -> dict[tuple[str, str, int], PackItem]:
    """Return sections by path, heading, and number among those of the same name."""
    named_items: dict[tuple[str, str, int], PackItem] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for item in items:
        name = (item.hit.record.path, item.hit.section.heading)
        named_items[(*name, counts[name])] = item
        counts[name] += 1
    return named_items


@answers
async def show_comparison(request: Request) -> Response:
    """Show two packs side by side."""
    compare_request = read_wanted(request.query_params)
    other = request.query_params.get("vault", "")
    frame, comparison = await read(request, partial(collect_comparison, compare_request, other))
    return render_page(
        request, "compare.html", vault=frame, wanted=compare_request, found=comparison
    )
