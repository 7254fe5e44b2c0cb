"""Read and compare the trees of commits, and search their texts."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.changes import FileChange
from vaultmem.core.text.display import escape_bytes
from vaultmem.storage.git.commit_draft import EMPTY_TREE, TreeEntry, parse_tree

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import VaultHistory


#: Options for `Words` and `parse_changes`: raw, NUL-separated, and no program of the repository
#: runs.
RAW = ("-z", "--raw", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-color")


class Words:
    """NUL-separated output with a look at the next word."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = iter(words)
        self.next: str | None = next(self._words, None)

    def take(self) -> str:
        """Return the next word and advance; "" after the last."""
        word = self.next or ""
        self.next = next(self._words, None)
        return word


def find_entry(history: VaultHistory, commit: str, path: str) -> TreeEntry | None:
    """Return the regular file that a commit has at a vault-relative path, or None."""
    out = history.git.run("ls-tree", "-z", "--full-tree", commit, "--", history.prefix + path)
    for name, entry in parse_tree(out):
        if name == history.prefix + path and entry.mode.startswith("100"):
            return entry
    return None


def diff_commits(
    history: VaultHistory, old: str, new: str, renames: bool = False
) -> list[FileChange]:
    """Return the vault's changes between two commits; with `renames`, renames are detected.

    An empty `old` is the empty tree.
    """
    pathspec = ["--", history.prefix] if history.prefix else []
    options = ("-M" if renames else "--no-renames", *RAW)
    command = ("diff-tree", "-r", *options, old or EMPTY_TREE, new or EMPTY_TREE)
    words = Words(history.git.run(*command, *pathspec).split("\0"))
    return list(parse_changes(words, history.prefix))


def parse_changes(words: Words, prefix: str) -> Iterator[FileChange]:
    """Parse the next raw lines; a merge is compared with its first parent.

    Source: `git diff-tree --help`, "RAW OUTPUT FORMAT".
    """
    while words.next is not None and words.next.lstrip("\n").startswith(":"):
        line = words.take().lstrip("\n")
        parents = len(line) - len(line.lstrip(":"))
        fields = line.lstrip(":").split(" ")
        modes, blobs, status = (
            fields[: parents + 1],
            fields[parents + 1 : 2 * parents + 2],
            fields[-1],
        )
        name = previous = _seen_from(prefix, words.take())
        if parents == 1 and status[0] in "RC":
            name = _seen_from(prefix, words.take())
        old_mode, mode, old_blob, blob = (
            value if value.strip("0") else ""
            for value in (modes[0], modes[-1], blobs[0], blobs[-1])
        )
        old_name = previous if status.startswith("R") else ""
        yield FileChange(name, old_blob, blob, old_mode, mode, old_name if old_name != name else "")


def list_blobs(history: VaultHistory, commit: str, path: str = "") -> dict[str, list[str]]:
    """Return the blob ids of files in a commit's history by path, newest first.

    The files are `path`, or all in the vault. For a merge, each side counts.
    """
    full_path = history.prefix + path
    command = ("log", "--topo-order", "--format=", "-m", "--root", "--no-renames", *RAW, commit)
    words = Words(history.git.run(*command, *(("--", full_path) if full_path else ())).split("\0"))
    blobs_by_path: dict[str, dict[str, None]] = {}
    while words.next is not None:
        for change in parse_changes(words, history.prefix):
            blobs_by_path.setdefault(change.path, {}).update(
                {change.blob: None, change.old_blob: None}
            )
        words.take()  # The separator of two commits.
    return {name: [blob for blob in blobs if blob] for name, blobs in blobs_by_path.items()}


def _seen_from(prefix: str, path: str) -> str:
    """Return a path relative to the vault, for display: a note can come from outside it.

    Invalid UTF-8 is escaped.
    """
    relative_path = (
        path[len(prefix) :] if path.startswith(prefix) else posixpath.relpath(path, prefix)
    )
    return escape_bytes(relative_path)


#: A folder's mode, as git prints it.
FOLDER = "040000"


def list_places(history: VaultHistory, commit: str) -> dict[str, TreeEntry]:
    """Return all entries of a commit in the vault by path: files, folders, links, submodules."""
    pathspec = ["--", history.prefix] if history.prefix else []
    out = history.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit, *pathspec)
    # The folders above the vault are listed too.
    entries = (each for each in parse_tree(out) if each[0].startswith(history.prefix))
    return {path.removeprefix(history.prefix): entry for path, entry in entries}


# Find a text in a repository: in files, messages and names, reachable or not.

_REACHABLE = ("--all", "--reflog")


class FoundText(NamedTuple):
    """The number (0-based) of a searched text, and a place where it was found."""

    number: int
    place: str


def find_texts(history: VaultHistory, texts: Sequence[str]) -> list[FoundText]:
    """Return the places of each text in the repository: in any object, or in a name.

    Unreachable objects are searched too.
    """
    encodings = [_encode(text) for text in texts]
    object_paths = _read_object_paths(history)
    blobs: dict[tuple[int, str], list[str]] = {}
    matches: set[FoundText] = set()
    kinds = _list_objects(history)
    for (name, kind), (_, data) in zip(kinds.items(), history.objects.read_all(kinds), strict=True):
        for number, forms in enumerate(encodings):
            if not any(form in data for form in forms):
                continue
            if name not in object_paths:
                label = f"{kind} {name[:7]}, to which nothing leads: `git gc --prune=now` drops it"
                matches.add(FoundText(number, label))
            elif kind == "blob":
                blobs.setdefault((number, object_paths[name]), []).append(name)
            else:
                matches.add(FoundText(number, f"{kind} {name[:7]}"))
    for (number, path), versions in blobs.items():
        matches.add(FoundText(number, f"{path or 'a file'}{_describe_commit(history, versions)}"))
    refs = history.git.run("for-each-ref", "--format=%(refname)").splitlines()
    for number, text in enumerate(texts):
        matches |= {
            FoundText(number, f"the name of {p}") for p in object_paths.values() if text in p
        }
        matches |= {FoundText(number, f"the name of the ref {r}") for r in refs if text in r}
    return sorted(matches)


def _encode(text: str) -> set[bytes]:
    """Return the byte forms of a text to search for: plain, and in JSON."""
    forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return {form.encode("utf-8", "surrogateescape") for form in forms}


def _list_objects(history: VaultHistory) -> dict[str, str]:
    """Return the kind of each object except trees, which contain only names."""
    form = "--batch-check=%(objectname) %(objecttype)"
    out = history.git.run("cat-file", "--batch-all-objects", form)
    kinds = dict(line.split(" ") for line in out.splitlines())
    return {name: kind for name, kind in kinds.items() if kind != "tree"}


def _read_object_paths(history: VaultHistory) -> dict[str, str]:
    """Return the path of each reachable object, "" for commits and tags."""
    out = history.git.run("rev-list", "--objects", *_REACHABLE, "--indexed-objects")
    return {name: path for name, _, path in (line.partition(" ") for line in out.split("\n"))}


def _describe_commit(history: VaultHistory, blobs: Sequence[str]) -> str:
    """Return the number of versions of a file, and a commit that has the last."""
    for blob in blobs:
        find = ("log", *_REACHABLE, "-1", "-m", "--diff-filter=AM", "--format=%h")
        if commit := history.git.run(*find, f"--find-object={blob}", check=False).split("\n")[0]:
            count = f"{len(blobs)} versions, the last " if len(blobs) > 1 else ""
            return f": {count}came with commit {commit}"
    return ": in git's index"
