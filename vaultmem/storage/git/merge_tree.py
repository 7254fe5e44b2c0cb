"""Git's merge of two commits in objects alone: no index, no work tree, no user programs."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import VaultError
from vaultmem.storage.git.commit_draft import REGULAR, TreeEntry, parse_tree
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.setup import build_driver_command, choose_note_paths, make_git_folder
from vaultmem.storage.git.vault_history import VaultHistory


@contextlib.contextmanager
def make_workplace(folder: Path, history: VaultHistory, commit: str) -> Iterator[tuple[Path, Path]]:
    """Create a git folder and a work tree for one merge, without the user's settings.

    The folder has a fixed name, so the next merge removes what a killed process left.
    """
    shutil.rmtree(folder, ignore_errors=True)
    git_folder, work_tree = folder / "git", folder / "files"
    try:
        work_tree.mkdir(parents=True)
        make_git_folder(git_folder, history)
        _copy_merge_settings(git_folder, history)
        _copy_attributes(work_tree, history, commit)
        yield git_folder, work_tree
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_merge_settings(folder: Path, history: VaultHistory) -> None:
    """Write the repository's own attributes, and the one that gives notes our merge driver."""
    attributes_file = common_folder(history.git_folder) / "info/attributes"
    attributes = attributes_file.read_bytes() if attributes_file.is_file() else b""
    line = f"{choose_note_paths(history.prefix)} merge=vaultmem\n"
    whole = attributes + b"\n" + line.encode("utf-8", "surrogateescape")
    (folder / "info/attributes").write_bytes(whole)


def _copy_attributes(work_tree: Path, history: VaultHistory, commit: str) -> None:
    """Write the commit's `.gitattributes`, which exclude files from line merges."""
    out = history.git.run("ls-tree", "-r", "-z", "--full-tree", commit)
    blobs = {}
    for path, (mode, blob) in parse_tree(out):
        parts = path.split("/")
        is_safe = mode in REGULAR and "\\" not in path and not {"", ".", ".."} & set(parts)
        if parts[-1] == ".gitattributes" and is_safe:
            blobs[path] = blob
    for path, (_, data) in zip(blobs, history.objects.read_all(blobs.values()), strict=True):
        (work_tree / path).parent.mkdir(parents=True, exist_ok=True)
        (work_tree / path).write_bytes(data)


#: Above this number, paths are not passed to git one by one.
_MAX_PATHSPECS = 200

_DRIVERS = r"^merge\..*\.driver$"

#: The suffix git adds to a file that it moved out of a folder's way.
_MOVED_FILE_SUFFIX = re.compile(r"~[0-9a-f]{40}(_[0-9]+)?$")


class UnmergedPath(NamedTuple):
    """A path that git left open: the base's, our and their version, None if missing.

    `kind` is git's word for a conflict of another kind than contents, such as "rename/rename".
    `names` are then all its paths: for a file renamed twice, the old, our and their name.
    """

    path: str
    base: TreeEntry | None
    ours: TreeEntry | None
    theirs: TreeEntry | None
    kind: str = ""
    names: tuple[str, ...] = ()
    aside: str = ""

    @property
    def versions(self) -> list[TreeEntry]:
        """The existing versions, in the order base, ours, theirs."""
        return [entry for entry in (self.base, self.ours, self.theirs) if entry]


def merge_commits(
    history: VaultHistory, ours: str, theirs: str, scratch: Path, joins: bool = False
) -> tuple[str, list[UnmergedPath]]:
    """Merge two commits (full ids) as git does; return the tree's id and the open paths.

    `scratch` is the vault's state folder, whose lock the caller holds. Paths in the result are from
    the repository's root. With `joins`, no common ancestor is needed. Notes that both sides changed
    are left open, whatever the repository's attributes. A note that was added to a folder which the
    other side renamed stays in place.

    Raises:
        VaultError: the histories are unrelated, or git is too old.
    """
    with make_workplace(scratch / "merging", history, ours) as (git_folder, work_tree):
        options = ("-c", "merge.directoryRenames=false", "-c", "merge.renameLimit=20000")
        joined = ("--allow-unrelated-histories",) * joins
        command = ("merge-tree", "--write-tree", *joined, "-z", ours, theirs)
        env = {
            "GIT_DIR": str(git_folder),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_OBJECT_DIRECTORY": str(common_folder(history.git_folder) / "objects"),
            **_build_driver_settings(history),
        }
        try:
            out = history.git.run(*options, *command, env=env, fine=(0, 1), folder=work_tree)
        except VaultError as error:
            raise _explain(history, error) from None
    words = iter(out.split("\0"))
    tree = next(words)
    stages, asides = _parse_stages(words)
    return tree, list(_join(stages, asides, list(_parse_messages(words))))


def find_shared_versions(
    history: VaultHistory, ours: str, theirs: str, paths: Sequence[str]
) -> dict[str, TreeEntry]:
    """Return each file's newest version that both histories contain since they diverged.

    An example is a note taken over from the other side: git knows no common ancestor, yet both
    sides began with the same bytes. Files without such a version, or with different newest ones,
    are left out. `paths` are from the repository's root.
    """
    our_versions = _written_versions(history, theirs, ours, paths)
    their_versions = _written_versions(history, ours, theirs, paths)
    versions = {}
    for path in our_versions.keys() & their_versions.keys():
        shared_blobs = {entry.blob for entry in our_versions[path]} & {
            entry.blob for entry in their_versions[path]
        }
        newest = [
            next((e for e in each[path] if e.blob in shared_blobs), None)
            for each in (our_versions, their_versions)
        ]
        if newest[0] and newest[1] and newest[0].blob == newest[1].blob:
            versions[path] = newest[0]
    return versions


def _build_driver_settings(history: VaultHistory) -> dict[str, str]:
    """Return settings by which merge drivers leave conflicts open, except ours between ancestors.

    For a criss-cross merge, git first merges the common ancestors. A conflict left open there would
    be read as an ancestor's text.
    """
    names = history.git.run("config", "-z", "--name-only", "--get-regexp", _DRIVERS, check=False)
    settings = dict.fromkeys([name for name in names.split("\0") if name], "false")
    settings |= {
        "merge.vaultmem.driver": "false",
        "merge.vaultmem.recursive": "vaultmem-ancestors",
        "merge.vaultmem-ancestors.driver": build_driver_command(),
    }
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return env


def _explain(history: VaultHistory, error: VaultError) -> VaultError:
    if "unrelated histories" in str(error):
        if history.refs.is_shallow():
            return VaultError(
                "not merged: this clone is shallow and has no commit that both sides share; "
                "`git fetch --unshallow` gets it"
            )
        return VaultError("not merged: the two histories have no commit in common; use git itself")
    if "usage:" in str(error):
        return VaultError("not merged: this needs git 2.38 or newer; update git")
    return error


def _parse_stages(words: Iterator[str]) -> tuple[dict[str, dict[str, TreeEntry]], dict[str, str]]:
    """Return each open path's versions ("1" base, "2" ours, "3" theirs), and moved paths.

    Git moved the latter out of a folder's way.
    """
    stages: dict[str, dict[str, TreeEntry]] = {}
    asides: dict[str, str] = {}
    for word in words:
        if not word:
            break
        meta, _, name = word.partition("\t")
        mode, blob, stage = meta.split()
        path = _MOVED_FILE_SUFFIX.sub("", name)
        stages.setdefault(path, {})[stage] = TreeEntry(mode, blob)
        if path != name:
            asides[path] = name
    return stages, asides


def _parse_messages(words: Iterator[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield kind and paths of each conflict: a count, as many paths, a kind and a text."""
    for count in words:
        if not count.strip().isdigit():
            return
        paths = tuple(_MOVED_FILE_SUFFIX.sub("", next(words, "")) for _ in range(int(count)))
        kind, _ = next(words, ""), next(words, "")
        if kind.startswith("CONFLICT"):
            yield kind.partition("(")[2].rstrip(")"), paths


def _join(
    stages: Mapping[str, dict[str, TreeEntry]],
    asides: Mapping[str, str],
    messages: list[tuple[str, tuple[str, ...]]],
) -> Iterator[UnmergedPath]:
    """Yield each conflict once, whether git has versions of it or not."""
    conflicts = {
        path: UnmergedPath(
            *(path, sides.get("1"), sides.get("2"), sides.get("3")), aside=asides.get(path, "")
        )
        for path, sides in stages.items()
    }
    for kind, paths in messages:
        if kind == "contents" or not paths:
            continue
        conflict = conflicts.get(paths[0], UnmergedPath(paths[0], None, None, None))
        conflicts[paths[0]] = conflict._replace(kind=kind, names=paths)
        if kind == "rename/rename":
            for path in paths[1:]:
                conflicts.pop(path, None)
    yield from (conflicts[path] for path in sorted(conflicts))


def _written_versions(
    history: VaultHistory, excluded_commit: str, commit: str, paths: Sequence[str]
) -> dict[str, list[TreeEntry]]:
    """Return the versions of these files in commits that only one side has, newest first."""
    options = ("--format=", "--raw", "-z", "-m", "--root", "--no-abbrev", "--no-renames")
    log_options = ("--full-history", "--no-ext-diff", "--no-textconv", "--no-show-signature")
    pathspec = (
        paths if len(paths) <= _MAX_PATHSPECS else ()
    )  # Whole commits are faster than many paths.
    out = history.git.run(
        "log", *options, *log_options, commit, f"^{excluded_commit}", "--", *pathspec
    )
    names, versions = set(paths), dict[str, list[TreeEntry]]()
    words = iter(out.split("\0"))
    for meta, name in zip(words, words, strict=False):
        fields = meta.strip().lstrip(":").split()
        if name in names and len(fields) == 5 and fields[1].startswith("100"):
            versions.setdefault(name, []).append(TreeEntry(fields[1], fields[3]))
    return versions
