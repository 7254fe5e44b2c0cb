"""Find a commit by its name, and a note in it by its address."""

from __future__ import annotations

import unicodedata

from vaultmem.core.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.git.commits import TreeEntry
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault


def find_commit(vault: Vault) -> str:
    """Return the commit that the vault's ref names, "" where what it names is the folder.

    Raises:
        NoteNotFoundError: there is no such ref.
    """
    if not vault.ref:
        return ""
    target = vault.history.refs.resolve(vault.ref)
    checked_out = target.branch and target.branch == vault.history.head().branch
    return "" if checked_out else target.commit


def resolve_commit(vault: Vault, name: str) -> str:
    """Return the full id of the commit that a branch, tag, id or date stands for.

    A date is one of the vault's ref.

    Raises:
        NoteNotFoundError: there is none.
        RefusedError: the name is unsafe or ambiguous.
    """
    try:
        return vault.history.refs.resolve(name, within=find_commit(vault) or "HEAD").commit
    except NoteNotFoundError:
        if vault.history.head().commit:
            raise
        raise NoteNotFoundError(
            f"{name}: nothing is committed here yet; `vaultmem checkpoint NOTE` makes a commit"
        ) from None


def locate_note(vault: Vault, commit: str, address: str) -> tuple[str, str, TreeEntry]:
    """Return path, heading and entry of what an address means in a commit.

    `.md` and folders may be left out where that is unambiguous, as in the work tree.

    Raises:
        NoteNotFoundError: several notes have that bare name, or none.
        RefusedError: the path is unsafe.
    """
    name, _, heading = address.partition("#")
    for path, part in ((address, ""), (name, heading), (f"{name}.md", heading)):
        if path and (entry := find_entry(vault.history, commit, str(parse_note_path(path)))):
            return str(parse_note_path(path)), part, entry
    wanted = _fold(str(parse_note_path(name)))
    tree = vault.history.tree(commit)
    found = sorted(p for p in tree if p[-3:].lower() == ".md" and _fold(p).endswith(wanted))
    if len(found) == 1:
        return found[0], heading, tree[found[0]]
    if found:
        raise NoteNotFoundError(f'"{name}" could be {", ".join(found[:5])}; name one')
    raise NoteNotFoundError(
        f"{name}: not in {commit[:7]}; `vaultmem history {name}` tells when it was and by what name"
    )


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", f"/{path}").removesuffix(".md").casefold()
