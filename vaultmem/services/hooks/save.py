"""When a session stops, ends or loses its context: save its turns."""

from __future__ import annotations

from pathlib import Path

from vaultmem.core.hook_payload import HookPayload
from vaultmem.services.hooks.answer import find_folder
from vaultmem.vault import Vault


def save_before_compaction(vault: Vault, payload: HookPayload) -> str:
    """Ask for a restore, and save the turns: the context is about to be lost."""
    from vaultmem.services.sessions.windows import mark_restore

    try:
        save_turns(vault, payload)
    finally:  # A transcript that is not there keeps nothing from the next start.
        mark_restore(vault, _session(vault, payload))
    return ""


def end_session(vault: Vault, payload: HookPayload) -> str:
    """Save the turns, and close the session."""
    from vaultmem.services.sessions.close import close_session

    try:
        save_turns(vault, payload)
    finally:  # A session ends without its transcript too, which a client may not keep.
        close_session(vault, _session(vault, payload))
    return ""


def save_turns(vault: Vault, payload: HookPayload) -> str:
    """Save the turns that the agent's transcript has so far."""
    from vaultmem.services.sessions.import_turns import import_turns

    if payload.transcript:
        import_turns(vault, _session(vault, payload), Path(payload.transcript))
    return ""


def _session(vault: Vault, payload: HookPayload) -> str:
    from vaultmem.services.sessions.identify import require_session

    return require_session(vault, payload.session, find_folder(payload))
