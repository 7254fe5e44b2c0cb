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

    `changed` are the differences of the texts.
    """

    item: PackItem
    left: int
    right: int
    changed: list[Passage]

    @property
    def kind(self) -> str:
        """The packs that contain it ("left", "right" or "both"), or "changed"."""
        if not (self.left and self.right):
            return "left" if self.left else "right"
        return "changed" if self.changed else "both"


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
        shared = [row.left for row in self.rows if row.left and row.right]
        return sum(place != rank for place, rank in zip(shared, sorted(shared), strict=True))


class CompareRequest(NamedTuple):
    """The packs to compare; the left one can be that of a receipt."""

    question: str
    receipt: str
    asked: tuple[AskPack, AskPack]

    @property
    def fields(self) -> list[tuple[str, AskPack]]:
        """The settings of both sides, without those of a receipt, which are fixed."""
        return [
            (side, asked)
            for side, asked in zip(_SIDES, self.asked, strict=True)
            if side == "right" or not self.receipt
        ]


def read_wanted(given: QueryParams) -> CompareRequest:
    """Return the comparison that an address requests."""
    question = given.get("q", "")[:1_000]
    both = [
        read_asked(
            QueryParams(
                {
                    "q": question,
                    "budget": given.get(f"{side}_budget", ""),
                    "labels": given.get(f"{side}_labels", ""),
                    **({"links": "1"} if f"{side}_links" in given else {}),
                }
            )
        )._replace(at=given.get(f"{side}_at", "").strip())
        for side in _SIDES
    ]
    return CompareRequest(question, given.get("receipt", ""), (both[0], both[1]))


def collect_comparison(wanted: CompareRequest, other: str, vault: Vault) -> PackComparison:
    """Return two packs side by side."""
    first, second = wanted.asked
    left = _replay(wanted.receipt, vault) if wanted.receipt else _ask(first, other, vault)
    right = _ask(second, other, vault)
    items = ([piece.item for piece in side.pieces] for side in (left, right))
    return PackComparison(left, right, match_items(*items))


def _ask(asked: AskPack, other: str, vault: Vault) -> ComparedPack:
    from vaultmem.services.packs.build import ask_pack

    name = f"as of {asked.at}" if asked.at else "now"
    try:
        page = describe_pack(
            ask_pack(open_asked(vault, other), asked),
            build_link_context(asked.at, vault, embeds=False),
        )
    except VaultError as error:
        return ComparedPack(name, asked.at, [], None, str(error))
    return ComparedPack(name, asked.at, page.pieces, page.answer.pack.account)


def _replay(name: str, vault: Vault) -> ComparedPack:
    from vaultmem.services.packs.receipts import replay_receipt

    replay = replay_receipt(vault, name)
    receipt = replay.receipt
    who = receipt.agent or "a person"
    label = f"shown to {who} on {receipt.time[:10]}"
    return ComparedPack(
        label, receipt.source.commit, describe_replay(vault, replay), receipt.account
    )


def match_items(left: Sequence[PackItem], right: Sequence[PackItem]) -> list[Row]:
    """Return the sections of two packs in the order of the right one.

    A section that is only in the left pack comes after the section that precedes it there.
    """
    ours, theirs = _name(left), _name(right)
    places = {key: place for place, key in enumerate(theirs, 1)}
    rows = [
        _make_row(key, place, ours, item) for place, (key, item) in enumerate(theirs.items(), 1)
    ]
    before = 0
    for place, (key, item) in enumerate(ours.items(), 1):
        if key in places:
            before = next(n for n, row in enumerate(rows, 1) if row.right == places[key])
        else:
            rows.insert(before, Row(item, place, 0, []))
            before += 1
    return rows


def _make_row(
    key: tuple[str, str, int],
    place: int,
    ours: dict[tuple[str, str, int], PackItem],
    item: PackItem,
) -> Row:
    if key not in ours:
        return Row(item, 0, place, [])
    diff, _, _ = diff_text(f"{ours[key].text}\n", f"{item.text}\n")
    return Row(item, list(ours).index(key) + 1, place, mark_diff(diff))


def _name(items: Iterable[PackItem]) -> dict[tuple[str, str, int], PackItem]:
    """Return sections by path, heading, and number among those of the same name."""
    named: dict[tuple[str, str, int], PackItem] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        name = (item.hit.record.path, item.hit.section.heading)
        named[(*name, seen[name])] = item
        seen[name] += 1
    return named


@answers
async def show_comparison(request: Request) -> Response:
    """Show two packs side by side."""
    wanted = read_wanted(request.query_params)
    other = request.query_params.get("vault", "")
    frame, found = await read(request, partial(collect_comparison, wanted, other))
    return render_page(request, "compare.html", vault=frame, wanted=wanted, found=found)
