"""What resources and prompts show of a vault, without the SDK: a process that has none makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from vaultmem.errors import NoteNotFoundError
from vaultmem.mcp_server.tool import cut_text, tell_behind

if TYPE_CHECKING:
    from vaultmem.vault import Vault

PACK = "vaultmem://pack"
NOTE = "vaultmem://note/"

#: Notes that are listed at a time.
PAGE = 100

#: Tokens of what the last session knew, at most; the vault's pack comes on top.
_RESTORE_BUDGET = 2_000


def list_page(after: str, vault: Vault) -> list[tuple[str, str, str]]:
    """Return path, title and facts of the notes behind a path, one more than a page holds."""
    records = sorted(vault.view.records(), key=lambda record: record.path)
    return [
        (record.path, record.title, f"{record.kind}, {record.state}")
        for record in records
        if record.path > after and record.state != "quarantined"
    ][: PAGE + 1]


def render_resource(uri: str, vault: Vault) -> str:
    """Return the text behind an address.

    Raises:
        NoteNotFoundError: there is no such resource.
    """
    if uri == PACK or uri.startswith(f"{PACK}/"):
        return _render_pack(vault, unquote(uri[len(PACK) + 1 :]))
    if uri.startswith(NOTE):
        from vaultmem.mcp_server.notes import read_tool

        return read_tool(vault, {"path": unquote(uri[len(NOTE) :])}).text
    raise NoteNotFoundError(f"{uri}: no such resource; notes are {NOTE}PATH, the pack is {PACK}")


def _render_pack(vault: Vault, query: str) -> str:
    from vaultmem.services.finding.ask_pack import AskPack, ask_pack

    return tell_behind(vault, cut_text(ask_pack(vault, AskPack(query)).pack.text, 0)[0])


def tell_state(about: str, vault: Vault) -> str:
    """Return what the last session here knew, if there was one, and what the vault has to add."""
    from vaultmem.services.finding.ask_pack import AskPack, ask_pack
    from vaultmem.services.sessions.identify import require_session
    from vaultmem.services.sessions.restore import restore_session

    made = tell_behind(vault, ask_pack(vault, AskPack(about)).pack.text)
    try:
        last = restore_session(vault, require_session(vault, or_last=True), _RESTORE_BUDGET)
    except NoteNotFoundError:
        return made
    return f"{last.text.rstrip()}\n\n{made}"
