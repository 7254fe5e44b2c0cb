"""Anthropic's memory tool (`memory_20250818`) on a vault.

    from anthropic import Anthropic
    from vaultmem.integrations.anthropic_memory import VaultMemoryTool

    tool = VaultMemoryTool("~/vault", agent="claude")
    Anthropic().beta.messages.tool_runner(..., tools=[tool])

Every write has the agent's name, all safety rules apply, and git keeps old versions. For
`AsyncAnthropic`, use `AsyncVaultMemoryTool`, whose commands run in threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anyio.to_thread import run_sync

from vaultmem.environment import open_named_vault
from vaultmem.errors import VaultError
from vaultmem.integrations.memory_commands import run_command
from vaultmem.services.changes.commit import save_checkpoint


class _Memory:
    """A vault that is reopened for each command, and the author of its writes."""

    def __init__(self, vault: str | Path, agent: str, session: str) -> None:
        self._vault = vault
        self._agent = agent
        self._session = session

    def run(self, command: Any) -> str:
        """Run one command.

        Raises:
            ToolError: the command failed; the text is for the model.
        """
        vault = open_named_vault(self._vault, agent=self._agent, session=self._session)
        try:
            return run_command(vault, command.to_dict())
        except VaultError as error:
            raise ToolError(str(error)) from None
        finally:
            vault.close()

    def checkpoint(self, note: str = "") -> str:
        """Commit all changes; return the commit's id, "" if there were none."""
        vault = open_named_vault(self._vault, agent=self._agent, session=self._session)
        try:
            return save_checkpoint(vault, note).commit
        finally:
            vault.close()


class VaultMemoryTool(BetaAbstractMemoryTool):
    """A memory tool for one vault; any thread can call it.

    `agent` and `session` name the author. Nothing is committed before `checkpoint`.
    """

    def __init__(self, vault: str | Path, agent: str, session: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._memory = _Memory(vault, agent, session)

    def checkpoint(self, note: str = "") -> str:
        """Commit all changes; return the commit's id, "" if there were none."""
        return self._memory.checkpoint(note)

    def _run(self, command: Any) -> str:
        return self._memory.run(command)

    view = create = str_replace = insert = delete = rename = _run


class AsyncVaultMemoryTool(BetaAsyncAbstractMemoryTool):
    """`VaultMemoryTool` for `AsyncAnthropic`: each command runs in a thread."""

    def __init__(self, vault: str | Path, agent: str, session: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._memory = _Memory(vault, agent, session)

    async def checkpoint(self, note: str = "") -> str:
        """Commit all changes; return the commit's id, "" if there were none."""
        return await run_sync(self._memory.checkpoint, note)

    async def _run(self, command: Any) -> str:
        return await run_sync(self._memory.run, command)

    view = create = str_replace = insert = delete = rename = _run
