"""Write commits by plumbing, so that a person's index and work tree stay theirs.

Blobs are hashed as they are, a temporary index makes the tree, and `update-ref` moves the branch
only from where it was read.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from vaultmem.errors import PendingError, VaultError
from vaultmem.storage.git import GitRunner
from vaultmem.storage.head import find_obstacle

#: Git's mode and the bytes of a file; None for one that was removed.
File = tuple[str, bytes] | None

#: Removes an entry from an index.
_NOTHING = "0 0000000000000000000000000000000000000000"


@dataclass(frozen=True, slots=True)
class Identity:
    """A name and mail address, as git writes them."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a commit: git's mode and the blob id."""

    mode: str
    blob: str


class RefMovedError(Exception):
    """Somebody else committed first; start again from the new HEAD."""


class CommitWriter:
    """Writes one commit: `write`, then `follow_index`, then `move_head`."""

    def __init__(self, git: GitRunner, prefix: str, scratch: Path) -> None:
        self._git = git
        self._prefix = prefix
        self._scratch = scratch
        self._entries: dict[str, TreeEntry] = {}

    def write(
        self, files: Mapping[str, File], message: str, author: Identity, parent: str, at: int
    ) -> str:
        """Write blobs, tree and commit, and return the commit's id; nothing points to it yet."""
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            self._entries = self._write_blobs(files, Path(folder))
            lines = "".join(f"{e.mode} {e.blob}\t{path}\0" for path, e in self._entries.items())
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._git.run("read-tree", parent or "--empty", env=index)
            self._git.run("update-index", "-z", "--index-info", stdin=lines.encode(), env=index)
            tree = self._git.run("write-tree", env=index)
        parents = ["-p", parent] if parent else []
        who = _author_environment(author, at)
        return self._git.run("commit-tree", tree, *parents, stdin=message.encode(), env=who)

    def follow_index(self, parent: str) -> None:
        """Put what was written into the person's index, but for those that the person staged.

        What is put there is written down until HEAD has moved: after a crash in between, these
        entries are known as our own, and not taken for the person's.
        """
        entries = self._entries
        left = self._read_intent()
        paths = entries.keys() | left.keys()
        before = self._tree_entries(parent, paths)
        current: dict[str, str] = {}
        for line in filter(None, self._git.run("ls-files", "-s", "-z").split("\0")):
            meta, _, path = line.partition("\t")
            if path in paths:
                current[path] = " ".join(meta.split())
        wanted: dict[str, str] = {}
        for path in paths:
            held, old = current.get(path, ""), before.get(path, "")
            if held not in {old, left.get(path, old)}:
                continue  # The person staged it.
            value = _index_value(entries[path]) if path in entries else old
            if value != held:
                wanted[path] = value
        if not wanted:
            return
        self._intent.write_text(json.dumps({**left, **wanted}), encoding="utf-8")
        lines = (f"{value or _NOTHING}\t{path}\0" for path, value in wanted.items())
        try:
            stdin = "".join(lines).encode()
            self._git.run("update-index", "-z", "--index-info", stdin=stdin, env=self._no_filters())
        except VaultError as error:
            if "index.lock" in str(error):
                raise PendingError(
                    find_obstacle(self._git.git_folder) or "another git is at work"
                ) from error
            raise

    @property
    def _intent(self) -> Path:
        return self._scratch / "index-entries.json"

    def _read_intent(self) -> dict[str, str]:
        """Return what an interrupted commit put into the person's index: "" is a removal."""
        try:
            return dict(json.loads(self._intent.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def _no_filters(self) -> dict[str, str]:
        """Return settings that switch off every filter which the repository's attributes name.

        Git compares files that changed within the index's own tick when it writes the index, and
        would run their filters. Keys go through the environment: `-c` ends a name at its first =.
        """
        pattern = r"^filter\..*\.(clean|smudge|process|required)$"
        found = self._git.run("config", "-z", "--name-only", "--get-regexp", pattern, check=False)
        names = sorted(set(filter(None, found.split("\0"))))
        settings = {"GIT_CONFIG_COUNT": str(len(names))}
        for number, name in enumerate(names):
            settings[f"GIT_CONFIG_KEY_{number}"] = name
            settings[f"GIT_CONFIG_VALUE_{number}"] = ""
        return settings

    def _tree_entries(self, commit: str, paths: Set[str]) -> dict[str, str]:
        """Return mode, blob and stage 0 of these paths in a commit, as `ls-files -s` says it."""
        if not commit:
            return {}
        out = self._git.run("ls-tree", "-r", "-z", "--full-tree", commit)
        found: dict[str, str] = {}
        for line in filter(None, out.split("\0")):
            meta, _, path = line.partition("\t")
            if path in paths:
                mode, _, blob = meta.split()
                found[path] = f"{mode} {blob} 0"
        return found

    def move_head(self, commit: str, parent: str, subject: str) -> None:
        """Move the branch to the commit, if it still is where it was read."""
        old = parent or "0" * 40
        try:
            self._git.run(
                "update-ref", "--create-reflog", "-m", f"vaultmem: {subject}", "HEAD", commit, old
            )
        except VaultError as error:
            now = self._git.run("rev-parse", "-q", "--verify", "HEAD", check=False)
            if now != parent:
                raise RefMovedError from error
            raise
        self._intent.unlink(missing_ok=True)

    def _write_blobs(
        self, changes: Mapping[str, tuple[str, bytes] | None], folder: Path
    ) -> dict[str, TreeEntry]:
        """Store the bytes as blobs; copies with plain names, so that no name can mislead git."""
        written = [(path, change) for path, change in changes.items() if change is not None]
        for number, (_, (_, data)) in enumerate(written):
            (folder / str(number)).write_bytes(data)
        names = "".join(f"{folder / str(number)}\n" for number in range(len(written)))
        command = ("hash-object", "-t", "blob", "-w", "--no-filters", "--stdin-paths")
        blobs = self._git.run(*command, stdin=names.encode()).split() if written else []
        entries = {
            self._prefix + path: TreeEntry("0", "0" * 40)
            for path, change in changes.items()
            if change is None
        }
        for (path, (mode, _)), blob in zip(written, blobs, strict=True):
            entries[self._prefix + path] = TreeEntry(mode, blob)
        return entries


def _index_value(entry: TreeEntry) -> str:
    """Return an entry as `ls-files -s` says it, empty for one that is removed."""
    return "" if entry.mode == "0" else f"{entry.mode} {entry.blob} 0"


def _author_environment(author: Identity, at: int) -> dict[str, str]:
    name = _clean_identity(author.name) or "agent"
    email = _clean_identity(author.email) or "agent@localhost"
    date = f"@{at} {time.strftime('%z', time.localtime(at))}"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
    }


def _clean_identity(text: str) -> str:
    return "".join(mark for mark in text if mark.isprintable() and mark not in "<>").strip()
