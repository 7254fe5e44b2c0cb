"""What an app has to know of where it is served, and of who may come in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

#: Bytes of a request's body at most: the largest note, and what a form adds to it.
MAX_BODY = 2 * 1024 * 1024


class Site(NamedTuple):
    """Where a vault is served, and what may be done there.

    `hosts` are the names, with their port, under which it may be asked for; `token` is that of
    programs; `folder` is a private one, where one-time codes are kept. In the browser nothing is
    written unless `may_write`; programs write if `programs_write`.
    """

    root: Path
    hosts: frozenset[str]
    token: str
    folder: Path
    may_write: bool = False
    programs_write: bool = True

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: cookies know no ports."""
        port = min(self.hosts, default="").rpartition(":")[2]
        return f"vaultmem-{port}"
