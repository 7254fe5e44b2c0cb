"""At a session's start: begin it or take it up, and tell what is known."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from vaultmem.core.hook_payload import HookPayload
from vaultmem.core.packs.pack_item import PackStyle, digest_shown
from vaultmem.core.packs.pack_text import Pack
from vaultmem.core.project import UnreadableTableError
from vaultmem.errors import LockTimeoutError, NoteNotFoundError, RefusedError, SystemFailureError
from vaultmem.services.hooks.answer import find_folder
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.projects.scope import view_projects
from vaultmem.services.sessions.begin import NewSession, StartResult, resume_session, start_session
from vaultmem.services.sessions.edit_session import act_in
from vaultmem.services.sessions.find_session import EXPECTED, find_unsettled
from vaultmem.services.vaults.companions import add_companions
from vaultmem.storage.session_table import add_had, forget_had
from vaultmem.vault import Vault

#: Tokens of what is shown at a start: of the pack, of the context that goes on, of one that ended
#: before its time, and of the last session here.
_PACK_BUDGET = 1_200
_RESTORE_BUDGET = 1_000
_PENDING_BUDGET = 500
_LAST_BUDGET = 300

#: Tokens of what is pinned that a helper of the agent is shown.
_SUBAGENT_BUDGET = 600

#: Seconds that somebody else may write before the session begins.
_PATIENCE = 5.0

#: Starts after which the agent's context is empty though its session goes on.
_GOES_ON = {"resume", "compact"}


def begin_context(vault: Vault, payload: HookPayload) -> str:
    """Begin or take up the session; tell what is pinned, and what an earlier context knew."""
    folder = find_folder(payload)
    forget_had(vault.state_folder, payload.session)  # Its context is empty, or is told again.
    # What the last session came to is told by itself, and shorter.
    asked = AskPack("", _PACK_BUDGET, PackStyle.TEXT, has_sessions=False)
    vault = replace(vault, patience=max(vault.wait, 0.0 if vault.notices.stale else _PATIENCE))
    try:
        if find_unsettled(vault):
            from vaultmem.services.sessions.import_turns import catch_up

            catch_up(vault)
        begun = _begin(vault, payload, folder)
        vault.state.put(f"{EXPECTED} {begun.session.facts.id}", payload.transcript)
    except UnreadableTableError as error:  # It is not known what belongs to this folder.
        return f"No memory is shown and no session was begun: {error}\n"
    except (LockTimeoutError, SystemFailureError) as error:  # What is known must not wait for it.
        return f"{_make_pack(vault, asked).text}\nNo session was begun: {error}\n"
    pack = _make_pack(act_in(vault, begun.session.facts.id), asked)
    had = [name for item in pack.items for name in digest_shown(item)]
    add_had(vault.state_folder, payload.session, had)
    parts = [pack.text]
    parts.append(_describe_earlier(vault, payload, begun, folder))
    return "\n\n".join(part.strip() for part in parts if part)


def begin_subagent(vault: Vault, payload: HookPayload) -> str:
    """Return what is pinned, for a helper of the agent; its context is empty as it starts."""
    return _make_pack(vault, AskPack("", _SUBAGENT_BUDGET, PackStyle.TEXT, has_sessions=False)).text


def _make_pack(vault: Vault, asked: AskPack) -> Pack:
    """Return the pack of a vault and its companions; commands print the messages about them."""
    return ask_pack(view_projects(add_companions(vault)[0]), asked).pack


def _describe_earlier(
    vault: Vault, payload: HookPayload, begun: StartResult, folder: Path | None
) -> str:
    """Tell what the context before this one knew, or else what the last session here came to."""
    if begun.restore:
        from vaultmem.services.sessions.restore_session import restore_session

        budget = _RESTORE_BUDGET if payload.source in _GOES_ON else _PENDING_BUDGET
        return restore_session(vault, begun.restore, budget, folder).text
    from vaultmem.services.sessions.restore_session import describe_last_time

    return describe_last_time(vault, _LAST_BUDGET, folder, begun.session.facts.id)


def _begin(vault: Vault, payload: HookPayload, folder: Path | None) -> StartResult:
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
