"""Keep a receipt of a pack, and show the very same pack again from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import vaultmem
from vaultmem.core.blob import blob_id
from vaultmem.core.packs.receipt import (
    Receipt,
    ShownSection,
    digest_text,
    leave_out,
    list_shown,
    list_unshown,
    parse_receipt,
    rebuild_items,
    render_receipt,
    write_receipt,
)
from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import ConflictError, NoteNotFoundError, VaultError
from vaultmem.services.reading.texts import read_text
from vaultmem.storage.files import read_known
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.packs.pack_item import PackItem
    from vaultmem.core.packs.pack_text import Pack


def name_receipt(now: float) -> str:
    """Return a name that no other receipt has; `now` is in seconds since the epoch."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{os.urandom(4).hex()}"


def keep_receipt(vault: Vault, pack: Pack, query: str, name: str = "") -> Receipt:
    """Record a pack that was just made of this vault; durable when this returns.

    It gets a name of its own, unless one is given.
    """
    now = datetime.fromtimestamp(vault.now(), UTC)
    shown, unshown = list_shown(pack), list_unshown(pack)
    author = vault.author
    receipt = Receipt(
        id=name or name_receipt(vault.now()),
        time=now.isoformat(timespec="seconds"),
        version=vaultmem.__version__,
        vault=escape_bytes(str(vault.root)),
        agent=author.agent,
        session=author.session,
        tool_call=author.tool_call,
        query=query if vault.keeps_words else "",
        source=pack.source,
        shown=shown,
        unshown=unshown,
        unnamed=pack.unnamed,
        account=pack.account,
        digest=digest_text(pack.text),
        texts=_uncommitted(vault, {(each.path, each.blob) for each in (*shown, *unshown)}),
        style=pack.style,
        labels=pack.labels,
        told=pack.told,
    )
    vault.store.receipts.write(receipt.id, write_receipt(receipt))
    return receipt


def list_receipts(vault: Vault, agent: str = "", session: str = "") -> Iterator[Receipt]:
    """Yield the vault's receipts, newest first, of one agent or session if these are named."""
    for file in vault.store.receipts.files():
        receipt = parse_receipt(vault.store.receipts.read(str(file)))
        if agent in {"", receipt.agent} and session in {"", receipt.session}:
            yield _show(vault, receipt)


class Replay(NamedTuple):
    """A receipt and its pack, text and sections; without those in `gone`, which git has lost."""

    receipt: Receipt
    text: str
    items: tuple[PackItem, ...]
    gone: tuple[ShownSection, ...] = ()


def replay_receipt(vault: Vault, name: str) -> Replay:
    """Return a receipt, by id or file, and the text of its pack, rendered again from git.

    Raises:
        NoteNotFoundError: there is no such receipt, or git has lost all that it shows.
        ConflictError: this version of vaultmem renders it otherwise.
    """
    return render_again(vault, find_receipt(vault, name, in_files=True))


def find_receipt(vault: Vault, name: str, *, in_files: bool = False) -> Receipt:
    """Return a receipt by its id, or the beginning of one, or `in_files` by its file's path.

    Raises:
        NoteNotFoundError: there is none, or several begin like that.
    """
    return _show(vault, parse_receipt(vault.store.receipts.read(name, in_files=in_files)))


def _show(vault: Vault, receipt: Receipt) -> Receipt:
    return receipt._replace(vault=vault.show_folder(receipt.vault))


def render_again(vault: Vault, receipt: Receipt) -> Replay:
    """Return a receipt with the text of its pack, as `replay_receipt` does."""
    read_blob = open_blobs(vault, receipt)
    sections = (*receipt.shown, *receipt.unshown)
    lost = {blob for blob in {each.blob for each in sections} if _is_lost(read_blob, blob)}
    if lost and lost != {each.blob for each in sections}:
        kept = leave_out(receipt, lost)
        items, unshown = rebuild_items(kept, read_blob)
        gone = tuple(each for each in sections if each.blob in lost)
        return Replay(receipt, render_receipt(kept, items, unshown), tuple(items), gone)
    items, unshown = rebuild_items(receipt, read_blob)
    text = render_receipt(receipt, items, unshown)
    if digest_text(text) != receipt.digest:
        raise ConflictError(
            f"{receipt.id}: this vaultmem ({vaultmem.__version__}) does not render the same "
            f"bytes; use {receipt.version}, which made it"
        )
    return Replay(receipt, text, tuple(items))


def open_blobs(vault: Vault, receipt: Receipt) -> Callable[[str], bytes]:
    """Return what reads a note of a receipt by its blob id, from the receipt or from git."""

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
    """Return by blob id the texts that only the folder has: git may never come to hold them."""
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
