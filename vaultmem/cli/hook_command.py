"""The command `vaultmem hook`; an agent waits for it, so imports are minimal.

Arguments are parsed here, and only help uses the command-line library. That library exits with 2 on
errors, and some agents then drop the prompt.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from vaultmem.cli.arguments import MAX_INPUT, read_words
from vaultmem.cli.opening import CommandContext, run
from vaultmem.cli.output import answer_program, follow_writes, print_line
from vaultmem.config import find_root
from vaultmem.core.hook_payload import (
    HookEvent,
    HookFormat,
    HookPayload,
    parse_payload,
    render_answer,
    write_payload,
)
from vaultmem.errors import NoVaultError, RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.vault import Vault

#: Events that an agent does not wait for; a separate process answers them.
_DETACHED = {HookEvent.PRE_COMPACT, HookEvent.SESSION_END, HookEvent.STOP}

#: The agent's name if nothing else names one.
_AGENTS = {
    HookFormat.CLAUDE: "claude-code",
    HookFormat.COPILOT: "copilot",
    HookFormat.CURSOR: "cursor",
}

_VALUES = {"--vault": "vault", "--agent": "agent", "--format": "form"}


def answer_plainly(arguments: list[str]) -> int | None:
    """Answer the hook that these arguments name; return 0 on any error, None for help."""
    if {"-h", "--help"} & set(arguments):
        return None
    words = [part for word in arguments for part in _split(word)]
    read = read_words(words, _VALUES, {"--wait": "wait"})
    if read is None or len(read[0]) != 2 or read[0][0] != "hook":
        vaults = words[words.index("--vault") + 1 :][:1] if "--vault" in words else []
        _keep("".join(vaults), "hook", _reject(" ".join(arguments)))
    else:
        run(lambda: answer_hook(read[0][1], **read[1]))
    return 0


def _reject(words: str) -> RefusedError:
    return RefusedError(
        f"`vaultmem {words}` is not a hook's command; correct it in the client's settings; "
        "`vaultmem hook --help` lists the events and formats"
    )


def _split(word: str) -> list[str]:
    """Split an option and its value if they are one word."""
    return word.split("=", 1) if word.startswith("--") else [word]


def answer_hook(
    event: str, form: str = "", wait: bool = False, vault: str = "", agent: str = ""
) -> None:
    """Answer an agent's event from standard input; on an error, print nothing.

    The error is stored for `vaultmem doctor`.
    """
    answer_program()
    try:
        answer = _answer(event, form, wait, vault, agent)
    except Exception as error:  # noqa: BLE001  Our errors must not stop the agent.
        _keep(vault, event, error)
        return
    follow_writes([], [])  # The agent reads all output as context.
    if answer:
        print_line(answer)


def _answer(event: str, form: str, wait: bool, vault: str, agent: str) -> str:
    try:
        hook_event, shape = HookEvent(event), HookFormat(form) if form else None
    except ValueError:
        raise _reject(f"hook {event}{form and f' --format {form}'}") from None
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(MAX_INPUT + 1)
    payload = parse_payload(data)
    if hook_event in _DETACHED and not wait:
        _detach(hook_event, payload, vault, agent)
        return ""
    from vaultmem.environment import current_environment
    from vaultmem.services.hooks.answer import find_folder, load_answer

    make_context = load_answer(hook_event)
    # Named vaults have priority. A watcher's process must not change its folder.
    environment = current_environment()
    if not vault and not environment.get("VAULTMEM_VAULT") and os.path.isdir(payload.folder):
        os.chdir(payload.folder)
    if not vault and not environment.get("VAULTMEM_VAULT"):
        vault = str(find_root(None))  # The only listed vault is not every project's memory.
    agent_name = agent or environment.get("VAULTMEM_AGENT", "") or _AGENTS[payload.form]
    opened = CommandContext(vault, agent=agent_name).open_synced(reads=hook_event not in _DETACHED)
    author = opened.author._replace(session=payload.session or opened.author.session)
    opened = replace(opened, here=find_folder(payload) or opened.here, author=author)
    if hook_event is HookEvent.SESSION_START and not wait:
        opened = replace(opened, postpones_index=True)
    if hook_event not in _DETACHED and opened.config.companions and not opened.ref:
        from vaultmem.cli.opening import open_other

        opened = replace(opened, opener=open_other)
    context = make_context(opened, payload)
    if context and opened.notices.stale:
        context += f"\n\nBehind: {opened.notices.stale}"
    answer = render_answer(hook_event, shape, context, payload)
    if opened.postpones_index:
        _index_later(opened)
    return answer


def _detach(event: HookEvent, payload: HookPayload, vault: str, agent: str) -> None:
    """Answer in a process that outlives the agent and its timeout."""
    words = ["hook", event.value, "--wait"]
    words += ["--vault", vault] if vault else []
    words += ["--agent", agent] if agent else []
    folder = payload.folder if os.path.isdir(payload.folder) else None
    _run_apart(words, write_payload(payload), folder)


def _index_later(vault: Vault) -> None:
    """Index the writes in another process, so that no command has to wait for it."""
    from vaultmem.services.views.read_index import is_index_stale

    if is_index_stale(vault):
        _run_apart(["index", "--vault", str(vault.root)])


def _run_apart(words: list[str], data: bytes = b"", folder: str | None = None) -> None:
    import subprocess

    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "vaultmem", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
    )
    assert child.stdin is not None  # noqa: S101
    with child.stdin as stdin:
        stdin.write(data)
    child.returncode = 0  # It continues on its own; no process waits for it.


def _keep(vault: str, event: str, error: Exception) -> None:
    """Store an error for `vaultmem doctor`."""
    if isinstance(error, NoVaultError):  # Without a vault, this is not an error.
        return
    try:
        from vaultmem.storage.session_table import log_error

        folder = CommandContext(vault).open().state_folder
        kind = "" if isinstance(error, VaultError) else f"{type(error).__name__}: "
        log_error(folder, event, f"{kind}{error}")
    except Exception:  # noqa: BLE001  Nor must these errors stop the agent.
        return
