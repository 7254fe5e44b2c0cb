"""Who asks: in whose name, on which branch, from where, and whether to write; decided once."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.environment import read_settings
from vaultmem.vault import UserFolders, VaultSettings

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Guest(NamedTuple):
    """Somebody who comes to a hub: their name and the id of their token there.

    A person's commits are by `person` (`Name <mail>`). What they write goes to `branch`, "" for
    the vault's own; `origin` is from where they come.
    """

    name: str
    id: str
    person: str = ""
    branch: str = ""
    origin: str = ""


class Caller(NamedTuple):
    """One connection, and what it may do; nothing is taken from this process's own settings.

    `environment` is what the caller's says of opening a vault and of sessions, `folder` the one it
    works in, `pid` the process that its sessions end with: else this one, that serves it. Who
    `asks_others` is the user at this machine, whose other vaults may be asked as well. Of a hub,
    they are its `guest`. `operation` is what of the API, or which tool, is asked; "" for a page.
    """

    agent: str = ""
    session: str = ""
    ref: str = ""
    environment: Mapping[str, str] = _NOTHING
    folder: Path | None = None
    pid: int = 0
    may_write: bool = False
    asks_others: bool = False
    guest: Guest | None = None
    operation: str = ""

    def settings(self, folders: UserFolders) -> VaultSettings:
        """Return how the vault is opened for this caller, with state where this process has it."""
        settings = read_settings(self.agent, self.session, self.ref, self.environment)
        settings["folders"] = folders
        settings["here"] = self.folder
        settings["pid"] = self.pid or os.getpid()
        return settings


def shows_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Tell whether the headers of a request, as they came, name the token, once and alone."""
    given = [value for name, value in headers if name == b"authorization"]
    return len(given) == 1 and hmac.compare_digest(given[0], b"Bearer " + token.encode("ascii"))
