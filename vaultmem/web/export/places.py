"""The files of an export: what each page is called, and the links between them."""

from __future__ import annotations

import os
import re
import unicodedata
from base64 import b32encode
from collections.abc import Collection
from functools import partial
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

from vaultmem.web.markdown.page import name_heading
from vaultmem.web.rendering import Links

#: Characters of a name that tell people what the page is about.
_TOLD = 40

#: Lists of notes by one property; "" is the list of all.
ListName = tuple[str, str]

_FILES = {"/": "index.html", "/search": "search.html", "/notes": "notes.html"}
_FILES |= {"/sessions": "sessions.html", "/time": "time.html"}


class Places(NamedTuple):
    """Which pages there are: of notes by path, lists, sessions and commits by id."""

    notes: Collection[str]
    lists: Collection[ListName]
    sessions: Collection[str]
    commits: Collection[str]

    def make_links(self, depth: int) -> Links:
        """Return what makes the links of a page that lies so many folders deep."""
        up = "../" * depth
        return Links(partial(self._link, up), partial(self._link_note, up), is_static=True)

    def _link(self, up: str, place: str, /, **given: Any) -> str:
        asked = {name: str(value) for name, value in given.items() if value and name != "at"}
        file = self._find(place, asked)
        return f"{up}{file}" if file else ""

    def _link_note(self, up: str, path: str, heading: str = "", /, **_: Any) -> str:
        if path not in self.notes:
            return ""
        anchor = f"#{quote(name_heading(heading))}" if heading else ""
        return f"{up}{name_note(path)}{anchor}"

    def _find(self, place: str, asked: dict[str, str]) -> str:
        _, kind, name = (f"{place}/").split("/", 2)
        name = name.removesuffix("/")
        if place == "/notes":
            page = int(asked.pop("page", 0))
            chosen = next(iter(asked.items()), ("", ""))
            return name_list(chosen, page) if len(asked) < 2 and chosen in self.lists else ""
        if asked:
            return ""
        if kind == "static":
            return f"static/{name}"
        if kind == "session" and name in self.sessions:
            return name_session(name)
        if kind == "commit" and name in self.commits:
            return f"time.html#c-{name}"
        return _FILES.get(place, "")


def name_note(path: str) -> str:
    """Return the file of a note's page."""
    return _name("note", path, PurePosixPath(path).stem)


def name_picture(path: str, suffix: str) -> str:
    """Return the file of a picture of the vault."""
    return _name("file", path, PurePosixPath(path).stem, suffix)


def name_session(session: str) -> str:
    """Return the file of a session's page."""
    return _name("session", session, session)


def name_list(chosen: ListName, page: int = 0) -> str:
    """Return the file of a page (from 0) of the notes of one property."""
    name, value = chosen
    suffix = f"-{page + 1}.html" if page else ".html"
    return _name("list", value, f"{name}-{value}", suffix) if name else f"notes{suffix}"


def _name(folder: str, text: str, told: str, suffix: str = ".html") -> str:
    """Return a file's place, which no other text has on any file system, whatever is in it.

    It goes by the text alone, so that it stays what it is, and folders stay small: FAT has at most
    some thousand files in one.
    """
    key = b32encode(sha256(os.fsencode(text)).digest()[:10]).decode("ascii").lower()
    plain = unicodedata.normalize("NFKD", told).encode("ascii", "ignore").decode("ascii").lower()
    words = "-".join(re.findall("[a-z0-9]+", plain))[:_TOLD].strip("-")
    return f"{folder}/{key[0]}/{'-'.join(filter(None, (words, key)))}{suffix}"
