"""The names of notes other than their paths, and the names free for new notes.

A handle is the start of a blob id, as packs show it. If two notes share a name, a link by that name
is ambiguous. So agents never give a new note an existing name.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import PurePosixPath

from vaultmem.core.notes.record import has_tag
from vaultmem.core.notes.sections import KEBAB, TITLE, number_name
from vaultmem.core.packs.pack_text import MIN_HANDLE
from vaultmem.core.search.query import Hit, NoteFilter, NoteKey
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import check_new_name, fold, fold_name
from vaultmem.core.text.suggest import find_near, suggest_similar
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.link_table import LinkStore
from vaultmem.vault import Vault

#: Numbers tried after a taken name.
_ATTEMPTS = 1_000

#: Most notes listed for an ambiguous name.
_MAX_LISTED_NOTES = 5

#: Receipts searched for a handle that neither notes nor git have.
_MAX_RECEIPTS = 200

_HANDLE = re.compile(rf"[0-9a-f]{{{MIN_HANDLE},40}}")


def choose_style(vault: Vault) -> str:
    """Return the style of new file names: from vaultmem.yaml, or as in Obsidian."""
    return vault.config.file_names or (TITLE if vault.store.obsidian.is_there else KEBAB)


def find_free_name(
    vault: Vault,
    folder: PurePosixPath,
    name: str,
    reserved_names: frozenset[str] = frozenset(),
    is_given: bool = False,
) -> PurePosixPath:
    """Return the path of a new note in a folder: the name, or with the first free number.

    `reserved_names` are folded names about to be taken. A user's name (`is_given`) can exist in
    other folders.

    Raises:
        RefusedError: the name is unsafe, or a thousand notes have it.
    """
    style, existing_names = choose_style(vault), names_in(vault, folder)
    for number in range(1, _ATTEMPTS):
        path = folder / f"{number_name(name, number, style)}.md"
        check_new_name(path)
        is_taken = fold_name(path) in existing_names or fold(path.name) in reserved_names
        if not is_taken and (is_given or not find_files_named(vault, path.name)):
            return path
    raise RefusedError(f"{folder}/{name}: too many notes of that name; give another title")


def names_in(vault: Vault, folder: PurePosixPath) -> dict[str, str]:
    """Return the names in a folder by folded path, so that no near-duplicate is created."""
    if vault.view.is_work_tree:
        try:
            return {fold_name(folder / name): name for name in os.listdir(vault.root / folder)}
        except OSError:
            return {}
    from vaultmem.storage.git.trees import list_places

    paths = map(PurePosixPath, list_places(vault.history, vault.view.sources[0].commit))
    return {fold_name(path): path.name for path in paths if path.parent == folder}


def find_files_named(vault: Vault, name: str) -> list[str]:
    """Return the paths of indexed files with a name, ignoring case."""
    if vault.view.is_work_tree:
        return vault.manifest.find_named(name)
    suffix = fold(f"/{name}")
    return [path for path in vault.view.blobs() if fold(f"/{path}").endswith(suffix)]


def find_titled(vault: Vault, name: str) -> list[str]:
    """Return the paths of the notes with a title or alias, ignoring ASCII case."""
    names = list(dict.fromkeys(unicodedata.normalize(f, name.strip()) for f in ("NFC", "NFD")))
    by_alias = ", ".join(map(str, LinkStore(vault.state).aliases_among(names)))
    marks = ", ".join("?" * len(names))
    condition = f"d.title COLLATE NOCASE IN ({marks}) OR d.id IN ({by_alias})"
    return sorted(set(vault.view.paths(condition, names).values()))


def describe_unknown(vault: Vault, name: str) -> str:
    """Return a message that no note has a name, with similar names."""
    similar_names = find_similar(vault, name)
    hint = (
        f"; did you mean {', '.join(similar_names)}?" if similar_names else "; see `vaultmem list`"
    )
    return f'no note is called "{name}"{hint}'


def find_similar(vault: Vault, name: str) -> list[str]:
    """Return names of notes similar to an unknown name.

    Only names that the caller can see: in a project, its own and global ones.
    """
    vault = vault.scoped()
    return vault.view.keep("similar", partial(_find_similar, vault, name), name)


def _find_similar(vault: Vault, name: str) -> list[str]:
    names = vault.view.keep("similar names", partial(_map_names, vault))
    stem = name if name in names else PurePosixPath(name).stem
    return find_near(stem, names)


def _map_names(vault: Vault) -> dict[str, str]:
    """Return the display name of each note by its path, title, alias and file name."""
    aliases = LinkStore(vault.state).aliases()
    titles = vault.view.titles()
    stems = {path: PurePosixPath(path).stem for _, path, _ in titles}
    counts = Counter(stems.values())
    display_names: dict[str, str] = {}
    for document, path, title in titles:
        stem = stems[path]
        display_name = stem if counts[stem] == 1 else path
        display_names |= dict.fromkeys(
            (title, *aliases.get(document, ()), stem, path), display_name
        )
    return display_names


def describe_several(vault: Vault, name: str, paths: Iterable[str]) -> str:
    """Return a message with the notes a name could mean, as far as the caller can see them."""
    all_paths = set(paths)
    foreign = all_paths & vault.scoped().view.foreign()
    names = sorted(all_paths - foreign)[:_MAX_LISTED_NOTES]
    if foreign:
        names.append(f"{pluralize(len(foreign), 'note')} of other projects")
    return f'"{name}" could be {", ".join(names)}; name one'


def describe_unmatched(vault: Vault, note_filter: NoteFilter) -> list[str]:
    """Return messages on a filter's unknown tags and context, with similar ones."""
    if not (note_filter.tags or note_filter.context):
        return []
    tags, contexts = _list_groups(vault)
    own_tags, own_contexts = _list_groups(vault.scoped())
    messages = [
        f'no note has the tag "{tag}"{suggest_similar(tag, own_tags)}'
        for tag in note_filter.tags
        if not has_tag(tags, tag)
    ]
    prefix = f"{note_filter.context}/"
    if note_filter.context and not any(f"{each}/".startswith(prefix) for each in contexts):
        suggestion = suggest_similar(note_filter.context, own_contexts)
        messages.append(f'no note is of the context "{note_filter.context}"{suggestion}')
    return messages


def _list_groups(vault: Vault) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tags and the contexts of a vault's notes."""
    records = vault.view.records()
    tags = dict.fromkeys(tag for record in records for tag in record.tags)
    return tuple(tags), tuple(dict.fromkeys(each.context for each in records if each.context))


def is_handle(name: str) -> bool:
    """Return whether a name can be a handle."""
    return bool(_HANDLE.fullmatch(name))


def choose_note_paths(vault: Vault, hits: Iterable[Hit]) -> dict[NoteKey, str]:
    """Return the shortest handle of each hit's note that is unique in the view."""
    notes = {hit.note: hit for hit in hits}
    beginnings = {hit.record.blob[:MIN_HANDLE] for hit in notes.values()}
    blobs_by_handle: dict[str, set[str]] = {each: set() for each in beginnings}
    for _, blob in vault.view.find_blobs(beginnings):
        blobs_by_handle[blob[:MIN_HANDLE]].add(blob)
    return {
        note: _shorten(
            hit.record.blob, blobs_by_handle[hit.record.blob[:MIN_HANDLE]] - {hit.record.blob}
        )
        for note, hit in notes.items()
    }


def _shorten(blob: str, others: Iterable[str]) -> str:
    others = list(others)
    length = MIN_HANDLE
    while any(other.startswith(blob[:length]) for other in others):
        length += 1
    return blob[:length]


def find_named(vault: Vault, handle: str) -> set[str]:
    """Return the paths of the view's notes whose blob ids start with a handle."""
    blobs = vault.view.find_blobs([handle[:MIN_HANDLE]])
    return {path for path, blob in blobs if blob.startswith(handle)}


def find_changed(vault: Vault, handle: str) -> PurePosixPath:
    """Return the path of the note that once had such a blob id.

    Raises:
        NoteNotFoundError: no note is known to have had it, several had, or the note is gone.
    """
    paths = _find_in_git(vault, handle) or _find_in_receipts(vault, handle)
    if len(paths) > 1:
        raise NoteNotFoundError(describe_several(vault, handle, paths))
    for path in paths:
        if path not in vault.view.blobs():
            raise NoteNotFoundError(
                f"{handle} was {path}, which is not there now; `vaultmem log {shlex.quote(path)}` "
                "has it"
            )
        return PurePosixPath(path)
    raise NoteNotFoundError(
        f"{handle}: no note has such a blob id, or is known to have had it; see `vaultmem list`"
    )


def _find_in_git(vault: Vault, handle: str) -> set[str]:
    """Return the paths that had such bytes, including our uncommitted ones."""
    paths = set(vault.journal.find_written(handle))
    try:
        from vaultmem.storage.git.trees import list_blobs

        sources = [source.commit for source in vault.view.sources if source.commit]
        head = None if sources else vault.head()
        for commit in [*sources, *([head.commit] if head else [])]:
            items = list_blobs(vault.history, commit).items()
            paths |= {path for path, blobs in items if any(b.startswith(handle) for b in blobs)}
    except (VaultError, ImportError):  # No git.
        pass
    return paths


def _find_in_receipts(vault: Vault, handle: str) -> set[str]:
    """Return the paths at which the newest packs with such a blob id showed it."""
    from vaultmem.core.packs.receipt import parse_receipt

    for file in islice(vault.store.receipts.files(), _MAX_RECEIPTS):
        text = vault.store.receipts.read(str(file))
        if f'"{handle}' not in text:
            continue
        receipt = parse_receipt(text)
        sections = (*receipt.shown, *receipt.omitted_pins)
        if paths := {each.path for each in sections if each.blob.startswith(handle)}:
            return paths
    return set()
