"""Let links follow what a merge brings under another name: the other side knew only the old one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.links.names import Names
from vaultmem.core.links.rewrite import apply_edits, plan_edits
from vaultmem.core.merging.note import is_note
from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.paths import fold
from vaultmem.errors import RefusedError
from vaultmem.storage.git.commit_draft import File, TreeEntry
from vaultmem.vault import Vault

Moved = tuple[str, str]


class MergedNotes:
    """The notes that a merge results in: a tree's, with some files changed."""

    def __init__(self, vault: Vault, tree: Mapping[str, TreeEntry], files: Mapping[str, File]):
        self._vault = vault
        self._tree = {path: entry for path, entry in tree.items() if path not in files}
        self.files = {path: file for path, file in files.items() if file is not None}
        self.paths = frozenset(self._tree) | frozenset(self.files)

    def read(self, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return mode and text of those of the notes that are UTF-8; of a canvas its JSON."""
        wanted = sorted(
            path for path in self.paths.intersection(paths) if is_note(path) or is_canvas(path)
        )
        stored = [path for path in wanted if path not in self.files]
        blobs = self._vault.history.objects.read_all(self._tree[path].blob for path in stored)
        found = {
            path: (self._tree[path].mode, data)
            for path, (_, data) in zip(stored, blobs, strict=True)
        }
        found |= {path: self.files[path] for path in wanted if path in self.files}
        decoded = {path: (mode, decode_text(data)) for path, (mode, data) in found.items()}
        return {p: (mode, read.text) for p, (mode, read) in decoded.items() if not read.encoding}


def list_renames(changes: Iterable[FileChange]) -> list[Moved]:
    """Return the renames among changes, old name first."""
    return [(each.previous, each.path) for each in changes if each.previous and each.path]


def relink(
    notes: MergedNotes, moved: Sequence[Moved], candidates: Iterable[str]
) -> dict[str, tuple[str, bytes]]:
    """Return the notes among the candidates in which links have to name the new paths."""
    wanted = [(old, new) for old, new in moved if new in notes.paths and old not in notes.paths]
    if not wanted:
        return {}
    texts = notes.read(candidates)
    changed: dict[str, tuple[str, bytes]] = {}
    for old, new in wanted:
        stem = fold(PurePosixPath(old).stem)
        after = before = None
        for path, (mode, text) in texts.items():
            if stem not in fold(text):
                continue
            if after is None or before is None:
                after, before = Names(notes.paths), Names((notes.paths - {new}) | {old})
            try:
                edits = plan_edits(text, (path, path), before, after, (old, new))
                if edits:
                    texts[path] = (mode, apply_edits(text, edits, path))
                    changed[path] = (mode, texts[path][1].encode("utf-8"))
            except RefusedError:
                continue  # The link stays as it was written, and leads nowhere, as it did there.
    return changed
