"""Where a repository has a text: in files, messages and names, reachable or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import History

_REACHABLE = ("--all", "--reflog")


class FoundText(NamedTuple):
    """A text, by its number (0-based) in what was looked for, and where it is."""

    number: int
    place: str


def find_texts(history: History, texts: Sequence[str]) -> list[FoundText]:
    """Return where each text is in the repository: in any object, or in a name.

    Objects that no branch, tag or other ref leads to are looked at as well.
    """
    wanted = [_encode(text) for text in texts]
    named = _name_objects(history)
    blobs: dict[tuple[int, str], list[str]] = {}
    found: set[FoundText] = set()
    kinds = _list_objects(history)
    for (name, kind), (_, data) in zip(kinds.items(), history.objects.read_all(kinds), strict=True):
        for number, forms in enumerate(wanted):
            if not any(form in data for form in forms):
                continue
            if name not in named:
                place = f"{kind} {name[:7]}, to which nothing leads: `git gc --prune=now` drops it"
                found.add(FoundText(number, place))
            elif kind == "blob":
                blobs.setdefault((number, named[name]), []).append(name)
            else:
                found.add(FoundText(number, f"{kind} {name[:7]}"))
    for (number, path), versions in blobs.items():
        found.add(FoundText(number, f"{path or 'a file'}{_describe_commit(history, versions)}"))
    refs = history.git.run("for-each-ref", "--format=%(refname)").splitlines()
    for number, text in enumerate(texts):
        found |= {FoundText(number, f"the name of {p}") for p in named.values() if text in p}
        found |= {FoundText(number, f"the name of the ref {r}") for r in refs if text in r}
    return sorted(found)


def _encode(text: str) -> set[bytes]:
    """Return the bytes by which a text may be there: as it is, and in JSON."""
    forms = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    return {form.encode("utf-8", "surrogateescape") for form in forms}


def _list_objects(history: History) -> dict[str, str]:
    """Return the kind of each object but trees, which have names alone."""
    form = "--batch-check=%(objectname) %(objecttype)"
    out = history.git.run("cat-file", "--batch-all-objects", form)
    kinds = dict(line.split(" ") for line in out.splitlines())
    return {name: kind for name, kind in kinds.items() if kind != "tree"}


def _name_objects(history: History) -> dict[str, str]:
    """Return the path of each object to which something leads, "" for commits and tags."""
    out = history.git.run("rev-list", "--objects", *_REACHABLE, "--indexed-objects")
    return {name: path for name, _, path in (line.partition(" ") for line in out.split("\n"))}


def _describe_commit(history: History, blobs: Sequence[str]) -> str:
    """Return how many versions these are of a file, and a commit that has the last."""
    for blob in blobs:
        find = ("log", *_REACHABLE, "-1", "-m", "--diff-filter=AM", "--format=%h")
        if commit := history.git.run(*find, f"--find-object={blob}", check=False).split("\n")[0]:
            count = f"{len(blobs)} versions, the last " if len(blobs) > 1 else ""
            return f": {count}came with commit {commit}"
    return ": in git's index"
