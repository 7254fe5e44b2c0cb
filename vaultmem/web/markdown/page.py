"""What a rendering knows of the vault around a note, and what it may still spend."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from vaultmem.core.links.link import Link
from vaultmem.core.links.names import fold_heading

if TYPE_CHECKING:
    from markdown_it.utils import EnvType

#: How deep embeds may be in each other, how many a page may have, and how much text in them all.
MAX_EMBED_DEPTH = 4
MAX_EMBEDS = 50
MAX_EMBEDDED = 300_000
#: Characters that are gone through for brackets that turn out not to be those of a link.
MAX_STEPS = 1_500_000


def _address(prefix: str) -> Callable[[str], str]:
    return lambda name: prefix + quote(os.fsencode(name), safe="/")


class Addresses(NamedTuple):
    """Where the pages of notes, files and tags are: a URL for a path or a tag, quoted.

    "" for a file says that it cannot be shown.
    """

    note: Callable[[str], str] = _address("/note/")
    file: Callable[[str], str] = _address("/file/")
    tag: Callable[[str], str] = _address("/tag/")


class Surroundings(NamedTuple):
    """The vault around a note.

    `find` returns the path of the file that a link in a note means (`core.links.names.Names.find`),
    `read` the text of a note that is to be embedded; None where it must not be shown, or is not.
    """

    find: Callable[[Link, str], str | None]
    read: Callable[[str], str | None]
    addresses: Addresses = Addresses()


class Budget:
    """What a page, with all that is embedded in it, may still cost."""

    def __init__(self) -> None:
        self.embeds = MAX_EMBEDS
        self.characters = MAX_EMBEDDED
        self.steps = MAX_STEPS

    def take(self, text: str) -> bool:
        """Tell whether one more text may be embedded, and count it."""
        if self.embeds <= 0 or len(text) > self.characters:
            return False
        self.embeds -= 1
        self.characters -= len(text)
        return True


class Page(NamedTuple):
    """One text that is being rendered: the note itself, or one embedded in it.

    `first` is the line that the text begins with, 0 where lines are not told (embeds). `trail` are
    the texts that this one is embedded in. `mark` tells its ids from those of other texts.
    """

    path: str
    around: Surroundings
    budget: Budget
    first: int = 1
    trail: tuple[str, ...] = ()
    mark: str = ""


def page_of(env: EnvType) -> Page:
    """Return the text that markdown-it is at work on."""
    page: Page = env["page"]
    return page


def name_anchor(subpath: str) -> str:
    """Return the id of what a link's subpath means: of its last heading, or of a block (`^id`)."""
    last = subpath.rpartition("#")[2].strip()
    return f"block-{last[1:].casefold()}" if last.startswith("^") else name_heading(last)


def name_heading(heading: str) -> str:
    """Return the id that a heading has in its page.

    The page's own ids begin otherwise, and none is a name that a script could mean.
    """
    return f"note-{fold_heading(heading).replace(' ', '-') or 'section'}"
