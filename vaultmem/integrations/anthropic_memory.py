"""Anthropic's memory tool (`memory_20250818`) with a vault behind it.

    from anthropic import Anthropic
    from vaultmem.integrations.anthropic_memory import VaultMemoryTool

    tool = VaultMemoryTool("~/vault", agent="claude")
    Anthropic().beta.messages.tool_runner(..., tools=[tool])

Every write has the agent's name, every safety rule holds, and git keeps what was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError

from vaultmem.environment import open_named_vault
from vaultmem.errors import VaultError
from vaultmem.integrations.memory_commands import run_command
from vaultmem.services.writing.checkpoint import save_checkpoint


class VaultMemoryTool(BetaAbstractMemoryTool):
    """A memory tool for one vault; it may be called from any thread.

    `agent` and `session` say who writes. Nothing is committed before `checkpoint`.
    """

    def __init__(self, vault: str | Path, agent: str, session: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._vault = vault
        self._agent = agent
        self._session = session

    def checkpoint(self, note: str) -> str:
        """Commit what was written; return the commit's id, empty if nothing was."""
        vault = open_named_vault(self._vault, agent=self._agent, session=self._session)
        try:
            return save_checkpoint(vault, note).commit
        finally:
            vault.close()

    def view(self, command: Any) -> str:
        """Show a note with line numbers, or what a folder holds."""
        return self._run(command)

    def create(self, command: Any) -> str:
        """Write a new note."""
        return self._run(command)

    def str_replace(self, command: Any) -> str:
        """Replace a text that is in a note once."""
        return self._run(command)

    def insert(self, command: Any) -> str:
        """Insert text behind a line of a note."""
        return self._run(command)

    def delete(self, command: Any) -> str:
        """Remove a note, or those in a folder; git keeps what was committed."""
        return self._run(command)

    def rename(self, command: Any) -> str:
        """Rename a note or a folder; links to it are changed with it."""
        return self._run(command)

    def _run(self, command: Any) -> str:
        vault = open_named_vault(self._vault, agent=self._agent, session=self._session)
        try:
            return run_command(vault, command.to_dict())
        except VaultError as error:
            raise ToolError(str(error)) from None
        finally:
            vault.close()
