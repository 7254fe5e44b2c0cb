"""Git's own merge of two commits, in objects alone: no index, no work tree, nobody's programs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vaultmem.errors import VaultError
from vaultmem.storage.commits import TreeEntry
from vaultmem.storage.git import GitRunner

#: Leaves every note that both sides changed to us: as a conflict with its three versions.
_ATTRIBUTES = "*.md merge=vaultmem\n"

_DRIVERS = r"^merge\..*\.driver$"


@dataclass(frozen=True, slots=True)
class Unmerged:
    """A path that git left open: the base's, our and their version, None where there is none."""

    path: str
    base: TreeEntry | None
    ours: TreeEntry | None
    theirs: TreeEntry | None


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The merged tree's id, what is open in it, and git's words on the conflicts."""

    tree: str
    unmerged: tuple[Unmerged, ...]
    messages: tuple[str, ...]


def merge_commits(git: GitRunner, ours: str, theirs: str, scratch: Path) -> MergedTree:
    """Merge two commits (full ids) as git does; paths are from the repository's root.

    Raises:
        VaultError: their histories have nothing in common.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        attributes = Path(folder) / "attributes"
        attributes.write_text(_ATTRIBUTES)
        options = ("-c", f"core.attributesFile={attributes}", "-c", "merge.renames=true")
        command = ("merge-tree", "--write-tree", "-z", ours, theirs)
        try:
            out = git.run(*options, *command, env=_without_drivers(git), fine=(0, 1))
        except VaultError as error:
            if "unrelated histories" in str(error):
                raise VaultError("the two branches have no commit in common; not merged") from None
            raise
    words = iter(out.split("\0"))
    tree = next(words)
    return MergedTree(tree, tuple(_take_unmerged(words)), tuple(_take_messages(words)))


def _without_drivers(git: GitRunner) -> dict[str, str]:
    """Return settings that make each merge driver of the repository leave a conflict."""
    found = git.run("config", "-z", "--name-only", "--get-regexp", _DRIVERS, check=False)
    names = sorted({"merge.vaultmem.driver", *filter(None, found.split("\0"))})
    settings = {"GIT_CONFIG_COUNT": str(len(names))}
    for number, name in enumerate(names):
        settings[f"GIT_CONFIG_KEY_{number}"] = name
        settings[f"GIT_CONFIG_VALUE_{number}"] = "false"
    return settings


def _take_unmerged(words: Iterator[str]) -> Iterator[Unmerged]:
    stages: dict[str, dict[str, TreeEntry]] = {}
    for word in words:
        if not word:
            break
        meta, _, path = word.partition("\t")
        mode, blob, stage = meta.split()
        stages.setdefault(path, {})[stage] = TreeEntry(mode, blob)
    for path, found in sorted(stages.items()):
        yield Unmerged(path, found.get("1"), found.get("2"), found.get("3"))


def _take_messages(words: Iterator[str]) -> Iterator[str]:
    """Yield the messages on conflicts: each is a count, as many paths, a kind and a text."""
    for count in words:
        if not count.strip().isdigit():
            return
        for _ in range(int(count)):
            next(words, "")
        kind, text = next(words, ""), next(words, "").strip()
        if kind.startswith("CONFLICT"):
            yield text
