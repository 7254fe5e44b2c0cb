"""When a session stops, ends or loses its context: keep what was said in it."""

from __future__ import annotations

from pathlib import Path

from vaultmem.core.hook_payload import HookPayload
from vaultmem.services.hooks.answer import find_folder
from vaultmem.vault import Vault


def keep_before_compaction(vault: Vault, payload: HookPayload) -> str:
    """Ask for a restore, and keep what was said: the context is about to be lost."""
    from vaultmem.services.sessions.windows import mark_restore

    keep_said(vault, payload)
    mark_restore(vault, _session(vault, payload))
    return ""


def end_session(vault: Vault, payload: HookPayload) -> str:
    """Keep what was said, and close the session."""
    from vaultmem.services.sessions.close import close_session

    keep_said(vault, payload)
    close_session(vault, _session(vault, payload))
    return ""


def keep_said(vault: Vault, payload: HookPayload) -> str:
    """Keep what was said so far."""
    from vaultmem.services.sessions.take_in import take_transcript

    if payload.transcript:
        take_transcript(vault, _session(vault, payload), Path(payload.transcript))
    return ""


def _session(vault: Vault, payload: HookPayload) -> str:
    from vaultmem.services.sessions.identify import require_session

    return require_session(vault, payload.session, find_folder(payload))
