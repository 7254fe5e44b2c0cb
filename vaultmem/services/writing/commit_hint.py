"""A hint at a vault's first uncommitted write: what will commit it."""

from __future__ import annotations

from vaultmem.services.writing.pending import is_persons
from vaultmem.vault import Vault

_KEY = "commit_hint"


def hint_commit(vault: Vault) -> str:
    """Return what commits what was just written, "" if it is committed or that was said before."""
    if vault.state.get(_KEY) or vault.head() is None:
        return ""
    if not any(vault.journal.has_writes(path) for path in vault.notices.written):
        return ""
    vault.state.put(_KEY, "said")
    after = vault.config.commit_edits_after_seconds
    if after and is_persons(vault.author):
        return (
            f"not committed yet; `vaultmem watch` commits it after {after:,} seconds without a "
            "save, `vaultmem checkpoint` at once"
        )
    ends = "" if is_persons(vault.author) else " or the end of the session"
    return f"not committed yet; the next `vaultmem checkpoint`{ends} commits it"
