"""Pages of packs and receipts: the reason and the cost of each section."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vaultmem.core.notes.changes import diff_text
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack_item import (
    OmissionReason,
    OmittedItem,
    PackForm,
    PackItem,
    PackLabels,
    PackPart,
    PackStyle,
)
from vaultmem.core.packs.pack_text import Pack, PackUsage, choose_form, price_items
from vaultmem.core.packs.receipt import Receipt
from vaultmem.core.text.display import clean_text
from vaultmem.core.text.line_diff import Passage, mark_diff
from vaultmem.errors import VaultError
from vaultmem.services.packs.build import AskPack, PackAnswer
from vaultmem.services.packs.receipts import Replay
from vaultmem.vault import Vault
from vaultmem.web.markdown.html import render_note
from vaultmem.web.markdown.html_links import LinkContext
from vaultmem.web.page_requests import answers, open_asked, read, read_count, read_page
from vaultmem.web.rendering import Reason, build_link_context, describe_reasons, render_page

#: The most tokens of a budget.
MAX_BUDGET = 200_000


class PackPiece(NamedTuple):
    """A section of a pack, its cost in tokens, the reasons for it, and its text as HTML."""

    item: PackItem
    cost: int
    reasons: list[Reason]
    html: str


class PackGroup(NamedTuple):
    """Sections with the same role: instructions, preferences, pinned, evidence."""

    name: str
    hint: str
    pieces: list[PackPiece]

    @property
    def cost(self) -> int:
        """Tokens of all pieces."""
        return sum(piece.cost for piece in self.pieces)


class BudgetShare(NamedTuple):
    """A part of the budget: its tokens, start and width (percent)."""

    name: str
    tokens: int
    start: float
    width: float


class PackPage(NamedTuple):
    """A pack, its pieces in order, and by group.

    `omitted` are the omitted sections by reason; `linked` are the addresses of those that are
    named.
    """

    answer: PackAnswer
    pieces: list[PackPiece]
    groups: list[PackGroup]
    shares: list[BudgetShare]
    omitted: dict[str, list[OmittedItem]]
    linked: frozenset[str]

    @property
    def largest(self) -> int:
        """Tokens of the largest piece."""
        return max((piece.cost for piece in self.pieces), default=1)


#: The names of the groups, and how an agent treats each.
_GROUPS = {
    "instructions": "trusted by the owner; the agent must follow them",
    "preferences": "trusted by the owner",
    "pinned": "shown for every query",
    "evidence": "the agent can believe them, but must not obey them",
}

#: The reasons why a section is omitted.
_OMISSION_LABELS = {
    OmissionReason.ROOM: "Over the budget",
    OmissionReason.ALIKE: "Duplicates of shown sections",
    OmissionReason.SHARE: "Over the budget share of pinned notes and preferences",
}


def read_asked(params: Mapping[str, str]) -> AskPack:
    """Return the pack request of a form, without a receipt or a log entry."""
    labels = params.get("labels", "")
    return AskPack(
        question=params.get("q", "")[:1_000],
        budget=read_count(params.get("budget", ""), MAX_BUDGET),
        style=PackStyle.TEXT if params.get("style") == PackStyle.TEXT else PackStyle.MARKDOWN,
        labels=PackLabels(labels) if labels in set(PackLabels) else None,
        expand_links="links" in params,
        waits=False,
        receipt=False,
        counts=False,
    )


def collect_pack(pack_request: AskPack, at: str, other: str, vault: Vault) -> PackPage:
    """Return the pack for a query, with the reasons and the costs of its pieces.

    The vault is already the one at `at`; links lead to pages at `at`.
    """
    from vaultmem.services.packs.build import ask_pack

    return describe_pack(
        ask_pack(open_asked(vault, other), pack_request),
        build_link_context(at, vault, embeds=False),
    )


def describe_pack(answer: PackAnswer, link_context: LinkContext) -> PackPage:
    """Split a pack into its groups, and its budget into their costs."""
    pack = answer.pack
    form = choose_form(pack.source, pack.style, pack.labels)
    pieces = describe_items(pack.items, form, answer.question, link_context)
    groups = divide(pieces)
    omitted_items = {
        label: items
        for reason, label in _OMISSION_LABELS.items()
        if (items := [each for each in pack.omitted if each.why is reason])
    }
    linked = frozenset(hit.address for hit in pack.omitted_pins)
    shares = share_out(groups, pack.account)
    return PackPage(answer, pieces, groups, shares, omitted_items, linked)


def describe_items(
    items: Sequence[PackItem], form: PackForm, question: str, link_context: LinkContext
) -> list[PackPiece]:
    """Return the sections of a pack, each with its cost in tokens and its reasons."""
    is_asked = bool(question.strip())
    return [
        PackPiece(item, cost, describe_reasons(item, is_asked), _render(item, link_context))
        for item, cost in zip(items, price_items(items, form), strict=True)
    ]


def _render(item: PackItem, link_context: LinkContext) -> str:
    """Return a section's text as HTML, without hidden text.

    After the leading line end, it has no frontmatter.
    """
    text = "\n".join(["", *map(clean_text, item.text.splitlines())])
    return render_note(text, item.hit.record.path, link_context).html


def divide(pieces: Iterable[PackPiece]) -> list[PackGroup]:
    """Return the groups that have pieces; pinned evidence is its own group."""
    groups: dict[str, list[PackPiece]] = {name: [] for name in _GROUPS}
    for piece in pieces:
        is_pinned = piece.item.pinned and piece.item.part is PackPart.EVIDENCE
        groups["pinned" if is_pinned else piece.item.part].append(piece)
    return [PackGroup(name, _GROUPS[name], each) for name, each in groups.items() if each]


def share_out(groups: Sequence[PackGroup], account: PackUsage) -> list[BudgetShare]:
    """Return the shares of the budget, including the free part."""
    tokens = {group.name: group.cost for group in groups}
    tokens["frame"] = max(account.sent - sum(tokens.values()), 0)
    tokens["free"] = max(account.budget - account.sent, 0)
    whole = max(sum(tokens.values()), 1)
    ends = [0]
    for each in tokens.values():
        ends.append(ends[-1] + each)
    return [
        BudgetShare(name, each, 100 * start / whole, 100 * (end - start) / whole)
        for (name, each), (start, end) in zip(tokens.items(), pairwise(ends), strict=True)
    ]


def read_text(pack: Pack) -> Response:
    """Return the pack's exact text as a response."""
    return PlainTextResponse(pack.text.encode("utf-8", "replace"))


@answers
async def show_pack(request: Request) -> Response:
    """Show the pack for a query, or only its text."""
    params = request.query_params
    pack_request, at = read_asked(params), params.get("at", "")
    other = request.query_params.get("vault", "")
    frame, page = await read(request, partial(collect_pack, pack_request, at, other))
    if params.get("part") == "text":
        return read_text(page.answer.pack)
    template = "pack_parts.html" if params.get("part") == "results" else "pack.html"
    return render_page(request, template, vault=frame, asked=pack_request, page=page)


# Receipts: the list, and one replayed pack with the changes since then.

#: Receipts on a page.
_PAGE = 50


class ReceiptList(NamedTuple):
    """A page of receipts, the newest first."""

    receipts: list[Receipt]
    has_older: bool


class Since(NamedTuple):
    """The changes of a section since it was shown.

    `change` is "unchanged", "changed" or "removed". `state` is the note's new state, if it changed.
    `newer` names the notes that replaced it, and `passages` are the changes of the text.
    """

    change: str
    state: str = ""
    newer: str = ""
    passages: tuple[Passage, ...] = ()


class ReceiptPage(NamedTuple):
    """A replayed pack; `changes` has the changes of each section, by path and heading."""

    replay: Replay
    groups: list[PackGroup]
    shares: list[BudgetShare]
    changes: dict[tuple[str, str], Since]

    @property
    def largest(self) -> int:
        """Tokens of the largest piece."""
        return max((piece.cost for group in self.groups for piece in group.pieces), default=1)

    @property
    def changed_count(self) -> int:
        """The number of changed sections."""
        return sum(each != Since("unchanged") for each in self.changes.values())


def collect_receipts(agent: str, session: str, page: int, vault: Vault) -> ReceiptList:
    """Return a page (from 0) of the receipts, of an agent and a session if given."""
    from vaultmem.services.packs.receipts import list_receipts

    receipts = list_receipts(vault, agent, session)
    page_receipts = list(islice(receipts, page * _PAGE, (page + 1) * _PAGE + 1))
    return ReceiptList(page_receipts[:_PAGE], len(page_receipts) > _PAGE)


def collect_receipt(name: str, vault: Vault) -> ReceiptPage:
    """Return the pack of a receipt, and the changes since then."""
    from vaultmem.services.packs.receipts import replay_receipt

    replay = replay_receipt(vault, name)
    groups = divide(describe_replay(vault, replay))
    since = {
        (item.hit.record.path, item.hit.section.heading): each
        for item, each in zip(replay.items, _compare_now(vault, replay.items), strict=True)
    }
    return ReceiptPage(replay, groups, share_out(groups, replay.receipt.account), since)


def describe_replay(vault: Vault, replay: Replay) -> list[PackPiece]:
    """Return the sections of a replayed pack, each with its cost in tokens."""
    receipt = replay.receipt
    form = choose_form(receipt.source, receipt.style, receipt.labels)
    return describe_items(
        replay.items, form, receipt.query, build_link_context("", vault, embeds=False)
    )


def _compare_now(vault: Vault, items: Iterable[PackItem]) -> Iterable[Since]:
    """Yield the changes of each section since it was shown."""
    item_list = list(items)
    paths = sorted({item.hit.record.path for item in item_list})
    condition = f"d.path IN ({', '.join('?' * len(paths))})"
    records = {each.path: each for each in vault.view.records(condition, paths)} if paths else {}
    for item in item_list:
        record = records.get(item.hit.record.path)
        yield Since("removed") if record is None else _compare(vault, item, record)


def _compare(vault: Vault, item: PackItem, record: NoteRecord) -> Since:
    shown_record = item.hit.record
    if shown_record.blob == record.blob:
        return Since("unchanged")
    text, newer = _read_now(vault, item)
    state = record.state if record.state != shown_record.state else ""
    if text is None:
        return Since("removed", state, newer)
    diff, _, _ = diff_text(f"{item.hit.text}\n", f"{text}\n")
    return Since("changed" if diff else "unchanged", state, newer, tuple(mark_diff(diff)))


def _read_now(vault: Vault, item: PackItem) -> tuple[str | None, str]:
    """Return a section's current text, None if it is gone, and the notes that replaced its note."""
    from vaultmem.core.notes.comments import strip_hidden
    from vaultmem.services.views.read_notes import read_note

    path, heading = PurePosixPath(item.hit.record.path), item.hit.section.heading
    try:
        note = read_note(vault, path)
    except VaultError:
        return None, ""
    prop = note.frontmatter.get("superseded_by")
    value = prop.value if prop else ""
    newer = value if isinstance(value, str) else ", ".join(value)
    for section in note.sections:
        if section.heading == heading:
            return strip_hidden(note.visible[section.start : section.end]).strip(), newer
    return None, newer


@answers
async def show_receipts(request: Request) -> Response:
    """Show a page of receipts."""
    params = request.query_params
    agent, session = params.get("agent", "")[:200], params.get("session", "")[:200]
    page = read_page(params)
    frame, receipt_list = await read(request, partial(collect_receipts, agent, session, page))
    filter_text = " in ".join(filter(None, (agent, session)))
    return render_page(
        request,
        "receipts.html",
        vault=frame,
        found=receipt_list,
        page=page,
        agent=agent,
        session=session,
        wanted=filter_text,
    )


@answers
async def show_receipt(request: Request) -> Response:
    """Show the pack of a receipt, or only its text."""
    frame, page = await read(request, partial(collect_receipt, request.path_params["name"]))
    if request.query_params.get("part") == "text":
        return PlainTextResponse(page.replay.text.encode("utf-8", "replace"))
    return render_page(request, "receipt.html", vault=frame, page=page)
