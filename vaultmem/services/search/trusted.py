"""Trust a vault's policies, skills and preferences, and sign the trust record."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from vaultmem.core.lifecycle import OWNER_KINDS, NoteState
from vaultmem.core.notes.record import NoteRecord
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.services.views.trust_withdrawal import list_due
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.machine_refs import find_signed
from vaultmem.storage.trust_record import (
    NAMESPACE,
    SignedList,
    TrustList,
    allow_signer,
    find_signer,
    format_list,
    is_installed,
    parse_list,
    read_public_key,
    sign,
)
from vaultmem.vault import Vault

# Sign the trust record here and verify signed lists from elsewhere, so that trust can travel.

#: The most lists to verify at once, newest first.
_MAX_VERIFIED_LISTS = 100


def sign_trust(vault: Vault, notes: dict[str, str], key: str = "") -> str:
    """Sign these notes (path to text digest) as the whole trusted list; return the signer's name.

    `key` is a file; the default is git's signing key, then ~/.ssh/id_ed25519. It becomes an allowed
    signer here.

    Raises:
        RefusedError: the caller is an agent, or the vault has no name that other machines know.
        VaultError: signing with the key failed.
    """
    vault.require_person("only a person signs what is trusted")
    names = vault.store.find_names()
    if not names:
        raise RefusedError(
            "this vault has no first commit that other machines know; commit something, or "
            "run `git fetch --unshallow`"
        )
    file = _find_key(vault, key)
    public = file if file.suffix == ".pub" else file.with_name(f"{file.name}.pub")
    try:
        name, public_key = read_public_key(public.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise RefusedError(f"{public}: cannot be read; give the key with --key FILE") from None
    verify_signed(vault)
    lists = [parse_list(each.text) for each in vault.store.signed_trust.lists()]
    serial = 1 + max((each.serial for each in lists if each), default=0)
    date = datetime.fromtimestamp(vault.now(), UTC).isoformat(timespec="seconds")
    trust_list = TrustList(max(serial, int(vault.now())), date, names, notes)
    text = format_list(trust_list)
    signature = sign(text.encode(), file, NAMESPACE)
    signers_file = vault.store.signers_file
    allow_signer(
        signers_file, _ask_git(vault, "user.email") or name.split(" ")[0], public_key, NAMESPACE
    )
    verify_signed(vault, [SignedList("", text, signature)])
    return find_signer(text.encode(), signature, signers_file, NAMESPACE)


def allow_key(vault: Vault, source: str) -> str:
    """Trust lists signed with a key on this machine; return the signer's name.

    `source` is a file with a public key, or `NAME KEY`.

    Raises:
        RefusedError: the caller is an agent, or `source` is not a public key.
    """
    vault.require_person("only a person can allow a signer")
    file = Path(source).expanduser()
    text = file.read_text(encoding="utf-8") if len(source) < 1_000 and file.is_file() else source
    name, key = read_public_key(text)
    name = name.split(" ")[0] or _ask_git(vault, "user.email")
    allow_signer(vault.store.signers_file, name, key, NAMESPACE)
    verify_signed(vault)
    return name


def verify_signed(vault: Vault, more: Iterable[SignedList] = ()) -> int:
    """Verify all signed lists of this vault, and store the newest of each signer.

    Return the number of lists without an allowed signer.

    A stored list counts until a newer one by the same signer replaces it, even if older ones
    reappear. Without an allowed signer or ssh-keygen, no list counts.
    """
    store = vault.store.signed_trust
    incoming = [] if vault.head() is None else find_signed(vault.history)
    unique = dict.fromkeys(
        (each.text, each.signature) for each in (*more, *store.lists(), *incoming)
    )
    parsed_lists = [(parse_list(each[0]), each) for each in unique]
    own_lists = [
        (trust_list, each)
        for trust_list, each in parsed_lists
        if trust_list and store.is_meant(trust_list.names)
    ]
    own_lists.sort(key=lambda pair: -pair[0].serial)
    files = list(_list_signers(vault)) if own_lists and is_installed() else []
    newest: dict[str, SignedList] = {}
    unknown: list[SignedList] = []
    for _, (text, signature) in own_lists[:_MAX_VERIFIED_LISTS]:
        signer = _verify(text, signature, files)
        if signer:
            newest.setdefault(signer, SignedList(signer, text, signature))
        else:
            unknown.append(SignedList("", text, signature))
    stored_lists = {each[1:] for each in store.lists()}
    lapsed = [each for each in unknown if each[1:] in stored_lists]
    if newest or stored_lists:
        signers = [str(vault.store.signers_file), *(str(file) for file, _ in files)]
        store.write([*newest.values(), *lapsed], dict.fromkeys(signers), vault.now())
    return len(unknown)


def _verify(text: str, signature: str, files: Iterable[tuple[Path, str]]) -> str:
    signers = (find_signer(text.encode(), signature, file, NAMESPACE, name) for file, name in files)
    return next(filter(None, signers), "")


def _list_signers(vault: Vault) -> Iterator[tuple[Path, str]]:
    """Yield the files of allowed signers, each with the only name that counts ("" for all).

    In the user's own git file, only the user counts, not colleagues. Settings and files of the
    repository do not count.
    """
    if _is_own(vault, vault.store.signers_file):
        yield vault.store.signers_file, ""
    email = _ask_git(vault, "user.email")
    file = Path(_ask_git(vault, "gpg.ssh.allowedSignersFile", "--type=path"))
    if email and _is_own(vault, file):
        yield file, email


def _is_own(vault: Vault, file: Path) -> bool:
    """Return whether a file exists outside the work tree, where vault writers cannot change it."""
    if not (file.is_absolute() and file.is_file()):
        return False
    return not file.resolve().is_relative_to(vault.history.git.work_tree.resolve())


def _find_key(vault: Vault, key: str) -> Path:
    if key:
        return Path(key).expanduser()
    setting = _ask_git(vault, "user.signingkey", "--type=path")
    if setting and Path(setting).is_absolute():
        return Path(setting)
    return Path(os.path.expanduser("~/.ssh/id_ed25519"))


def _ask_git(vault: Vault, key: str, *options: str) -> str:
    """Return a setting of the user's global git config, never of the repository."""
    if vault.head() is None:
        return ""
    try:
        command = ("config", "--global", *options, "--get", key)
        return vault.history.git.run(*command, fine=(0, 1))
    except VaultError:
        return ""


_KINDS = ", ".join(f"'{kind.value}'" for kind in OWNER_KINDS)
_OWNED = f"d.kind IN ({_KINDS})"
_RULE = "only a person can trust a vault"


def list_owned(vault: Vault) -> list[NoteRecord]:
    """Return the active policies, skills and preferences, which count once they are trusted."""
    return vault.view.records(f"{_OWNED} AND d.state = '{NoteState.ACTIVE.value}'")


def trust_vault(vault: Vault, companions: Iterable[str] = ()) -> list[str]:
    """Trust the vault with all notes of `list_owned`; return the paths.

    `companions` are the folders of other vaults that may be queried with this one.

    Raises:
        RefusedError: the caller is an agent.
    """
    vault.require_person(_RULE)
    sync_vault(vault)
    notes = {record.path: record.body_digest for record in list_owned(vault)}
    vault.trust.record(notes, [*companions])
    return list(notes)


def import_trust(vault: Vault, place: str) -> list[str]:
    """Trust the vault with the texts trusted at another path of the same repository.

    Return the notes that are now trusted here.

    Raises:
        NoteNotFoundError: this repository is not trusted there.
        RefusedError: the caller is an agent.
    """
    vault.require_person(_RULE)
    sync_vault(vault)
    path = os.path.abspath(os.path.expanduser(place))
    trust_record = next((each for each in vault.trust.list_copies() if each.vault == path), None)
    if trust_record is None:
        raise NoteNotFoundError(
            f"{place}: this repository is not trusted there; `vaultmem doctor` shows where it is"
        )
    vault.trust.record(trust_record.notes)
    documents = trusted_documents(vault)
    return [record.path for record in vault.view.records() if record.document in documents]


def describe_trust_elsewhere(vault: Vault) -> str:
    """Return where else the repository is trusted, and the command to import that; "" if nowhere.

    It is also "" if the vault is trusted here, or has no note that could instruct.
    """
    if vault.trust.is_trusted() or _read_signed(vault):
        return ""
    for record in vault.trust.list_copies():
        if not list_owned(vault):
            break
        command = f"`vaultmem trust --from {shlex.quote(record.vault)}`"
        if record.vault == str(vault.root):
            reason = "another history was here when this vault was trusted"
        else:
            reason = f"not trusted here, but this repository is at {record.vault}"
        return f"{reason}; if this one is yours too, {command} takes over what you vouched for"
    return ""


def trusted_documents(vault: Vault) -> frozenset[int]:
    """Return the documents whose current text is trusted."""
    notes = vault.trust.notes()
    signed_texts = _read_signed(vault)
    if not (notes or signed_texts):
        return frozenset()
    due = list_due(vault)
    return frozenset(
        record.document
        for record in vault.view.records(_OWNED)
        for text in [(record.path, record.body_digest)]
        if text not in due
        and (record.body_digest in notes.get(record.path, ()) or text in signed_texts)
    )


def drop_trust(vault: Vault, addresses: Sequence[str]) -> list[str]:
    """Withdraw the trust in these notes without changing them; return those that were trusted.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: the caller is an agent.
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
    """Return path and digest of each text that a valid signature trusts.

    Texts withdrawn after the signature are excluded.
    """
    signed_texts = vault.store.signed_trust.notes(vault.now())
    if signed_texts is None:
        with contextlib.suppress(VaultError):  # Unverified lists do not count.
            verify_signed(vault)
        signed_texts = vault.store.signed_trust.notes(vault.now())
    if not signed_texts:
        return set()
    withdrawn_texts = vault.trust.withdrawn()
    return {
        text for text, serial in signed_texts.items() if serial > withdrawn_texts.get(text, 0.0)
    }


def list_trusted(vault: Vault) -> list[str]:
    """Return the active policies, skills and preferences that are trusted here."""
    sync_vault(vault)
    documents = trusted_documents(vault)
    return [record.path for record in list_owned(vault) if record.document in documents]


def sign_trusted(vault: Vault, key: str = "") -> tuple[str, list[str]]:
    """Sign the trusted active policies, skills and preferences; return the signer and the paths.

    Raises:
        RefusedError: no note was ever trusted here, or as for `sign_trust`.
    """
    sync_vault(vault)
    documents = trusted_documents(vault)
    notes = {r.path: r.body_digest for r in list_owned(vault) if r.document in documents}
    if not (notes or vault.trust.is_trusted() or vault.store.signed_trust.lists()):
        raise RefusedError("nothing is trusted here yet; say `vaultmem trust` first")
    return sign_trust(vault, notes, key), list(notes)
