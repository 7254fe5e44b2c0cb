"""Names for new notes: in which style, and which are free in the whole vault.

Where two notes have one name, what a link by it means depends on who looks, and changes when one
more is made; so a machine gives none that any note has.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from vaultmem.core.notes.titles import KEBAB, TITLE, number_name
from vaultmem.core.paths import check_new_name, fold, fold_name
from vaultmem.errors import RefusedError
from vaultmem.services.reading.read_notes import names_in
from vaultmem.vault import Vault

_ATTEMPTS = 1_000


def choose_style(vault: Vault) -> str:
    """Return in which style machines name notes: as vaultmem.yaml says, else as Obsidian's are."""
    return vault.config.file_names or (TITLE if vault.store.obsidian.is_there else KEBAB)


def find_free_name(
    vault: Vault,
    folder: PurePosixPath,
    name: str,
    besides: frozenset[str] = frozenset(),
    is_given: bool = False,
) -> PurePosixPath:
    """Return where a new note of a folder is written: the name, or with the first free number.

    `besides` are names, folded, that are about to be taken. One that somebody has given
    (`is_given`) may be a name in other folders too.

    Raises:
        RefusedError: the name is unsafe, or a thousand notes have it.
    """
    style, there = choose_style(vault), names_in(vault, folder)
    for number in range(1, _ATTEMPTS):
        path = folder / f"{number_name(name, number, style)}.md"
        check_new_name(path)
        is_taken = fold_name(path) in there or fold(path.name) in besides
        if not is_taken and (is_given or not find_named(vault, path.name)):
            return path
    raise RefusedError(f"{folder}/{name}: too many notes of that name; give another title")


def find_named(vault: Vault, name: str) -> list[str]:
    """Return the paths of the files of a name, case aside, as far as they are indexed."""
    if vault.view.is_work_tree:
        return vault.manifest.find_named(name)
    ending = fold(f"/{name}")
    return [path for path in vault.view.blobs() if fold(f"/{path}").endswith(ending)]
