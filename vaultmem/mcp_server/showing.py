"""What resources and prompts show of a vault, without the SDK: a process that has none makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from vaultmem.errors import NoteNotFoundError
from vaultmem.mcp_server.tool import cut_text, tell_behind
from vaultmem.operations.operation import MOST

if TYPE_CHECKING:
    from vaultmem.vault import Vault

PACK = "vaultmem://pack"
NOTE = "vaultmem://note/"

#: Notes that are listed at a time; each page is made of all that follow.
PAGE = 1_000

_SHOWN = "d.state <> 'quarantined'"

#: Tokens of what the last session knew, at most; the vault's pack comes on top.
_RESTORE_BUDGET = 2_000


def list_page(after: str, vault: Vault) -> tuple[list[tuple[str, str, str]], bool]:
    """Return a page of notes behind a path, with title and facts, and whether more follow."""
    from vaultmem.services.projects.scope import view_project

    vault = view_project(vault)
    records = vault.view.records(f"{_SHOWN} AND d.path > ?", [after])
    page = [
        (record.path, record.title, f"{record.kind}, {record.state}") for record in records[:PAGE]
    ]
    return page, len(records) > PAGE


def list_matches(column: str, text: str, vault: Vault) -> list[str]:
    """Return the paths or titles of notes that have a text in them, those that begin so first."""
    from vaultmem.services.projects.scope import view_project

    found = view_project(vault).view.records(
        f"{_SHOWN} AND instr(lower(d.{column}), lower(?))", [text]
    )
    values = {getattr(record, column) for record in found}
    return sorted(values, key=lambda value: (not value.lower().startswith(text.lower()), value))


def render_resource(uri: str, vault: Vault) -> str:
    """Return the text behind an address.

    Raises:
        NoteNotFoundError: there is no such resource.
    """
    if uri == PACK or uri.startswith(f"{PACK}/"):
        return _render_pack(vault, unquote(uri[len(PACK) + 1 :]))
    if uri.startswith(NOTE):
        from vaultmem.mcp_server.notes import read_tool

        return read_tool(vault, {"path": unquote(uri[len(NOTE) :]), "budget": MOST}).text
    raise NoteNotFoundError(f"{uri}: no such resource; notes are {NOTE}PATH, the pack is {PACK}")


def _render_pack(vault: Vault, query: str) -> str:
    from vaultmem.services.finding.pack import AskPack, ask_pack
    from vaultmem.services.projects.scope import view_project

    made = ask_pack(view_project(vault), AskPack(query, names_tool=True))
    return tell_behind(vault, cut_text(made.pack.text, 0, MOST)[0])


def tell_state(about: str, vault: Vault) -> str:
    """Return what the last session here knew, if there was one, and what the vault has to add."""
    from vaultmem.services.finding.pack import AskPack, ask_pack
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.identify import require_session
    from vaultmem.services.sessions.restore import restore_session

    found = ask_pack(view_project(vault), AskPack(about, names_tool=True))
    made = tell_behind(vault, found.pack.text)
    try:
        last = restore_session(vault, require_session(vault, or_last=True), _RESTORE_BUDGET)
    except NoteNotFoundError:
        return made
    return f"{last.text.rstrip()}\n\n{made}"
