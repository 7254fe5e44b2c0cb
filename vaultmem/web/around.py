"""What the links of a note's text mean in the vault around it, and where their pages are."""

from __future__ import annotations

import mimetypes
from functools import partial

from vaultmem.core.lifecycle import State
from vaultmem.vault import Vault
from vaultmem.web.markdown.page import Addresses, Surroundings
from vaultmem.web.rendering import link_note, make_link

#: Files that a page may show; no browser runs anything that is in these.
PICTURES = frozenset(
    {
        *("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"),
        "image/svg+xml",
    }
)


def look_around(at: str, vault: Vault, embeds: bool = True) -> Surroundings:
    """Return what links mean, and with `embeds` the texts of notes that may be shown in another.

    Links lead to pages of the vault as it is at `at`.
    """
    from vaultmem.services.finding.links import open_names
    from vaultmem.services.reading.read_notes import find_note

    def read_text(path: str) -> str | None:
        note = find_note(vault, path) if embeds else None
        return note.text if note is not None and note.state != State.QUARANTINED else None

    addresses = Addresses(
        note=lambda path: link_note(path, at=at),
        file=partial(_link_picture, at),
        tag=lambda tag: make_link("/notes", tag=tag, at=at),
    )
    return Surroundings(open_names(vault).find, read_text, addresses)


def _link_picture(at: str, path: str) -> str:
    """Return the address of a file, "" if it is no picture, which are all that is shown."""
    is_shown = mimetypes.guess_type(path)[0] in PICTURES
    return make_link(f"/file/{path}", at=at) if is_shown else ""
