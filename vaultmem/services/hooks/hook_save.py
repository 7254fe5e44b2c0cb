"""Save a session's turns and outcome when it stops, ends or loses its context."""

from __future__ import annotations

from pathlib import Path

from vaultmem.core.hook_payload import HookPayload
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.hooks.answer import find_folder
from vaultmem.vault import Vault


def save_before_compaction(vault: Vault, payload: HookPayload) -> str:
    """Request a restore, and save the turns, before the context is lost."""
    from vaultmem.services.sessions.windows import mark_restore
    from vaultmem.storage.session_table import forget_had

    forget_had(vault.state_folder, payload.session)
    session = _session(vault, payload)
    try:
        _save(vault, session, payload)
    finally:  # A missing transcript must not prevent the restore.
        mark_restore(vault, session)
    return ""


def forget_shown(vault: Vault, payload: HookPayload) -> str:
    """Forget which notes the session was shown: its context no longer contains them."""
    from vaultmem.storage.session_table import forget_had

    forget_had(vault.state_folder, payload.session)
    return ""


def end_session(vault: Vault, payload: HookPayload) -> str:
    """Save the turns, and close the session."""
    from vaultmem.services.sessions.close import close_session

    session = _session(vault, payload)
    try:
        _save(vault, session, payload)
    finally:  # Some clients keep no transcript.
        close_session(vault, session)
    return ""


def save_turns(vault: Vault, payload: HookPayload) -> str:
    """Save the new turns of the agent's transcript; the user's preferences go to review."""
    from vaultmem.services.sessions.edit_session import act_in, propose_preferences
    from vaultmem.services.sessions.find_session import get_session

    session = _session(vault, payload)
    _save(vault, session, payload)
    facts = get_session(vault, session).facts
    propose_preferences(act_in(vault, session, facts.agent or None), facts)
    return ""


def _save(vault: Vault, session: str, payload: HookPayload) -> None:
    """Save the turns of a session, and its outcome."""
    from vaultmem.services.sessions.import_turns import import_turns, store_record

    if payload.transcript:
        import_turns(vault, session, Path(payload.transcript))
        store_record(vault, session, find_folder(payload))


def _session(vault: Vault, payload: HookPayload) -> str:
    """Return the payload's session; start one that is new to the vault.

    Without a transcript, none is started: `claude mcp list` ends a session too.
    """
    from vaultmem.services.sessions.begin import NewSession, start_session
    from vaultmem.services.sessions.identify import require_session

    folder = find_folder(payload)
    try:
        return require_session(vault, payload.session, folder)
    except NoteNotFoundError:
        if not payload.session or not Path(payload.transcript).is_file():
            raise
        new = NewSession(payload.session, workspace=folder)
        return start_session(vault, new, pick_up=False).session.facts.id
