"""A git folder and a work tree for the time of one merge.

Git runs merge drivers by the settings of its folder, reads `.gitattributes` where it runs, and
leaves files of its own there when it is killed. So it gets a place that is nobody's.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.history import History
from vaultmem.storage.git.merge_setup import name_notes


@contextlib.contextmanager
def make_workplace(folder: Path, history: History, commit: str) -> Iterator[tuple[Path, Path]]:
    """Make a git folder and a work tree for the time of a merge, and nobody's settings in them.

    They have one name, so that what a killed process left of them goes with the next one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    git_folder, work_tree = folder / "git", folder / "files"
    try:
        work_tree.mkdir(parents=True)
        _fill_git_folder(git_folder, history)
        _copy_attributes(work_tree, history, commit)
        yield git_folder, work_tree
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill_git_folder(folder: Path, history: History) -> None:
    """Make a git folder that shares the repository's objects."""
    common = common_folder(history.git_folder)
    for name in ("objects", "refs", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n")
    theirs = common / "info/attributes"
    known = theirs.read_bytes() if theirs.is_file() else b""
    line = f"{name_notes(history.prefix)} merge=vaultmem\n"
    (folder / "info/attributes").write_bytes(
        known + b"\n" + line.encode("utf-8", "surrogateescape")
    )
    if (common / "shallow").is_file():
        shutil.copyfile(common / "shallow", folder / "shallow")


def _copy_attributes(work_tree: Path, history: History, commit: str) -> None:
    """Write the commit's `.gitattributes`: they say which files git does not merge by lines."""
    out = history.git.run("ls-tree", "-r", "-z", "--full-tree", commit)
    found = {}
    for line in filter(None, out.split("\0")):
        meta, _, path = line.partition("\t")
        parts = path.split("/")
        is_safe = meta.startswith("100") and "\\" not in path and not {"", ".", ".."} & set(parts)
        if parts[-1] == ".gitattributes" and is_safe:
            found[path] = meta.split()[2]
    for path, (_, data) in zip(found, history.objects.read_all(found.values()), strict=True):
        (work_tree / path).parent.mkdir(parents=True, exist_ok=True)
        (work_tree / path).write_bytes(data)
