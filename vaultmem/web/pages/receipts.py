"""Receipts: what agents were shown, one of them replayed, and what has changed since."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vaultmem.core.delta.note_changes import diff_text
from vaultmem.core.delta.words import Passage, mark_diff
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.packs.pack_text import choose_form
from vaultmem.core.packs.receipt import Receipt
from vaultmem.errors import VaultError
from vaultmem.services.finding.receipts import Replay
from vaultmem.vault import Vault
from vaultmem.web.around import look_around
from vaultmem.web.asking import answers, read, read_page
from vaultmem.web.pages.pack import Group, Piece, Share, describe_items, divide, share_out
from vaultmem.web.rendering import render_page

#: Receipts on a page.
_PAGE = 50


class Listed(NamedTuple):
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
    groups: list[Group]
    shares: list[Share]
    since: dict[tuple[str, str], Since]

    @property
    def largest(self) -> int:
        """Tokens of the piece that costs most."""
        return max((piece.cost for group in self.groups for piece in group.pieces), default=1)

    @property
    def changed(self) -> int:
        """How many sections are not as they were."""
        return sum(each != Since("as it was") for each in self.since.values())


def gather_receipts(agent: str, session: str, page: int, vault: Vault) -> Listed:
    """Return a page (from 0) of the receipts of an agent and a session, if these are named."""
    from vaultmem.services.finding.receipts import list_receipts

    found = list_receipts(vault, agent, session)
    listed = list(islice(found, page * _PAGE, (page + 1) * _PAGE + 1))
    return Listed(listed[:_PAGE], len(listed) > _PAGE)


def gather_receipt(name: str, vault: Vault) -> ReceiptPage:
    """Return the pack that a receipt stands for, and what has changed since."""
    from vaultmem.services.finding.receipts import replay_receipt

    replay = replay_receipt(vault, name)
    groups = divide(describe_replay(vault, replay))
    since = {
        (item.hit.record.path, item.hit.section.heading): each
        for item, each in zip(replay.items, _compare_now(vault, replay.items), strict=True)
    }
    return ReceiptPage(replay, groups, share_out(groups, replay.receipt.account), since)


def describe_replay(vault: Vault, replay: Replay) -> list[Piece]:
    """Return the sections of a replayed pack, and what each added to its tokens."""
    receipt = replay.receipt
    form = choose_form(receipt.source, receipt.style, receipt.labels)
    return describe_items(replay.items, form, receipt.query, look_around("", vault, embeds=False))


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
    from vaultmem.core.indexing.analysis import analyse_note
    from vaultmem.core.notes.hidden import drop_unseen
    from vaultmem.services.reading.read_notes import read_bytes, read_note

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
            return drop_unseen(note.visible[section.start : section.end]).strip(), newer
    return None, newer


@answers
async def show_receipts(request: Request) -> Response:
    """Show a page of receipts."""
    given = request.query_params
    agent, session = given.get("agent", "")[:200], given.get("session", "")[:200]
    page = read_page(given)
    frame, found = await read(request, partial(gather_receipts, agent, session, page))
    wanted = " in ".join(filter(None, (agent, session)))
    return render_page(request, "receipts.html", vault=frame, found=found, page=page, wanted=wanted)


@answers
async def show_receipt(request: Request) -> Response:
    """Show the pack of a receipt, or its text alone."""
    frame, page = await read(request, partial(gather_receipt, request.path_params["name"]))
    if request.query_params.get("part") == "text":
        return PlainTextResponse(page.replay.text.encode("utf-8", "replace"))
    return render_page(request, "receipt.html", vault=frame, page=page)
