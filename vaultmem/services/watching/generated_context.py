"""Update generated packs: CONTEXT.md, those of vaultmem.yaml, and blocks in other files.

They can be made from the notes at any time, so overwriting one loses nothing. Files that vaultmem
did not generate are not overwritten. A file whose pack is unchanged is not written again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.packs.context_file import (
    BEGIN,
    END,
    ContextLine,
    parse_contexts,
    replace_block,
    says_the_same,
    write_plainly,
)
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import is_hidden
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.packs.build import make_unseen
from vaultmem.services.projects.scope import view_for_file
from vaultmem.services.search.vault_set import look, open_scorer
from vaultmem.storage.displaced_files import clear_leftover, find_leftovers
from vaultmem.storage.files import MAX_FILE_BYTES, create_file, read_file, remove_file, replace_file
from vaultmem.vault import Vault

#: The vault's own pack; the second path if Obsidian would show it among the notes.
CONTEXT_FILE = "CONTEXT.md"
HIDDEN_FILE = ".vaultmem/CONTEXT.md"

#: The start of a file that can be overwritten.
HEAD = b"# Context  (vault "

_ATTEMPTS = 10


class RenderedContext(NamedTuple):
    """A generated file, as named in vaultmem.yaml, and whether it was written.

    `problem` is why it was not, or another point to check by hand.
    """

    path: str
    changed: bool
    problem: str = ""


def render_contexts(vault: Vault) -> list[RenderedContext]:
    """Update CONTEXT.md and all other generated packs; write only changed files.

    A file contains the notes of its folder's project, and global ones. An error is in `problem` and
    stops no other file.
    """
    config, name = vault.config, find_context_file(vault)
    if config.extra_packs:  # Load vectors before the lock.
        open_scorer([vault], None, waits=True)
    with vault.lock():  # The last renderer has the newest notes.
        try:
            viewed_vault = look(vault)
            context_vault = view_for_file(viewed_vault, vault.root)
            texts = {context_vault.view.project: write_plainly(make_unseen(context_vault).text)}
        except VaultError as error:
            names = (*filter(None, [name]), *config.inject_context_into)
            return [RenderedContext(name, False, str(error)) for name in names]
        text = texts[context_vault.view.project]
        results = [_render(name, partial(_write_pack, vault, name, text))] if name else []
        for old_name in {CONTEXT_FILE, HIDDEN_FILE} - {name}:
            _drop_former(vault, old_name)
        for line in parse_contexts(config.extra_packs):
            results.append(_render(line.path, partial(_write_line, vault, context_vault, line)))
        results += [
            _render(name, partial(_inject_context, viewed_vault, name, texts))
            for name in config.inject_context_into
        ]
        return results


def find_context_file(vault: Vault) -> str:
    """Return the path of the vault's own pack, "" if vaultmem.yaml turns it off."""
    path = vault.config.context_file
    if not path:
        return HIDDEN_FILE if (vault.root / ".obsidian").is_dir() else CONTEXT_FILE
    return "" if path == "none" else path


def _drop_former(vault: Vault, name: str) -> None:
    """Remove the pack from its previous path."""
    path = PurePosixPath(name)
    with contextlib.suppress(VaultError):  # Other files stay.
        data = read_file(vault.root, path)
        if data.startswith(HEAD):
            remove_file(vault.root, path, blob_id(data))


def _render(path: str, write: Callable[[], bool]) -> RenderedContext:
    """Write one file; if another process saves it meanwhile, try again."""
    copies: list[str] = []
    for _ in range(_ATTEMPTS):
        try:
            return RenderedContext(path, write(), "; ".join(copies))
        except ConflictError as error:
            if "one version is" in str(error):  # Both versions exist.
                copies.append(str(error).partition(": ")[2])
        except VaultError as error:
            problem = str(error).removeprefix(f"{path}: ")
            return RenderedContext(path, False, problem)
    copies.append("others keep changing it; it is tried again later")
    return RenderedContext(path, False, "; ".join(copies))


def _write_line(vault: Vault, context_vault: Vault, line: ContextLine) -> bool:
    text = make_unseen(context_vault, line.query, line.budget, waits=False).text
    return _write_pack(vault, line.path, write_plainly(text))


def _write_pack(vault: Vault, name: str, text: str) -> bool:
    """Write a pack to a generated file; return whether it changed."""
    path, data = PurePosixPath(name), _encode(text)
    try:
        current = read_file(vault.root, path)
    except NoteNotFoundError:
        create_file(vault.root, path, data)
        if name == HIDDEN_FILE:
            with contextlib.suppress(ConflictError):
                create_file(vault.root, path.with_name(".gitignore"), b"*\n")
        return True
    if says_the_same(current, data):
        return False
    if current and not current.startswith(HEAD):
        raise RefusedError("vaultmem did not write this file, so it is kept; move it away")
    replace_file(vault.root, path, blob_id(current), data)
    return True


def _inject_context(vault: Vault, name: str, texts: dict[str | None, str]) -> bool:
    """Write a pack into the block of a person's file; return whether it changed.

    `texts` are the packs already made, by project.
    """
    file = _find_file(vault, name)
    context_vault = view_for_file(vault, file.parent)
    if context_vault.view.project not in texts:
        texts[context_vault.view.project] = write_plainly(make_unseen(context_vault).text)
    text = texts[context_vault.view.project]
    path = PurePosixPath(file.name)
    for leftover in find_leftovers(file.parent):  # Syncs skip that folder.
        clear_leftover(leftover, is_held=False)
    try:
        current = read_file(file.parent, path)
        data = replace_block(current, text)
        if says_the_same(current, data):
            return False
        if len(data) > MAX_FILE_BYTES:
            raise RefusedError("it would be larger than 1 MiB; lower `budget` in vaultmem.yaml")
        replace_file(file.parent, path, blob_id(current), data)
    except NoteNotFoundError:
        remedy = f'make it, with the lines "{BEGIN}" and "{END}"'
        raise RefusedError(f"there is no such file; {remedy}") from None
    except ConflictError:
        raise
    except VaultError as error:
        raise RefusedError(str(error).removeprefix(f"{path}: ")) from None
    return True


def _find_file(vault: Vault, name: str) -> Path:
    """Return the file of an item in `inject_context_into`, relative to the vault.

    Raises:
        RefusedError: it is a note or is committed with the notes, so the pack would contain
            itself or change its own date; or it is outside a vault that is not trusted.
    """
    try:
        file = vault.root / Path(name).expanduser()
        file = file.parent.resolve() / file.name
    except (OSError, RuntimeError, ValueError) as error:
        raise RefusedError(f"its folder cannot be found ({error}); correct the name") from None
    if not file.name or file.name == "..":
        raise RefusedError("it is not a file; name one, such as ~/code/AGENTS.md")
    if not file.is_relative_to(vault.root):
        if not vault.trust.is_trusted():
            raise RefusedError(
                "it is outside the vault, and the vault is not trusted; run `vaultmem trust`"
            )
        return file
    inside = file.relative_to(vault.root).as_posix()
    parts = inside.split("/")
    if ".git" in {part.lower() for part in parts}:
        raise RefusedError("it is inside git's own folder; name another file")
    if vault.config.is_ignored(inside) or any(map(is_hidden, parts)):
        return file
    raise RefusedError(
        "it belongs to the vault, and the pack would hold itself; add it to `ignore`, "
        "or name a file outside"
    )


def _encode(text: str) -> bytes:
    data = text.encode("utf-8")
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError("the pack is larger than 1 MiB; lower its budget")
    return data
