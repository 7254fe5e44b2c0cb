"""Sign what is trusted here, and verify what was signed elsewhere, so that trust can travel."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from vaultmem.core.trust_list import NAMESPACE, TrustList, format_list, parse_list
from vaultmem.errors import RefusedError, VaultError
from vaultmem.storage.machines import find_signed
from vaultmem.storage.ssh_signatures import (
    allow_signer,
    find_signer,
    is_installed,
    read_public_key,
    sign,
)
from vaultmem.storage.trust import SignedList
from vaultmem.vault import Vault

#: Lists that are verified at once, the newest first.
_MOST = 100


def sign_trust(vault: Vault, notes: dict[str, str], key: str = "") -> str:
    """Sign these notes (path to text digest) as all that is vouched for; return the signer's name.

    The key is a file's, else the one that git signs with, else ~/.ssh/id_ed25519. It becomes an
    allowed signer here.

    Raises:
        RefusedError: an agent asks, or the vault has no name that other machines know.
        VaultError: nothing could be signed with the key.
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
    known = [parse_list(each.text) for each in vault.store.signed_trust.lists()]
    serial = 1 + max((each.serial for each in known if each), default=0)
    date = datetime.fromtimestamp(vault.now(), UTC).isoformat(timespec="seconds")
    listed = TrustList(max(serial, int(vault.now())), date, names, notes)
    text = format_list(listed)
    signature = sign(text.encode(), file, NAMESPACE)
    own = vault.store.signers_file
    allow_signer(own, _ask_git(vault, "user.email") or name.split(" ")[0], public_key, NAMESPACE)
    verify_signed(vault, [SignedList("", text, signature)])
    return find_signer(text.encode(), signature, own, NAMESPACE)


def allow_key(vault: Vault, given: str) -> str:
    """Let lists that a key signs vouch for notes on this machine; return the signer's name.

    What is given is a file with a public key, or `NAME KEY`.

    Raises:
        RefusedError: an agent asks, or it is no public key.
    """
    vault.require_person("only a person says whose signature counts")
    file = Path(given).expanduser()
    text = file.read_text(encoding="utf-8") if len(given) < 1_000 and file.is_file() else given
    name, key = read_public_key(text)
    name = name.split(" ")[0] or _ask_git(vault, "user.email")
    allow_signer(vault.store.signers_file, name, key, NAMESPACE)
    verify_signed(vault)
    return name


def verify_signed(vault: Vault, more: Iterable[SignedList] = ()) -> int:
    """Verify all signed lists of this vault that have arrived, and keep the newest of each signer.

    Return how many are by nobody who is allowed to sign.

    A list that was kept counts until a newer one by the same signer takes its place, wherever
    older ones turn up again. Where nobody is allowed, or there is no ssh-keygen, none counts.
    """
    store = vault.store.signed_trust
    arrived = [] if vault.head() is None else find_signed(vault.history)
    unique = dict.fromkeys(
        (each.text, each.signature) for each in (*more, *store.lists(), *arrived)
    )
    listed = [(parse_list(each[0]), each) for each in unique]
    meant = [(found, each) for found, each in listed if found and store.is_meant(found.names)]
    meant.sort(key=lambda pair: -pair[0].serial)
    files = list(_list_signers(vault)) if meant and is_installed() else []
    newest: dict[str, SignedList] = {}
    unknown: list[SignedList] = []
    for _, (text, signature) in meant[:_MOST]:
        signer = _verify(text, signature, files)
        if signer:
            newest.setdefault(signer, SignedList(signer, text, signature))
        else:
            unknown.append(SignedList("", text, signature))
    kept = {each[1:] for each in store.lists()}
    lapsed = [each for each in unknown if each[1:] in kept]
    if newest or kept:
        signers = [str(vault.store.signers_file), *(str(file) for file, _ in files)]
        store.write([*newest.values(), *lapsed], dict.fromkeys(signers), vault.now())
    return len(unknown)


def _verify(text: str, signature: str, files: Iterable[tuple[Path, str]]) -> str:
    found = (find_signer(text.encode(), signature, file, NAMESPACE, name) for file, name in files)
    return next(filter(None, found), "")


def _list_signers(vault: Vault) -> Iterator[tuple[Path, str]]:
    """Yield the files of allowed signers, each with the name that alone counts there ("" for all).

    Of those whom the person's git knows, colleagues among them, only the person counts. What the
    repository says of itself does not, nor does a file that comes with it.
    """
    if _is_own(vault, vault.store.signers_file):
        yield vault.store.signers_file, ""
    email = _ask_git(vault, "user.email")
    file = Path(_ask_git(vault, "gpg.ssh.allowedSignersFile", "--type=path"))
    if email and _is_own(vault, file):
        yield file, email


def _is_own(vault: Vault, file: Path) -> bool:
    """Tell whether a file is there that nobody can change who changes the vault."""
    if not (file.is_absolute() and file.is_file()):
        return False
    return not file.resolve().is_relative_to(vault.history.git.work_tree.resolve())


def _find_key(vault: Vault, key: str) -> Path:
    if key:
        return Path(key).expanduser()
    named = _ask_git(vault, "user.signingkey", "--type=path")
    if named and Path(named).is_absolute():
        return Path(named)
    return Path(os.path.expanduser("~/.ssh/id_ed25519"))


def _ask_git(vault: Vault, key: str, *options: str) -> str:
    """Return a setting of the person's own, never one of the repository's."""
    if vault.head() is None:
        return ""
    try:
        command = ("config", "--global", *options, "--get", key)
        return vault.history.git.run(*command, fine=(0, 1))
    except VaultError:
        return ""
