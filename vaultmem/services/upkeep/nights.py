"""Whether a night has come for what the watcher does by night: once after three in the morning."""

from __future__ import annotations

from datetime import timedelta

from vaultmem.vault import Vault

#: Days between two nights, by the setting's value.
_DAYS = {"never": 0, "day": 1, "week": 7}


def is_night(vault: Vault, every: str, work: str) -> bool:
    """Tell whether a night has come since the work was done last; `every` is the setting's value.

    `work` is the name under which `note_night` keeps when that was.
    """
    days = _DAYS[every]
    if not days:
        return False
    now = vault.local_time()
    night = now.replace(hour=3, minute=0, second=0, microsecond=0)
    if now < night:
        night -= timedelta(days=1)
    last = float(vault.state.get(work) or 0)
    return last < (night - timedelta(days=days - 1)).timestamp()


def note_night(vault: Vault, work: str) -> None:
    """Keep that the work was done now; a cache, without which it is done once more."""
    vault.state.put(work, str(vault.now()))
