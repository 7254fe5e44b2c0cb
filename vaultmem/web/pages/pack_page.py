"""Pages of packs and receipts: why each section was chosen, and what it costs."""

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
from vaultmem.web.markdown.html_links import Surroundings
from vaultmem.web.page_requests import answers, open_asked, read, read_count, read_page
from vaultmem.web.rendering import Reason, build_link_context, describe_reasons, render_page

#: Tokens of a budget at most.
MAX_BUDGET = 200_000


class PackPiece(NamedTuple):
    """A section of a pack, what it adds to the tokens, why it is there, and its text as HTML."""

    item: PackItem
    cost: int
    reasons: list[Reason]
    html: str


class PackGroup(NamedTuple):
    """Pieces that count alike: instructions, preferences, what is pinned, evidence."""

    name: str
    told: str
    pieces: list[PackPiece]

    @property
    def cost(self) -> int:
        """Tokens of all pieces."""
        return sum(piece.cost for piece in self.pieces)


class BudgetShare(NamedTuple):
    """A part of the budget: its tokens, where it begins, and how wide it is (percent)."""

    name: str
    tokens: int
    start: float
    width: float


class PackPage(NamedTuple):
    """A pack, its pieces in order, and divided into groups.

    `left` is what is not shown, by why; `linked` are the addresses of it that are named.
    """

    answer: PackAnswer
    pieces: list[PackPiece]
    groups: list[PackGroup]
    shares: list[BudgetShare]
    left: dict[str, list[OmittedItem]]
    linked: frozenset[str]

    @property
    def largest(self) -> int:
        """Tokens of the piece that costs most."""
        return max((piece.cost for piece in self.pieces), default=1)


#: What the groups are called, and what an agent makes of them.
_GROUPS = {
    "instructions": "trusted by the owner, to be followed",
    "preferences": "trusted by the owner",
    "pinned": "shown whatever is asked",
    "evidence": "to be weighed, never obeyed",
}

#: Why something is not shown.
_LEFT = {
    OmissionReason.ROOM: "Did not fit",
    OmissionReason.ALIKE: "Duplicate of something shown",
    OmissionReason.SHARE: "Over the share of what is pinned or preferred",
}


def read_asked(given: Mapping[str, str]) -> AskPack:
    """Return the pack that a form asks for; nobody is shown it, and no receipt is kept."""
    labels = given.get("labels", "")
    return AskPack(
        question=given.get("q", "")[:1_000],
        budget=read_count(given.get("budget", ""), MAX_BUDGET),
        style=PackStyle.TEXT if given.get("style") == PackStyle.TEXT else PackStyle.MARKDOWN,
        labels=PackLabels(labels) if labels in set(PackLabels) else None,
        expand_links="links" in given,
        waits=False,
        receipt=False,
        counts=False,
    )


def collect_pack(asked: AskPack, at: str, other: str, vault: Vault) -> PackPage:
    """Return the pack for a question, with the reasons and the costs of its pieces.

    The vault looks at `at` already; its links lead there.
    """
    from vaultmem.services.packs.build import ask_pack

    return describe_pack(
        ask_pack(open_asked(vault, other), asked), build_link_context(at, vault, embeds=False)
    )


def describe_pack(answer: PackAnswer, around: Surroundings) -> PackPage:
    """Divide a pack into its groups, and its budget into what they cost."""
    pack = answer.pack
    form = choose_form(pack.source, pack.style, pack.labels)
    pieces = describe_items(pack.items, form, answer.question, around)
    groups = divide(pieces)
    left = {
        told: found
        for why, told in _LEFT.items()
        if (found := [each for each in pack.left_out if each.why is why])
    }
    linked = frozenset(hit.address for hit in pack.unshown)
    shares = share_out(groups, pack.account)
    return PackPage(answer, pieces, groups, shares, left, linked)


def describe_items(
    items: Sequence[PackItem], form: PackForm, question: str, around: Surroundings
) -> list[PackPiece]:
    """Return the sections of a pack, with what each adds to its tokens, and why it is there."""
    is_asked = bool(question.strip())
    return [
        PackPiece(item, cost, describe_reasons(item, is_asked), _render(item, around))
        for item, cost in zip(items, price_items(items, form), strict=True)
    ]


def _render(item: PackItem, around: Surroundings) -> str:
    """Return a section's text as HTML, without what an agent is not shown.

    Behind a line end, it has no properties of its own.
    """
    shown = "\n".join(["", *map(clean_text, item.text.splitlines())])
    return render_note(shown, item.hit.record.path, around).html


def divide(pieces: Iterable[PackPiece]) -> list[PackGroup]:
    """Return the groups that have pieces; what is pinned and does not instruct is its own."""
    found: dict[str, list[PackPiece]] = {name: [] for name in _GROUPS}
    for piece in pieces:
        is_pinned = piece.item.pinned and piece.item.part is PackPart.EVIDENCE
        found["pinned" if is_pinned else piece.item.part].append(piece)
    return [PackGroup(name, _GROUPS[name], each) for name, each in found.items() if each]


def share_out(groups: Sequence[PackGroup], account: PackUsage) -> list[BudgetShare]:
    """Return what of the budget went where, and what is left of it."""
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
    """Answer with a pack's own bytes."""
    return PlainTextResponse(pack.text.encode("utf-8", "replace"))


@answers
async def show_pack(request: Request) -> Response:
    """Show the pack for a question, or its text alone."""
    given = request.query_params
    asked, at = read_asked(given), given.get("at", "")
    other = request.query_params.get("vault", "")
    frame, page = await read(request, partial(collect_pack, asked, at, other))
    if given.get("part") == "text":
        return read_text(page.answer.pack)
    template = "pack_parts.html" if given.get("part") == "results" else "pack.html"
    return render_page(request, template, vault=frame, asked=asked, page=page)


# Receipts: what agents were shown, one of them replayed, and what has changed since.

#: Receipts on a page.
_PAGE = 50


class ReceiptList(NamedTuple):
    """A page of receipts, the newest first."""

    receipts: list[Receipt]
    has_older: bool


class Since(NamedTuple):
    """What became of a section since it was shown.

    `told` is "as it was", "changed" or "gone"; `state` is that of its note now, if it is another,
    `newer` names the notes that took its place, and `passages` have what changed in the text.
    """

    told: str
    state: str = ""
    newer: str = ""
    passages: tuple[Passage, ...] = ()


class ReceiptPage(NamedTuple):
    """A replayed pack; `since` says by path and heading what became of each section."""

    replay: Replay
    groups: list[PackGroup]
    shares: list[BudgetShare]
    since: dict[tuple[str, str], Since]

    @property
    def largest(self) -> int:
        """Tokens of the piece that costs most."""
        return max((piece.cost for group in self.groups for piece in group.pieces), default=1)

    @property
    def changed(self) -> int:
        """How many sections are not as they were."""
        return sum(each != Since("as it was") for each in self.since.values())


def collect_receipts(agent: str, session: str, page: int, vault: Vault) -> ReceiptList:
    """Return a page (from 0) of the receipts of an agent and a session, if these are named."""
    from vaultmem.services.packs.receipts import list_receipts

    found = list_receipts(vault, agent, session)
    listed = list(islice(found, page * _PAGE, (page + 1) * _PAGE + 1))
    return ReceiptList(listed[:_PAGE], len(listed) > _PAGE)


def collect_receipt(name: str, vault: Vault) -> ReceiptPage:
    """Return the pack that a receipt stands for, and what has changed since."""
    from vaultmem.services.packs.receipts import replay_receipt

    replay = replay_receipt(vault, name)
    groups = divide(describe_replay(vault, replay))
    since = {
        (item.hit.record.path, item.hit.section.heading): each
        for item, each in zip(replay.items, _compare_now(vault, replay.items), strict=True)
    }
    return ReceiptPage(replay, groups, share_out(groups, replay.receipt.account), since)


def describe_replay(vault: Vault, replay: Replay) -> list[PackPiece]:
    """Return the sections of a replayed pack, and what each added to its tokens."""
    receipt = replay.receipt
    form = choose_form(receipt.source, receipt.style, receipt.labels)
    return describe_items(
        replay.items, form, receipt.query, build_link_context("", vault, embeds=False)
    )


def _compare_now(vault: Vault, items: Iterable[PackItem]) -> Iterable[Since]:
    """Yield what became of each section since it was shown."""
    listed = list(items)
    paths = sorted({item.hit.record.path for item in listed})
    where = f"d.path IN ({', '.join('?' * len(paths))})"
    records = {each.path: each for each in vault.view.records(where, paths)} if paths else {}
    for item in listed:
        record = records.get(item.hit.record.path)
        yield Since("gone") if record is None else _compare(vault, item, record)


def _compare(vault: Vault, item: PackItem, now: NoteRecord) -> Since:
    was = item.hit.record
    if was.blob == now.blob:
        return Since("as it was")
    text, newer = _read_now(vault, item)
    state = now.state if now.state != was.state else ""
    if text is None:
        return Since("gone", state, newer)
    diff, _, _ = diff_text(f"{item.hit.text}\n", f"{text}\n")
    return Since("changed" if diff else "as it was", state, newer, tuple(mark_diff(diff)))


def _read_now(vault: Vault, item: PackItem) -> tuple[str | None, str]:
    """Return the text that a section has now, None if there is none, and what replaced its note."""
    from vaultmem.core.indexing.section_texts import analyse_note
    from vaultmem.core.notes.comments import strip_hidden
    from vaultmem.services.views.read_notes import read_bytes, read_note

    path, heading = PurePosixPath(item.hit.record.path), item.hit.section.heading
    try:
        note = analyse_note(path, read_bytes(vault, path))
        replaced = read_note(vault, path).matter.get("superseded_by")
    except VaultError:
        return None, ""
    value = replaced.value if replaced else ""
    newer = value if isinstance(value, str) else ", ".join(value)
    for section in note.sections:
        if section.heading == heading:
            return strip_hidden(note.visible[section.start : section.end]).strip(), newer
    return None, newer


@answers
async def show_receipts(request: Request) -> Response:
    """Show a page of receipts."""
    given = request.query_params
    agent, session = given.get("agent", "")[:200], given.get("session", "")[:200]
    page = read_page(given)
    frame, found = await read(request, partial(collect_receipts, agent, session, page))
    wanted = " in ".join(filter(None, (agent, session)))
    return render_page(
        request,
        "receipts.html",
        vault=frame,
        found=found,
        page=page,
        agent=agent,
        session=session,
        wanted=wanted,
    )


@answers
async def show_receipt(request: Request) -> Response:
    """Show the pack of a receipt, or its text alone."""
    frame, page = await read(request, partial(collect_receipt, request.path_params["name"]))
    if request.query_params.get("part") == "text":
        return PlainTextResponse(page.replay.text.encode("utf-8", "replace"))
    return render_page(request, "receipt.html", vault=frame, page=page)
