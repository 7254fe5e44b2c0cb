"""Which remotes a repository has, and which branch of which one a branch goes with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.git.vault_history import History

_SSH = re.compile(r"ssh://|git\+ssh://|ssh\+git://|[^/:]+:(?!//)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|[a-z0-9+.-]+::")


class Remote(NamedTuple):
    """A repository elsewhere, by its name here; `push_url` is empty where it is no other one."""

    name: str
    url: str
    push_url: str = ""

    @property
    def is_ssh(self) -> bool:
        """Tell whether it is reached by ssh."""
        return any(_SSH.match(url) for url in (self.url, self.push_url))

    @property
    def folder(self) -> Path | None:
        """The folder that it is, None where it is on a network."""
        text = self.url.removeprefix("file://")
        return None if _SCHEME.match(text) or self.is_ssh else Path(text)

    @property
    def shown(self) -> str:
        """The address, without what lets somebody sign in."""
        return re.sub(r"(https?://)[^/@\s]+@", r"\1...@", self.url)


class Remotes(NamedTuple):
    """All remotes by name, and of each branch its remote's name and its name there."""

    known: dict[str, Remote]
    upstreams: dict[str, tuple[str, str]]


def read_remotes(history: History) -> Remotes:
    """Return the remotes of the repository's own settings."""
    pattern = r"^(remote\..*\.(url|pushurl)|branch\..*\.(remote|merge))$"
    out = history.git.run("config", "--local", "-z", "--get-regexp", pattern, fine=(0, 1))
    found: dict[tuple[str, str, str], str] = {}
    for row in filter(None, out.split("\0")):
        key, _, value = row.partition("\n")
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        found.setdefault((section, name, last), value)
    known = {
        name: Remote(name, url, found.get(("remote", name, "pushurl"), ""))
        for (section, name, key), url in found.items()
        if (section, key) == ("remote", "url")
    }
    upstreams = {
        name: (remote, found.get(("branch", name, "merge"), "").removeprefix("refs/heads/"))
        for (section, name, key), remote in found.items()
        if (section, key) == ("branch", "remote")
    }
    return Remotes(known, upstreams)


def add_remote(history: History, remote: Remote, branch: str) -> None:
    """Give the repository a remote with which a branch goes, so that plain git knows it, too."""
    for key, value in (
        (f"remote.{remote.name}.url", remote.url),
        (f"remote.{remote.name}.fetch", f"+refs/heads/*:refs/remotes/{remote.name}/*"),
        (f"branch.{branch}.remote", remote.name),
        (f"branch.{branch}.merge", f"refs/heads/{branch}"),
    ):
        history.git.run("config", "--local", key, value)
