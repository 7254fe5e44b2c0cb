"""Say that a vault is one's own, and that its policies, skills and preferences count."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Sequence

from vaultmem.core.lifecycle import OWNER_KINDS, State
from vaultmem.core.notes.record import NoteRecord
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.reading.withdraw import list_due
from vaultmem.vault import Vault

_KINDS = ", ".join(f"'{kind.value}'" for kind in OWNER_KINDS)
_OWNED = f"d.kind IN ({_KINDS})"
_RULE = "only a person says that a vault is theirs"


def list_owned(vault: Vault) -> list[NoteRecord]:
    """Return the active policies, skills and preferences, which count once they are trusted."""
    return vault.view.records(f"{_OWNED} AND d.state = '{State.ACTIVE.value}'")


def trust_vault(vault: Vault, companions: Iterable[str] = ()) -> list[str]:
    """Trust the vault with all that `list_owned` names; return the paths.

    `companions` are the folders of other vaults that may be asked whenever it is.

    Raises:
        RefusedError: an agent asks.
    """
    vault.require_person(_RULE)
    sync_vault(vault)
    notes = {record.path: record.body_digest for record in list_owned(vault)}
    vault.trust.record(notes, [*companions])
    return list(notes)


def take_trust(vault: Vault, place: str) -> list[str]:
    """Trust the vault with what was vouched for at another place of the same repository.

    Only texts that were vouched for there may instruct here; their notes are returned.

    Raises:
        NoteNotFoundError: nothing of this repository is trusted there.
        RefusedError: an agent asks.
    """
    vault.require_person(_RULE)
    sync_vault(vault)
    wanted = os.path.abspath(os.path.expanduser(place))
    found = next((each for each in vault.trust.elsewhere() if each.vault == wanted), None)
    if found is None:
        raise NoteNotFoundError(
            f"{place}: this repository is not trusted there; `vaultmem doctor` says where it is"
        )
    vault.trust.record(found.notes)
    documents = trusted_documents(vault)
    return [record.path for record in vault.view.records() if record.document in documents]


def tell_trust_elsewhere(vault: Vault) -> str:
    """Return where else the vault's repository is trusted, and how that is taken over; "" if not.

    Nothing is to be said where the vault is trusted here, or has nothing that could instruct.
    """
    if vault.trust.is_trusted() or _read_signed(vault):
        return ""
    for record in vault.trust.elsewhere():
        if not list_owned(vault):
            break
        command = f"`vaultmem trust --from {shlex.quote(record.vault)}`"
        if record.vault == str(vault.root):
            what = "another history stood here when this vault was trusted"
        else:
            what = f"not trusted here, but this repository is at {record.vault}"
        return f"{what}; if this one is yours too, {command} takes over what you vouched for"
    return ""


def trusted_documents(vault: Vault) -> frozenset[int]:
    """Return the documents whose text is the one that was promoted on record."""
    notes = vault.trust.notes()
    signed = _read_signed(vault)
    if not (notes or signed):
        return frozenset()
    due = list_due(vault)
    return frozenset(
        record.document
        for record in vault.view.records(_OWNED)
        for text in [(record.path, record.body_digest)]
        if text not in due and (record.body_digest in notes.get(record.path, ()) or text in signed)
    )


def drop_trust(vault: Vault, addresses: Sequence[str]) -> list[str]:
    """Withdraw the trust in these notes, which stay as they are; return those that were trusted.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: an agent asks.
    """
    vault.require_person("only a person withdraws trust")
    sync_vault(vault)
    paths = {str(resolve_address(vault, address)[0]) for address in addresses}
    documents = trusted_documents(vault)
    records = [each for each in vault.view.records(_OWNED) if each.path in paths]
    notes = vault.trust.notes()
    texts = {(path, digest) for path in paths for digest in notes.get(path, ())}
    vault.trust.withdraw(texts | {(r.path, r.body_digest) for r in records}, vault.now())
    return [record.path for record in records if record.document in documents]


def _read_signed(vault: Vault) -> set[tuple[str, str]]:
    """Return path and digest of each text that a signature vouches for that counts.

    A text that was withdrawn after the signature does not.
    """
    signed = vault.store.signed_trust.notes(vault.now())
    if signed is None:
        from vaultmem.services.signed_trust import verify_signed

        with contextlib.suppress(VaultError):  # What cannot be verified counts for nothing.
            verify_signed(vault)
        signed = vault.store.signed_trust.notes(vault.now())
    if not signed:
        return set()
    withdrawn = vault.trust.withdrawn()
    return {text for text, serial in signed.items() if serial > withdrawn.get(text, 0.0)}


def list_trusted(vault: Vault) -> list[str]:
    """Return the active policies, skills and preferences that are trusted here."""
    sync_vault(vault)
    documents = trusted_documents(vault)
    return [record.path for record in list_owned(vault) if record.document in documents]


def sign_trusted(vault: Vault, key: str = "") -> tuple[str, list[str]]:
    """Sign the active policies, skills and preferences that are trusted here; return who and which.

    Raises:
        RefusedError: nothing was ever trusted here, or as for `sign_trust`.
    """
    from vaultmem.services.signed_trust import sign_trust

    sync_vault(vault)
    documents = trusted_documents(vault)
    notes = {r.path: r.body_digest for r in list_owned(vault) if r.document in documents}
    if not (notes or vault.trust.is_trusted() or vault.store.signed_trust.lists()):
        raise RefusedError("nothing is trusted here yet; say `vaultmem trust` first")
    return sign_trust(vault, notes, key), list(notes)
