"""A hub for tests: people and agents with tokens, and a clone in which any object can be made."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaultmem.services.hub.grants import (
    Grant,
    GrantKind,
    GrantScope,
    build_pusher_environment,
    make_grant,
)
from vaultmem.services.hub.hub_folder import (
    CONFIG_NAME,
    AuditEntry,
    Hub,
    make_hub,
    open_hub,
    read_audit,
)
from vaultmem.services.hub.repositories import make_repository

#: The clock of grants, so that nothing depends on when a test runs.
NOW = 1_795_000_000.0

ADA, BOB = ("Ada Harbour", "ada@ferry.example"), ("Bob Quay", "bob@ferry.example")
SCOUT = ("scout", "scout@agents.localhost")

#: Files of a commit, by path: a text, or a mode and an object's name (or a text in braces).
Files = Mapping[str | bytes, "str | bytes | tuple[str, str]"]


@dataclass
class Clone:
    """A repository into which objects are written as they are, by hand."""

    root: Path
    count: int = 0
    known: dict[str, dict[str | bytes, Any]] = field(default_factory=dict)

    def write(self, kind: str, data: bytes) -> str:
        """Write an object as it is; return its name."""
        whole = b"%s %d\0" % (kind.encode(), len(data)) + data
        name = hashlib.sha1(whole).hexdigest()
        file = self.root / ".git/objects" / name[:2] / name[2:]
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            file.write_bytes(zlib.compress(whole, 1))
        return name

    def tree(self, files: Files) -> str:
        """Write the tree of files; a `/` in a name of bytes stays in it."""
        folders: dict[bytes, dict[str | bytes, Any]] = {}
        entries: list[tuple[bytes, bytes, str]] = []
        for path, given in files.items():
            name = path.encode("utf-8", "surrogateescape") if isinstance(path, str) else path
            first, divided, rest = name.partition(b"/")
            if divided and isinstance(path, str):
                folders.setdefault(first, {})[rest.decode("utf-8", "surrogateescape")] = given
            elif isinstance(given, tuple):
                mode, id = given
                id = self.write("blob", id.encode()) if id.startswith("{") else id
                entries.append((name, mode.encode(), id))
            else:
                data = given.encode() if isinstance(given, str) else given
                entries.append((name, b"100644", self.write("blob", data)))
        entries += [(name, b"40000", self.tree(inner)) for name, inner in folders.items()]
        entries.sort(key=lambda each: each[0] + (b"/" if each[1] == b"40000" else b""))
        rows = (mode + b" " + name + b"\0" + bytes.fromhex(id) for name, mode, id in entries)
        return self.write("tree", b"".join(rows))

    def commit(
        self,
        files: Files | str,
        parents: Sequence[str] = (),
        who: tuple[str, str] = BOB,
        committer: tuple[str, str] | None = None,
        message: str = "",
        encoding: str = "",
        when: str = "",
    ) -> str:
        """Write a commit of files, or of a tree, each at a time of its own."""
        self.count += 1
        tree = files if isinstance(files, str) else self.tree(files)
        at = when or f"{1_794_000_000 + self.count} -0000"
        signed = [("author", who), ("committer", committer or who)]
        lines = [f"tree {tree}", *(f"parent {each}" for each in parents)]
        lines += [f"{role} {name} <{mail}> {at}" for role, (name, mail) in signed]
        lines += [f"encoding {encoding}"] * bool(encoding)
        return self.write("commit", ("\n".join(lines) + f"\n\n{message or 'change'}\n").encode())

    def files(self, commit: str) -> dict[str | bytes, Any]:
        """Return what a commit has, to be changed and committed."""
        if commit in self.known:
            return self.known[commit]
        out = self.git("ls-tree", "-r", "-z", commit)
        rows = (line.partition("\t") for line in out.split("\0") if line)
        found = {path: (meta.split()[0], meta.split()[2]) for meta, _, path in rows}
        return self.known.setdefault(commit, found)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "surrogateescape").strip()


@dataclass
class World:
    """A hub with one vault, whose grants are known by name, and a clone of the vault."""

    hub: Hub
    repository: Path
    clone: Clone
    grants: dict[str, Grant] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    def admit(
        self, name: str, kind: GrantKind, scopes: Mapping[GrantScope, Sequence[str]], **more: Any
    ) -> None:
        grant, token = make_grant(self.hub, name, kind, scopes, NOW, **more)
        self.grants[name], self.tokens[name] = grant, token

    def push(self, name: str, *specs: str, **more: str) -> tuple[int, str]:
        """Push as somebody, who may be nobody; return how it ended, and what git said."""
        grant = self.grants.get(name)
        who = build_pusher_environment(self.hub, grant, "203.0.113.7") if grant else {}
        given = {**os.environ, **who, **more}
        command = ["git", "-C", self.clone.root, "push", "-q", self.repository, *specs]
        done = subprocess.run(command, env=given, capture_output=True)
        told = done.stderr.decode("utf-8", "replace")
        return done.returncode, re.sub(r"(?m)^remote: | +$", "", told)

    def take(self, name: str, *specs: str) -> None:
        """Push what has to be taken."""
        code, told = self.push(name, *specs)
        assert code == 0, told

    def see(self) -> tuple[str, str]:
        """Return the refs, and all that can be reached from them."""
        refs = self._git("for-each-ref", "--format=%(refname) %(objectname)")
        return refs, self._git("rev-list", "--objects", "--all")

    def tip(self, ref: str = "refs/heads/main") -> str:
        return self._git("rev-parse", "-q", "--verify", ref)

    def last(self) -> AuditEntry:
        """Return the last entry of the record."""
        return next(read_audit(self.hub))

    def _git(self, *arguments: str) -> str:
        command = ["git", "--git-dir", self.repository, *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def make_world(folder: Path, files: Files, settings: str = "") -> World:
    """Make a hub with a vault of files, `payments`, which Ada owns and where Bob has a folder.

    Cleo may propose, Rita only read, and the agent Scout writes.
    """
    clone = Clone(folder / "clone")
    clone.root.mkdir()
    clone.git("init", "-q", "-b", "main")
    clone.git("update-ref", "refs/heads/main", clone.commit(files, who=ADA))
    clone.git("update-ref", "refs/vaultmem/machines/eeeeeeeeeeeeeeee.1", clone.commit({}))
    make_hub(folder / "hub")
    with open(folder / "hub" / CONFIG_NAME, "a") as file:
        file.write(settings)
    hub = open_hub(folder / "hub")
    world = World(hub, make_repository(hub, "payments", os.environ, str(clone.root)), clone)
    bobs = {GrantScope.WRITE: ["pay*:notes/refunds"], GrantScope.PROPOSE: ["pay*"]}
    world.admit(
        "ada", GrantKind.PERSON, {GrantScope.OWN: ["*"]}, emails=["Ada Harbour <ada@ferry.example>"]
    )
    world.admit("bob", GrantKind.PERSON, bobs, emails=["bob@ferry.example"], agents=["claude-*"])
    world.admit(
        "cleo", GrantKind.PERSON, {GrantScope.PROPOSE: ["*"]}, emails=["cleo@ferry.example"]
    )
    world.admit("rita", GrantKind.PERSON, {GrantScope.READ: ["*"]})
    world.admit("scout", GrantKind.AGENT, {GrantScope.WRITE: ["payments"]})
    return world
