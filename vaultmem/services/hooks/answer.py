"""Find the function for an agent's event; it is imported only when needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from vaultmem.core.hook_payload import MAX_CONTEXT, HookEvent, HookPayload
from vaultmem.vault import Vault

#: Returns the context for the agent, empty if there is none; at most MAX_CONTEXT characters.
Answer = Callable[[Vault, HookPayload], str]

#: The module and the function of each event's answer.
_HOMES = {
    HookEvent.SESSION_START: ("hook_begin", "begin_context"),
    HookEvent.PROMPT: ("hook_prompt", "answer_prompt"),
    HookEvent.PRE_COMPACT: ("hook_save", "save_before_compaction"),
    HookEvent.SESSION_END: ("hook_save", "end_session"),
    HookEvent.STOP: ("hook_save", "save_turns"),
    HookEvent.BEFORE_TOOL: ("hook_tool", "answer_tool"),
    HookEvent.TOOL_FAILURE: ("hook_tool", "answer_tool"),
    HookEvent.SUBAGENT_START: ("hook_begin", "begin_subagent"),
    HookEvent.POST_COMPACT: ("hook_save", "forget_shown"),
}


def load_answer(event: HookEvent) -> Answer:
    """Return the function that answers an event; its vault must be in sync.

    It raises VaultError if it fails; then the agent gets no context.
    """
    module, name = _HOMES[event]
    answer = cast("Answer", getattr(import_module(f"vaultmem.services.hooks.{module}"), name))
    return lambda vault, payload: answer(vault, payload)[:MAX_CONTEXT]


def find_folder(payload: HookPayload) -> Path | None:
    """Return the folder in which the agent works, None if there is no such folder."""
    folder = Path(payload.folder) if payload.folder else None
    return folder if folder is not None and folder.is_dir() else None
