"""Check who works on the vault: the watcher, whoever holds its lock, and the hooks of agents."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import vaultmem
from vaultmem.core.check import Check, Verdict
from vaultmem.errors import VaultError
from vaultmem.services.watching.watching import find_watcher
from vaultmem.storage.hook_trouble import TROUBLE_FILE
from vaultmem.storage.lock import hold_lock, is_held
from vaultmem.vault import Vault

#: What a watcher that was killed leaves in the state folder.
_LEFT = ("watch.json", "watch.sock")

_LAST_BYTES = 64 * 1024


def check_watcher(vault: Vault, fix: bool) -> Check:
    """Tell who watches, and see to it that nothing is left of a watcher that was killed."""
    folder = vault.state_folder
    if is_held(folder / "watch.lock"):
        found = find_watcher(vault)
        if found is None:
            told = "a process watches, and does not say which"
            holders = _find_holders(folder / "watch.lock")
            return Check("watcher", Verdict.WARNING, told, holders, "end it, and start it again")
        told = f"process {found.pid} watches"
        if found.version == vaultmem.__version__:
            return Check("watcher", told=told)
        told += f", of version {found.version}; this is {vaultmem.__version__}"
        remedy = "`vaultmem watch --stop`, and start it again"
        return Check("watcher", Verdict.WARNING, told, remedy=remedy)
    left = [folder / name for name in _LEFT if os.path.lexists(folder / name)]
    done: list[str] = []
    if left and fix:
        with contextlib.suppress(VaultError), hold_lock(folder / "watch.lock", 0.0):
            for file in left:
                file.unlink(missing_ok=True)
                done.append(f"{file} is removed")
            left = []
    if not left:
        return Check("watcher", told="nobody watches", fixed=tuple(done))
    remedy = "`vaultmem watch` starts another; `vaultmem doctor --fix` removes what this one left"
    told = "a watcher was killed"
    return Check("watcher", Verdict.PROBLEM, told, tuple(map(str, left)), remedy)


def check_lock(vault: Vault) -> Check:
    """Tell whether somebody writes to the vault; the system gives the lock of a dead one back."""
    file = vault.state_folder / "lock"
    if not is_held(file):
        return Check("vault's lock")
    remedy = "wait for it; if it stays, end that process"
    told = "another vaultmem writes to this vault"
    return Check("vault's lock", Verdict.WARNING, told, _find_holders(file), remedy)


def check_hooks(vault: Vault) -> Check:
    """Tell of what went wrong in hooks, which never stop an agent and so never say it."""
    file = vault.state_folder / TROUBLE_FILE
    try:
        with open(file, "rb") as lines:
            size = os.fstat(lines.fileno()).st_size
            lines.seek(max(size - _LAST_BYTES, 0))
            text = lines.read(_LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return Check("hooks")
    told = [_describe_trouble(line) for line in text.splitlines()[size > _LAST_BYTES :] if line]
    if not told:
        return Check("hooks")
    return Check(
        "hooks",
        Verdict.WARNING,
        f"{len(told):,} times something went wrong, last {told[-1].partition('  ')[0]}",
        tuple(reversed(told)),
        f"correct what they tell, and remove {file}",
    )


def _describe_trouble(line: str) -> str:
    try:
        told = json.loads(line)
        at, event, error = told["at"], told["event"], told["error"]
    except (ValueError, KeyError, TypeError):
        return line
    with contextlib.suppress(OverflowError, OSError, ValueError):
        if isinstance(at, (int, float)):
            at = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    return f"{at}  {event}: {error}"


def _find_holders(file: Path) -> tuple[str, ...]:
    """Return the processes that hold a lock on a file, where the system tells them (Linux)."""
    try:
        inode = file.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()
    fields = [line.split() for line in lines if "->" not in line]
    found = [each[4] for each in fields if len(each) > 5 and each[5].endswith(f":{inode}")]
    return tuple(f"process {pid}" for pid in sorted(set(found)))
