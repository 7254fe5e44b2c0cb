"""Answer a session's start: start or resume it, and return pinned and earlier context."""

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

#: Token budgets at a start: for the pack, for a resumed context, for the context of an interrupted
#: session, and for the last session here.
_PACK_BUDGET = 1_200
_RESTORE_BUDGET = 1_000
_PENDING_BUDGET = 500
_LAST_BUDGET = 300

#: Tokens of pinned notes for a subagent.
_SUBAGENT_BUDGET = 600

#: Seconds to wait for another writer before the session starts.
_WRITER_WAIT_SECONDS = 5.0

#: Starts after which the agent's context is empty but its session continues.
_CONTINUING_SOURCES = {"resume", "compact"}


def begin_context(vault: Vault, payload: HookPayload) -> str:
    """Start or resume the session; return pinned notes and the earlier context."""
    folder = find_folder(payload)
    forget_had(vault.state_folder, payload.session)  # Its context is empty, or is sent again.
    # The last session's outcome is added separately, and shorter.
    request = AskPack("", _PACK_BUDGET, PackStyle.TEXT, has_sessions=False)
    vault = replace(
        vault, patience=max(vault.wait, 0.0 if vault.notices.stale else _WRITER_WAIT_SECONDS)
    )
    try:
        if find_unsettled(vault):
            from vaultmem.services.sessions.import_turns import catch_up

            catch_up(vault)
        start_result = _begin(vault, payload, folder)
        vault.state.put(f"{EXPECTED} {start_result.session.facts.id}", payload.transcript)
    except UnreadableTableError as error:  # The folder's project is unknown.
        return f"No memory is shown and no session was begun: {error}\n"
    except (LockTimeoutError, SystemFailureError) as error:  # Still show the pack.
        return f"{_make_pack(vault, request).text}\nNo session was begun: {error}\n"
    pack = _make_pack(act_in(vault, start_result.session.facts.id), request)
    shown_names = [name for item in pack.items for name in digest_shown(item)]
    add_had(vault.state_folder, payload.session, shown_names)
    parts = [pack.text]
    parts.append(_describe_earlier(vault, payload, start_result, folder))
    return "\n\n".join(part.strip() for part in parts if part)


def begin_subagent(vault: Vault, payload: HookPayload) -> str:
    """Return the pinned notes for a subagent, whose context starts empty."""
    return _make_pack(vault, AskPack("", _SUBAGENT_BUDGET, PackStyle.TEXT, has_sessions=False)).text


def _make_pack(vault: Vault, request: AskPack) -> Pack:
    """Return the pack of a vault and its companions; commands print the messages about them."""
    return ask_pack(view_projects(add_companions(vault)[0]), request).pack


def _describe_earlier(
    vault: Vault, payload: HookPayload, start_result: StartResult, folder: Path | None
) -> str:
    """Return the restored context, or else the outcome of the last session here."""
    if start_result.restore:
        from vaultmem.services.sessions.restore_session import restore_session

        budget = _RESTORE_BUDGET if payload.source in _CONTINUING_SOURCES else _PENDING_BUDGET
        return restore_session(vault, start_result.restore, budget, folder).text
    from vaultmem.services.sessions.restore_session import describe_last_time

    return describe_last_time(vault, _LAST_BUDGET, folder, start_result.session.facts.id)


def _begin(vault: Vault, payload: HookPayload, folder: Path | None) -> StartResult:
    """Start the session, or resume it if the client continues it or it had ended."""
    if payload.source in _CONTINUING_SOURCES and payload.session:
        with contextlib.suppress(
            NoteNotFoundError
        ):  # It might have begun before vaultmem was connected.
            return resume_session(vault, payload.session, folder)
    try:
        return start_session(vault, NewSession(payload.session, workspace=folder))
    except RefusedError:
        if not payload.session:
            raise
        return resume_session(vault, payload.session, folder)
