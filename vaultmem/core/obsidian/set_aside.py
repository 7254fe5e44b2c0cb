"""Which markdown files of a vault are no notes, by what Obsidian was told, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from vaultmem.core.obsidian.settings import ObsidianSettings
from vaultmem.core.paths import OWN_FOLDERS, PINNED_FILES, fold

#: Why a file is no note, as people read it.
TEMPLATE = "templates"
EXCLUDED = "excluded in Obsidian"

_MAX_FILTER = 500

# What can make a search for ever: a group that is repeated, many parts of any length.
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{]")
_ANY_LENGTH = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\d*\})")
_MOST_OF_ANY_LENGTH = 4


class SetAside:
    """Tells which files are no notes; `refused` are the filters that cannot be used.

    Obsidian takes `/.../` for a regular expression that is sought anywhere in the path, and any
    other filter for the path's beginning; case never matters. As there, a filter that is no
    expression counts as none. One that takes in a whole folder of vaultmem's own hides memories
    from people's searches, and not from their agents.
    """

    def __init__(self, settings: ObsidianSettings) -> None:
        self._folders = tuple(f"{fold(each)}/" for each in settings.template_folders)
        self._templates = frozenset(map(fold, settings.templates))
        self.refused: list[str] = []
        self._searches = [
            (each.search, tuple(folder for folder in OWN_FOLDERS if each.search(folder)))
            for each in self._read(settings.excluded)
        ]

    def __bool__(self) -> bool:
        return bool(self._folders or self._templates or self._searches)

    def why(self, path: str) -> str:
        """Return why the file at a path of the vault is no note, "" where nothing says so."""
        if self._folders or self._templates:
            folded = fold(path)
            if folded.startswith(self._folders) or folded in self._templates:
                return TEMPLATE
        for search, own in self._searches:
            if search(path) and not path.startswith(own) and path not in PINNED_FILES:
                return EXCLUDED
        return ""

    def _read(self, filters: Iterable[str]) -> Iterable[re.Pattern[str]]:
        prefixes: list[str] = []
        for each in filters:
            if not (len(each) > 2 and each[0] == each[-1] == "/"):
                if any(folder.startswith(each.lower()) for folder in OWN_FOLDERS):
                    yield re.compile(f"\\A{re.escape(each)}", re.IGNORECASE)
                else:
                    prefixes.append(re.escape(each))
                continue
            try:
                _check_cost(each[1:-1])
                yield re.compile(each[1:-1], re.IGNORECASE)
            except (re.error, RecursionError, OverflowError) as error:
                self.refused.append(f"{each[:80]}: {error}")
        if prefixes:
            yield re.compile(f"\\A(?:{'|'.join(prefixes)})", re.IGNORECASE)


@lru_cache(maxsize=4)
def find_set_aside(settings: ObsidianSettings) -> SetAside:
    """Return what the settings set aside; the same for the same settings."""
    return SetAside(settings)


def _check_cost(pattern: str) -> None:
    """Refuse what could take longer than anybody waits: settings may come with a clone.

    Raises:
        re.error: says what of it is refused.
    """
    if len(pattern) > _MAX_FILTER:
        raise re.error(f"longer than {_MAX_FILTER} characters")
    if _REPEATED_GROUP.search(pattern):
        raise re.error("a group in it is repeated")
    if len(_ANY_LENGTH.findall(pattern)) > _MOST_OF_ANY_LENGTH:
        raise re.error(f"more than {_MOST_OF_ANY_LENGTH} parts of any length")
