"""Write new links as Obsidian was told to; where there is no Obsidian, as they always were."""

from __future__ import annotations

from functools import cached_property

from vaultmem.core.links.link import encode_destination, link_to
from vaultmem.core.links.names import UNLINKABLE, Names, spell_new
from vaultmem.core.obsidian.settings import LinkFormat
from vaultmem.core.paths import is_text
from vaultmem.storage.links import find_attachments
from vaultmem.vault import Vault


class NewLinks:
    """Writes links to notes of a vault; the names in it are read when the first one needs them."""

    def __init__(self, vault: Vault, names: Names | None = None) -> None:
        self._vault = vault
        self._told = vault.obsidian
        self._known = names

    @cached_property
    def _names(self) -> Names:
        return self._known or Names(list_files(self._vault))

    def in_body(self, path: str, source: str) -> str:
        """Return the link to a note for the text of another; the shortest without Obsidian."""
        if not self._told.markdown_links:
            return self.in_property(path, source)
        shown = path.rpartition("/")[2].removesuffix(".md")
        return f"[{shown}]({encode_destination(self._spell(path, source))}.md)"

    def in_property(self, path: str, source: str) -> str:
        """Return the link to a note in brackets, which is all that properties know."""
        written = self._spell(path, source)
        return link_to(path) if UNLINKABLE & set(written) else f"[[{written}]]"

    def _spell(self, path: str, source: str) -> str:
        """Return the path of a link as it is to be written, without its ending."""
        if self._told.link_format is LinkFormat.ABSOLUTE:
            return path.removesuffix(".md")
        is_relative = self._told.link_format is LinkFormat.RELATIVE
        return spell_new(path, source, self._names, is_relative=is_relative)


def list_files(vault: Vault) -> list[str]:
    """Return the paths of all files that a link may mean: notes and attachments."""
    found = dict.fromkeys(vault.view.paths().values())
    if vault.view.has_work_tree:
        found.update(dict.fromkeys(vault.manifest.stats()))
        found.update(dict.fromkeys(find_attachments(vault.root)))
    for source in vault.view.sources:
        if source.number is not None:
            found.update(dict.fromkeys(vault.history.tree(source.commit)))
    return list(filter(is_text, found))
