"""At a session's start: begin it or take it up, and tell what is known."""

from __future__ import annotations

import contextlib
from pathlib import Path

from vaultmem.core.hook_payload import HookPayload
from vaultmem.core.packs.pack_item import PackStyle
from vaultmem.errors import BusyError, FaultError, NoteNotFoundError, RefusedError
from vaultmem.services.finding.ask_pack import AskPack, ask_pack
from vaultmem.services.hooks.answer import find_folder
from vaultmem.services.sessions.begin import Begun, NewSession, resume_session, start_session
from vaultmem.services.sessions.edit_session import act_in
from vaultmem.vault import Vault

#: Tokens of what is shown at a start: of the pack, and of an earlier context.
_PACK_BUDGET = 1_200
_RESTORE_BUDGET = 1_000

#: Seconds that somebody else may write before the session begins.
_PATIENCE = 5.0

#: Starts after which the agent's context is empty though its session goes on.
_GOES_ON = {"resume", "compact"}


def begin_context(vault: Vault, payload: HookPayload) -> str:
    """Begin or take up the session; tell what is pinned, and what an earlier context knew."""
    folder = find_folder(payload)
    asked = AskPack("", _PACK_BUDGET, PackStyle.TEXT)
    vault.patience = max(vault.patience, 0.0 if vault.lag else _PATIENCE)
    try:
        begun = _begin(vault, payload, folder)
    except (BusyError, FaultError) as error:  # What is known must not wait for it.
        return f"{ask_pack(vault, asked).pack.text}\nNo session was begun: {error}\n"
    parts = [ask_pack(act_in(vault, begun.session.facts.id), asked).pack.text]
    if begun.restore:
        from vaultmem.services.sessions.restore import restore_session

        parts.append(restore_session(vault, begun.restore, _RESTORE_BUDGET, folder).text)
    return "\n\n".join(part.strip() for part in parts if part)


def _begin(vault: Vault, payload: HookPayload, folder: Path | None) -> Begun:
    """Begin the session, or take it up where the client goes on with it or it had ended."""
    if payload.source in _GOES_ON and payload.session:
        with contextlib.suppress(
            NoteNotFoundError
        ):  # Perhaps begun before the vault was connected.
            return resume_session(vault, payload.session, folder)
    try:
        return start_session(vault, NewSession(payload.session, workspace=folder))
    except RefusedError:
        if not payload.session:
            raise
        return resume_session(vault, payload.session, folder)
