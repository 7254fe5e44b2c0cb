"""What the links of a note's text mean in the vault around it, and where their pages are."""

from __future__ import annotations

import os
from urllib.parse import quote

from vaultmem.core.lifecycle import State
from vaultmem.vault import Vault
from vaultmem.web.markdown.page import Addresses, Surroundings
from vaultmem.web.rendering import link_note, make_link


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
        file=lambda path: make_link(f"/file/{quote(os.fsencode(path))}", at=at),
        tag=lambda tag: make_link("/notes", tag=tag, at=at),
    )
    return Surroundings(open_names(vault).find, read_text, addresses)
