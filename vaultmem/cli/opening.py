"""The life of a command: opening its vault, printing its errors, ending the process."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from vaultmem.cli.interrupt import end_at_once, let_command_see
from vaultmem.cli.output import (
    ProgressLine,
    answer_program,
    emit_error,
    end_line,
    follow_writes,
    following,
    print_hint,
    print_stale_reason,
    print_written_branch,
    warn,
)
from vaultmem.core.text.display import format_names
from vaultmem.errors import SystemFailureError, VaultError, wrap_os_error
from vaultmem.storage.lock import READER, WRITER

if TYPE_CHECKING:
    from pathlib import Path

    from vaultmem.config import Config
    from vaultmem.services.vaults.companions import VaultPool
    from vaultmem.vault import UserFolders, Vault

_given: dict[str, str] = {}

#: The vaults given before the command.
_named: list[str] = []

#: The vaults that this process opened, to be closed at the end.
_opened: list[Vault] = []

#: In the watcher's process: its open vault, and a function that returns whether it is indexed.
_warm: tuple[Vault, Callable[[], bool]] | None = None


def cache_vault(vault: Vault, is_in_sync: Callable[[], bool]) -> None:
    """Reuse this open vault for all commands that this process runs."""
    global _warm
    _warm = (vault, is_in_sync)


def remember_globals(vaults: list[str], agent: str, session: str, ref: str) -> None:
    """Store the options that were given before the command's name."""
    _given.update(agent=agent, session=session, ref=ref, json="")
    _named[:] = vaults


def set_json_errors() -> None:
    """Print an error of this command as a line of JSON."""
    _given["json"] = "1"


class CommandContext(NamedTuple):
    """A command's common options; those that it does not have are empty."""

    vault: str = ""
    ref: str = ""
    at: str = ""
    agent: str = ""
    session: str = ""
    as_json: bool = False

    def open(
        self, reads: bool = False, config: Config | None = None, for_owner: bool = False
    ) -> Vault:
        """Open the vault that the options name; with `reads`, wait for no writer.

        `config` replaces vaultmem.yaml. `for_owner` is as for `open_named_vault`.
        """
        from vaultmem.environment import open_named_vault

        print_stale_reason("")
        vault = open_named_vault(
            _choose_one(self.vault),
            agent=self.agent or _given.get("agent", ""),
            session=self.session or _given.get("session", ""),
            ref=self.ref or _given.get("ref", ""),
            config=config,
            for_owner=for_owner,
            patience=READER if reads else WRITER,
        )
        follow_writes(vault.notices.branches, vault.notices.suspicious)
        place = vault.store.state_place
        if place.is_new:
            warn(f"{place.lack}; answers come from {vault.state_folder}, made anew")
        if _warm is None:
            _opened.append(vault)
        elif _warm[0].root == vault.root:
            vault = replace(vault, store=_warm[0].store, view=_warm[0].view)
        _set_driver(vault)
        _warn_of_copy(vault)
        return vault

    def open_synced(self, reads: bool = False) -> Vault:
        """Open the vault and update its index, with a progress line if that takes long.

        With `reads`, the old index is used while another process writes, and the reason is printed.
        """
        vault = self.open(reads)
        if not reads:
            _catch_up(vault)
            return vault
        from vaultmem.services.views.update_index import read_nonblocking

        read_nonblocking(vault, _catch_up)
        print_stale_reason(vault.notices.stale)
        return vault

    def open_view(self, reads: bool = False) -> Vault:
        """Open the indexed vault at the version that the options name, by default the folder."""
        vault = self.open_synced(reads)
        if not (self.at or vault.ref):
            return vault
        from vaultmem.services.views.open_view import view_at

        return view_at(vault, self.at, progress=ProgressLine("reading notes of git"))


def _warn_of_copy(vault: Vault) -> None:
    """Report once that the vault is a copy, and that the original keeps its data."""
    source, key = vault.store.id.copied_from, "copy_reported"
    if source and not vault.state.get(key):
        vault.state.keep(key, "1")
        warn(f"a copy of {source}, which keeps counts and receipts; see `vaultmem doctor`")


def _set_driver(vault: Vault) -> None:
    """Install the merge driver in a plain clone, and report it."""
    from vaultmem.config import CONFIG_NAME
    from vaultmem.storage.git.head import is_plain_clone

    if not (is_plain_clone(vault.root) and (vault.root / CONFIG_NAME).is_file()):
        return
    from vaultmem.storage.git.setup import install_driver

    with contextlib.suppress(VaultError, OSError), vault.lock(0.0):  # The next command tries again.
        if install_driver(vault.history):
            warn("a clone: from now on git merges its notes property by property (.git/config)")


def _choose_one(vault: str) -> str:
    """Return the only vault that was named.

    Raises:
        RefusedError: several are named.
    """
    from vaultmem.errors import RefusedError

    vaults = [*_named, *([vault] if vault else [])]
    if len(set(_named)) > 1 or (vault and _named and vault not in _named):
        raise RefusedError(
            f"this command works on one vault, and {len(vaults)} are named: {', '.join(vaults)}; "
            "name one (recall, pack and list take several)"
        )
    return vaults[0] if vaults else ""


def find_named_root(vault: str | list[str]) -> Path:
    """Return the folder of a command's vault without opening it.

    Raises:
        NoVaultError: no vault was found.
    """
    from vaultmem.config import find_root
    from vaultmem.environment import find_named_vault

    vaults = [*_named, *([vault] if isinstance(vault, str) else vault)]
    return find_root(find_named_vault(next(filter(None, vaults), None)))


def has_named() -> bool:
    """Return whether a vault was named before the command."""
    return bool(_named)


def extract_vaults() -> list[str]:
    """Return and clear the vaults given before a command that accepts several."""
    vaults = [*_named]
    _named.clear()
    return vaults


def open_other(path: str) -> Vault:
    """Open another vault for reading only."""
    from vaultmem.environment import open_named_vault

    vault = open_named_vault(path, agent=_given.get("agent", ""), patience=READER)
    if _warm is not None:
        return _cache_others(vault.folders).lend(vault)
    from vaultmem.services.views.update_index import read_nonblocking
    from vaultmem.services.watching.lease import catch_up

    _opened.append(vault)
    read_nonblocking(vault, catch_up)
    return vault


@cache
def _cache_others(folders: UserFolders) -> VaultPool:
    """Return the cache of other open vaults, for a process that runs many commands."""
    from vaultmem.services.vaults.companions import VaultPool

    return VaultPool(folders)


def _catch_up(vault: Vault) -> None:
    with following(vault) as progress:
        if _warm is None:
            from vaultmem.services.watching.lease import catch_up

            catch_up(vault, progress)
            return
        from vaultmem.services.views.read_index import is_index_stale
        from vaultmem.services.views.update_index import mark_in_sync, sync_vault

        if _warm[1]() and not is_index_stale(vault):
            mark_in_sync(vault)
        else:
            sync_vault(vault, progress)


def run(command: Callable[[], object]) -> int:
    """Run a command and return its exit code; an expected failure prints one line."""
    code, before = 0, len(_opened)
    answer_program(False)
    let_command_see()
    try:
        command()
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except (VaultError, OSError) as error:
        vault_error = wrap_os_error(error)
        if isinstance(vault_error, SystemFailureError) and not vault_error.outcome:
            vault_error = SystemFailureError(vault_error.fault, _print_written())
        code = vault_error.exit_code
        if _given.get("json"):
            emit_error(str(vault_error), code)
        else:
            warn(f"error: {vault_error}")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if not code:
        _print_stale_reason()
    return _flush(code, lambda: _find_hint(_opened[before:]))


def _print_written() -> str:
    """Return which notes this command has written, for an error message."""
    paths = list(dict.fromkeys(path for vault in _opened for path in vault.notices.written))
    if not paths:
        return "no note was written"
    return f"{format_names(paths)} is written, but not all was done"


def _print_stale_reason() -> None:
    """Warn if the index of a written vault is out of date."""
    for fault in {text: None for vault in _opened for text in vault.notices.faults[:1]}:
        warn(f"it is written, but the index is out of date: {fault}; the next command catches up")


def _find_hint(vaults: Iterable[Vault]) -> str:
    """Return how to commit the first uncommitted write of a vault."""
    for vault in vaults:
        if vault.notices.written:
            from vaultmem.services.changes.commit import hint_commit

            with contextlib.suppress(VaultError, OSError):
                if hint := hint_commit(vault):
                    return hint
    return ""


def _flush(code: int, find_hint: Callable[[], str]) -> int:
    """Flush the output and print a hint; return the exit code, 1 if printing failed."""
    try:
        if not code:
            print_written_branch()
        sys.stdout.flush()
        if not code:
            print_hint(find_hint)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        with contextlib.suppress(OSError, AttributeError):  # Otherwise Python tries again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
        if not code:
            warn(f"error: it is done, but cannot be printed: {wrap_os_error(error)}")
        return code or 1
    return code


def _compare_incoming() -> None:
    """Compare notes from other machines if this command wrote to their vault."""
    for vault in _opened:
        with contextlib.suppress(VaultError, OSError):
            if vault.notices.written and vault.state.get("arrived"):
                from vaultmem.services.curation.incoming_notes import (
                    QUICK_COMPARE_SECONDS,
                    compare_incoming,
                )

                compare_incoming(vault, QUICK_COMPARE_SECONDS)


def end_process(code: int) -> NoReturn:
    """Close what was opened, and end the process.

    Other objects are left to the system, because a garbage collection takes 20 ms.
    """
    end_line()
    _compare_incoming()
    while _opened:
        _opened.pop().close()
    gc.freeze()
    end_at_once()
    sys.exit(code)
