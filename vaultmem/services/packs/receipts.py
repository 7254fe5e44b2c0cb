"""Store receipts of packs, replay them, and list which sections were shown to which caller."""

from __future__ import annotations

import contextlib
import heapq
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import vaultmem
from vaultmem.core.notes.comments import strip_hidden
from vaultmem.core.notes.note import parse_note
from vaultmem.core.packs.receipt import (
    Receipt,
    ShownSection,
    digest_text,
    leave_out,
    list_shown,
    list_unshown,
    parse_receipt,
    read_plain,
    rebuild_items,
    render_receipt,
    write_receipt,
)
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import escape_bytes
from vaultmem.errors import (
    ConflictError,
    LockTimeoutError,
    NoteNotFoundError,
    RefusedError,
    VaultError,
)
from vaultmem.services.views.read_notes import find_note
from vaultmem.services.views.texts import read_text
from vaultmem.storage.files import read_known
from vaultmem.storage.git.log import Commit, walk_changes
from vaultmem.storage.query_log import MAX_CALLS, PACK, LoggedHits, LoggedQuery, SignalStore
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.packs.pack_item import PackItem
    from vaultmem.core.packs.pack_text import Pack


def choose_receipt_id(now: float) -> str:
    """Return a unique receipt id; `now` is in seconds since the epoch."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{os.urandom(4).hex()}"


def store_receipt(vault: Vault, pack: Pack, query: str, name: str = "") -> Receipt:
    """Store the receipt of a new pack of this vault. It is durable on return.

    `name` is its id, by default a new one.
    """
    now = datetime.fromtimestamp(vault.now(), UTC)
    shown_sections, omitted_sections = list_shown(pack), list_unshown(pack)
    author = vault.author
    receipt = Receipt(
        id=name or choose_receipt_id(vault.now()),
        time=now.isoformat(timespec="seconds"),
        version=vaultmem.__version__,
        vault=escape_bytes(str(vault.root)),
        agent=author.agent,
        session=author.session,
        tool_call=author.tool_call,
        query=query if vault.keeps_words else "",
        source=pack.source,
        shown=shown_sections,
        omitted_pins=omitted_sections,
        unlisted_pin_count=pack.unlisted_pin_count,
        account=pack.account,
        digest=digest_text(pack.text),
        texts=_uncommitted(
            vault, {(each.path, each.blob) for each in (*shown_sections, *omitted_sections)}
        ),
        style=pack.style,
        labels=pack.labels,
        notices=pack.notices,
    )
    vault.store.receipts.write(receipt.id, write_receipt(receipt))
    return receipt


def list_receipts(vault: Vault, agent: str = "", session: str = "") -> Iterator[Receipt]:
    """Yield the vault's receipts, newest first, optionally of one agent or session."""
    for file in vault.store.receipts.files():
        receipt = parse_receipt(vault.store.receipts.read(str(file)))
        if agent in {"", receipt.agent} and session in {"", receipt.session}:
            yield _show(vault, receipt)


class Replay(NamedTuple):
    """A receipt with its pack as text and items, without the `missing_sections` that git lost."""

    receipt: Receipt
    text: str
    items: tuple[PackItem, ...]
    missing_sections: tuple[ShownSection, ...] = ()


def replay_receipt(vault: Vault, name: str) -> Replay:
    """Return a receipt, by id or file, and the text of its pack, rendered again from git.

    Raises:
        NoteNotFoundError: there is no such receipt, or git has lost all that it shows.
        ConflictError: this version of vaultmem renders it differently.
    """
    return render_again(vault, find_receipt(vault, name, in_files=True))


def find_receipt(vault: Vault, name: str, *, in_files: bool = False) -> Receipt:
    """Return the receipt with an id or a unique prefix of it, or with `in_files` a file's path.

    Raises:
        NoteNotFoundError: there is no such receipt, or the prefix is not unique.
    """
    return _show(vault, parse_receipt(vault.store.receipts.read(name, in_files=in_files)))


def _show(vault: Vault, receipt: Receipt) -> Receipt:
    return receipt._replace(vault=vault.show_folder(receipt.vault))


def render_again(vault: Vault, receipt: Receipt) -> Replay:
    """Return a receipt with the text of its pack, as `replay_receipt` does."""
    read_blob = open_blobs(vault, receipt)
    sections = (*receipt.shown, *receipt.omitted_pins)
    lost_blobs = {blob for blob in {each.blob for each in sections} if _is_lost(read_blob, blob)}
    if lost_blobs and lost_blobs != {each.blob for each in sections}:
        partial_receipt = leave_out(receipt, lost_blobs)
        items, omitted_items = rebuild_items(partial_receipt, read_blob)
        lost_sections = tuple(each for each in sections if each.blob in lost_blobs)
        return Replay(
            receipt,
            render_receipt(partial_receipt, items, omitted_items),
            tuple(items),
            lost_sections,
        )
    items, omitted_items = rebuild_items(receipt, read_blob)
    text = render_receipt(receipt, items, omitted_items)
    if digest_text(text) != receipt.digest:
        raise ConflictError(
            f"{receipt.id}: this vaultmem ({vaultmem.__version__}) does not render the same "
            f"bytes; use {receipt.version}, which made it"
        )
    return Replay(receipt, text, tuple(items))


def open_blobs(vault: Vault, receipt: Receipt) -> Callable[[str], bytes]:
    """Return a function that reads a receipt's notes by blob id, from the receipt or git."""

    @cache
    def read_blob(blob: str) -> bytes:
        if blob in receipt.texts:
            data = receipt.texts[blob].encode("utf-8", "surrogateescape")
            if blob_id(data) != blob:
                raise VaultError(f"{receipt.id}: the receipt was changed: {blob[:12]} differs")
            return data
        return vault.history.objects.read(blob)[1]

    return read_blob


def _is_lost(read_blob: Callable[[str], bytes], blob: str) -> bool:
    try:
        read_blob(blob)
    except NoteNotFoundError:
        return True
    return False


def _uncommitted(vault: Vault, notes: set[tuple[str, str]]) -> dict[str, str]:
    """Return the uncommitted texts by blob id. Git possibly never stores them."""
    texts: dict[str, str] = {}
    for path, blob in sorted(notes):
        if vault.view.has_work_tree and not vault.manifest.is_committed(path, blob):
            text = read_text(vault, path, blob)
            if text is not None and blob_id(text.encode("utf-8")) != blob:  # It is not UTF-8.
                data = read_known(vault.root, path, blob)
                text = None if data is None else data.decode("utf-8", "surrogateescape")
            if text is None:
                raise NoteNotFoundError(f"{path}: changed while its receipt was written; ask again")
            texts[blob] = text
    return texts


# List what recalls and packs showed, to which caller and when, and which showed a text.

#: Length of the part of a receipt id that contains its time in seconds.
_SECOND = 15


class ShownSections(NamedTuple):
    """The sections that a recall or pack showed, with caller and time; a pack's receipt or ""."""

    showing: LoggedHits
    receipt: str


def list_recent(
    vault: Vault,
    limit: int,
    *,
    agent: str = "",
    session: str = "",
    path: str = "",
    since: float = 0.0,
) -> list[ShownSections]:
    """Return the last logged recalls and packs, newest first, with optional filters.

    A view of one project omits entries with notes of other projects, or without notes. Queries of
    the caller's own session are always included.
    """
    store = SignalStore(vault.state, vault.state_folder)
    with contextlib.suppress(LockTimeoutError):  # The newest entries are then missing.
        store.fold(vault.view.totals()[1], vault.wait)
    fetch_limit = limit if vault.view.project is None else MAX_CALLS
    entries = store.showings(fetch_limit, agent=agent, session=session, path=path, since=since)
    entries = list(islice(_drop_foreign(vault, entries), limit))
    receipts = defaultdict(list)
    if any(each.call.kind == PACK for each in entries):
        for file in vault.store.receipts.files():
            receipts[file.stem[:_SECOND]].append(file.stem)
    return [ShownSections(each, _find_receipt(vault, receipts, each.call)) for each in entries]


def _drop_foreign(vault: Vault, showings: Iterable[LoggedHits]) -> Iterator[LoggedHits]:
    """Yield the entries that a view of one project can list, or all in a view of all projects."""
    foreign, own = vault.view.foreign(), vault.author.session
    for each in showings:
        paths = {path for path, _, _ in each.sections}
        is_own = bool(own) and each.call.session == own
        if vault.view.project is None or is_own or (paths and foreign.isdisjoint(paths)):
            yield each


def _find_receipt(vault: Vault, receipts: Mapping[str, list[str]], call: LoggedQuery) -> str:
    """Remove the receipt id of a logged pack from `receipts`, and return it, or "".

    `receipts` are by the second in their ids.
    """
    if call.kind != PACK:
        return ""
    expected = (call.agent, call.session, call.query, call.sent)
    for n in (0, 1):
        names = receipts.get(f"{datetime.fromtimestamp(call.at + n, UTC):%Y%m%dT%H%M%S}", [])
        for name in reversed(names):
            receipt = parse_receipt(vault.store.receipts.read(name))
            found = (receipt.agent, receipt.session, receipt.query, receipt.account.sent)
            if found == expected:
                names.remove(name)
                return name
    return ""


def list_saying(
    vault: Vault,
    text: str,
    limit: int,
    *,
    agent: str = "",
    session: str = "",
    path: str = "",
    since: float = 0.0,
) -> list[ShownSections]:
    """Return the recalls and packs that showed a section with a text, newest first.

    Only the matching sections of each are returned. Case and line breaks are ignored. A pack's text
    comes from its receipt. Without a receipt, as for a recall, the text comes from git: the last
    commit of the note before the query, else the first one after it.

    Raises:
        RefusedError: the text is empty.
    """
    plain_text = read_plain(text)
    if not plain_text:
        raise RefusedError("--contains: the text is empty; give words of a section")
    matches = (
        each
        for each in find_showings(
            vault, lambda section_text: plain_text in section_text, agent, session
        )
        if each.showing.call.at >= since
        and path in {"", *(at for at, _, _ in each.showing.sections)}
    )
    return list(islice(matches, limit))


#: A filter for texts, as `read_plain` returns them. If a section matches, its note must match.
HasText = Callable[[str], bool]


def find_showings(
    vault: Vault, has_text: HasText, agent: str = "", session: str = ""
) -> Iterator[ShownSections]:
    """Yield the recalls and packs that showed a section with a text, newest first.

    Only the matching sections of each are returned. Texts are read as in `list_saying`.
    """
    yield from heapq.merge(
        _find_packs(vault, has_text, agent, session),
        _find_calls(vault, has_text, agent, session),
        key=lambda each: -each.showing.call.at,
    )


def _find_packs(
    vault: Vault, has_text: HasText, agent: str, session: str
) -> Iterator[ShownSections]:
    """Yield the packs with a receipt that showed a text, newest first."""
    has_text_by_blob: dict[str, bool] = {}
    for receipt in list_receipts(vault, agent, session):
        sections = _find_sections(vault, receipt, has_text, has_text_by_blob)
        if sections:
            at = datetime.fromisoformat(receipt.time).timestamp()
            sums = (receipt.account.sent, receipt.account.flat, len(sections))
            call = LoggedQuery(at, PACK, receipt.query, receipt.agent, receipt.session, *sums)
            yield ShownSections(LoggedHits(call, sections), receipt.id)


def _find_sections(
    vault: Vault, receipt: Receipt, has_text: HasText, has_text_by_blob: dict[str, bool]
) -> tuple[tuple[str, str, None], ...]:
    """Return path and heading of a pack's matching sections.

    `has_text_by_blob` caches results by blob.
    """
    read_blob = open_blobs(vault, receipt)
    blobs = {each.blob for each in receipt.shown}
    for blob in blobs - has_text_by_blob.keys():
        try:
            has_text_by_blob[blob] = has_text(
                read_plain(read_blob(blob).decode("utf-8", "replace"))
            )
        except VaultError:  # Git has lost it.
            has_text_by_blob[blob] = False
    partial_receipt = leave_out(receipt, {blob for blob in blobs if not has_text_by_blob[blob]})
    if not partial_receipt.shown:
        return ()
    try:
        items = rebuild_items(partial_receipt._replace(omitted_pins=()), read_blob)[0]
    except VaultError:  # Another version parsed notes differently.
        return ()
    rows = ((each.hit.record.path, each.hit.section.heading, each.text) for each in items)
    return tuple(
        (path, heading, None) for path, heading, text in rows if has_text(read_plain(text))
    )


def _find_calls(
    vault: Vault, has_text: HasText, agent: str, session: str
) -> Iterator[ShownSections]:
    """Yield the recalls, and the packs without a receipt, that showed a text, newest first."""
    find_text = _open_versions(vault)

    @cache
    def is_said(path: str, heading: str, text: str) -> bool:
        note = parse_note(PurePosixPath(path), text.encode("utf-8", "surrogateescape"))
        own = (each for each in note.sections if each.heading == heading)
        parts = (strip_hidden(note.visible[each.start : each.end]) for each in own)
        return any(has_text(read_plain(part)) for part in parts)

    for each in list_recent(vault, MAX_CALLS, agent=agent, session=session):
        if each.receipt:
            continue
        call, sections = each.showing
        matching_sections = tuple(
            x for x in sections if is_said(x[0], x[1], find_text(x[0], call.at))
        )
        if matching_sections:
            yield ShownSections(LoggedHits(call, matching_sections), "")


def find_named(
    vault: Vault, commits: Iterable[Commit], has_text: HasText
) -> Iterator[ShownSections]:
    """Yield notes with a text that commits name as shown to sessions on other machines.

    Sessions in this machine's log are skipped. A commit names notes, not sections.
    """
    session_ids = {each.session for each in SignalStore(vault.state, vault.state_folder).calls()}
    find_text = _open_versions(vault)

    @cache
    def is_said(path: str, text: str) -> bool:
        note = parse_note(PurePosixPath(path), text.encode("utf-8", "surrogateescape"))
        return has_text(read_plain(strip_hidden(note.visible)))

    for each in commits:
        for path, at in each.shown_notes if each.session not in session_ids else ():
            if is_said(path, find_text(path, at)):
                call = LoggedQuery(at, "commit", "", each.agent, each.session, 0, 0, 1)
                yield ShownSections(LoggedHits(call, ((path, "", None),)), "")


def _open_versions(vault: Vault) -> Callable[[str, float], str]:
    """Return a function that finds a note's text at a time (seconds), according to commits."""
    versions: dict[str, list[tuple[int, str]]] = {}

    @cache
    def read(blob: str) -> str:
        return vault.history.objects.read(blob)[1].decode("utf-8", "surrogateescape")

    def find(path: str, at: float) -> str:
        if not versions and (head := vault.head()) and head.commit:
            for commit, changes in walk_changes(vault.history, head.commit):
                for each in changes:
                    versions.setdefault(each.path, []).append((commit.at, each.blob))
            for file_versions in versions.values():
                file_versions.reverse()  # Oldest first, also within a second.
                file_versions.sort(key=lambda version: version[0])
        own = versions.get(path, [])
        number = bisect_right(own, at, key=lambda version: version[0])
        nearest = [*own[:number][-1:], *own[number:]]
        blob = next((blob for _, blob in nearest if blob), "")
        if blob:
            return read(blob)
        note = find_note(vault, path)  # It is possibly not committed.
        return "" if note is None else note.text

    return find
