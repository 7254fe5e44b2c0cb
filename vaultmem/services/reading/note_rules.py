"""Which markdown files are notes, by the owner's rules: vaultmem.yaml's and Obsidian's."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.config import Config
from vaultmem.core.obsidian.set_aside import SetAside, find_set_aside
from vaultmem.core.obsidian.settings import DailyNotes
from vaultmem.storage.scan import Rules
from vaultmem.vault import Vault


class NoteRules(NamedTuple):
    """The rules at one moment; whoever asks of many paths reads them once.

    `key` is another one when Obsidian's settings make other files notes; its line 1, when they date
    them otherwise.
    """

    config: Config
    aside: SetAside
    key: str

    def why_not(self, path: str) -> str:
        """Return by which rule a markdown file is no note, "" if by none."""
        if self.config.is_ignored(path):
            return "ignored by vaultmem.yaml"
        return self.aside.why(path)

    @property
    def for_scan(self) -> Rules:
        """The rules as a walk through the folder takes them."""
        config, aside = self.config, self.aside
        ignores = config.ignores if config.ignore or config.generated else None
        return ignores, aside.why if aside else None


def read_note_rules(vault: Vault) -> NoteRules:
    """Return the rules of a vault as its settings and Obsidian's say now."""
    told = vault.store.obsidian
    dates = "" if told.daily.format == DailyNotes().format else repr(told.daily)
    aside = (told.template_folders, told.templates, told.excluded)
    key = f"{dates}\n{aside!r}" if dates or any(aside) else ""
    return NoteRules(vault.config, find_set_aside(told), key)
