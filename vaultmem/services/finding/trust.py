"""Say that a vault is one's own, and that its policies and skills may instruct."""

from __future__ import annotations

from vaultmem.core.lifecycle import INSTRUCTION_KINDS, State
from vaultmem.services.reading.sync import sync_vault
from vaultmem.vault import Vault


def trust_vault(vault: Vault) -> list[str]:
    """Trust the vault with every policy and skill that is active now; return their paths."""
    sync_vault(vault)
    notes = {
        record.path: record.body_digest
        for record in vault.view.records()
        if record.kind in INSTRUCTION_KINDS and record.state == State.ACTIVE
    }
    vault.trust.record(notes)
    return list(notes)


def trusted_documents(vault: Vault) -> frozenset[int]:
    """Return the documents whose text is the one that was promoted on record."""
    notes = vault.trust.notes()
    if not notes:
        return frozenset()
    kinds = ", ".join(f"'{kind.value}'" for kind in INSTRUCTION_KINDS)
    return frozenset(
        record.document
        for record in vault.view.records(f"d.kind IN ({kinds})")
        if notes.get(record.path) == record.body_digest
    )
