"""Bring a merge to its end that git has stopped, and that nobody went on with."""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.notes.conflict import find_conflict
from vaultmem.errors import NoteNotFoundError, RefusedError, naming_faults
from vaultmem.services.branching.incoming import refuse_leaks
from vaultmem.services.branching.merge import MergeReport, draft_merge
from vaultmem.services.branching.settle import settle_merge
from vaultmem.services.branching.tree_moves import moving_tree, plan_files, read_entry
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.sync import sync_vault
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.commit_draft import Draft, File, TreeEntry
from vaultmem.storage.git.merge_tree import MergedTree, Unmerged
from vaultmem.storage.git.refs import Target
from vaultmem.vault import Vault

_NAMED = re.compile(r"branch '([^'\n]+)'")
#: How git calls, in the folder, a file that it moved out of another folder's way.
_ASIDE = re.compile(r"~[^/~]+$")
_GONE = "0" * 40


class _Index(NamedTuple):
    """What git's index has: files that are merged, and the versions of those that are not."""

    merged: dict[str, TreeEntry]
    open: dict[str, dict[str, TreeEntry]]


def is_stopped(vault: Vault) -> bool:
    """Tell whether a merge is under way that has files in conflict."""
    return (vault.history.git_folder / "MERGE_HEAD").is_file() and bool(vault.history.unmerged())


def finish_merge(vault: Vault) -> MergeReport:
    """Settle what a stopped `git merge` or `git pull` left open, as `merge` does, and commit it.

    What a person has mended and staged stays as it is, and so does a note in conflict from which
    they have taken the markers. In a rebase or cherry-pick it is staged and not committed: git goes
    on with it by itself.

    Raises:
        NoteNotFoundError: nothing is under way.
        RefusedError: something looks like a credential, or another branch is worked on.
        MergeConflictError: something in conflict is no file of the vault.
        ConflictError: somebody saved a file meanwhile; the merge is as it was.
    """
    history = vault.history
    with naming_faults("the merge is as it was"), vault.lock():
        if find_branch(vault):
            raise RefusedError("a merge is finished where it was begun; drop --ref")
        if not (history.git_folder / "MERGE_HEAD").is_file():
            return _settle_replayed(vault)
        source = _find_source(vault)
        head = history.head()
        draft, settled = draft_merge(vault, head.commit, source, head.branch or "HEAD")
        index = _read_index(vault)
        chosen = _choose_files(vault, draft, index)
        moves, contents = plan_files(chosen, partial(read_entry, vault))
        with moving_tree(vault, moves, contents):
            commit = _commit(vault, draft, chosen, index)
        with vault.leaving_to_next():
            sync_vault(vault)
    return MergeReport(source, head.branch, commit, tuple(sorted(moves)), *settled.told)


def _settle_replayed(vault: Vault) -> MergeReport:
    """Settle and stage what the commit left open that git was about to make again."""
    history, index = vault.history, _read_index(vault)
    replayed = [name for name in ("REBASE_HEAD", "CHERRY_PICK_HEAD") if _read_id(vault, name)]
    if not index.open or not replayed:
        raise NoteNotFoundError("no merge is under way; see `vaultmem resolve`")
    source = history.refs.resolve(_read_id(vault, replayed[0]))._replace(name="")
    unmerged = tuple(
        Unmerged(history.prefix + path, stages.get("1"), stages.get("2"), stages.get("3"))
        for path, stages in index.open.items()
    )
    head = history.head()
    settled = settle_merge(vault, MergedTree("", unmerged), head.commit, source, "ours")
    refuse_leaks(vault, head.commit, head.commit, settled.files)
    chosen = {
        path: settled.files.get(path) and (_find_mended(vault, path, stages) or settled.files[path])
        for path, stages in index.open.items()
    }
    after = {**settled.files, **chosen}
    moves, contents = plan_files(after, partial(read_entry, vault))
    with moving_tree(vault, moves, contents):
        _stage(vault, after, index)
    with vault.leaving_to_next():
        sync_vault(vault)
    return MergeReport(source, head.branch, "", tuple(sorted(moves)), *settled.told)


def _read_id(vault: Vault, name: str) -> str:
    """Return the first commit that a file of git's names, "" if it names none."""
    try:
        text = (vault.history.git_folder / name).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
    return next(iter(text.split()), "")


def _find_source(vault: Vault) -> Target:
    folder = vault.history.git_folder
    source = vault.history.refs.resolve(_read_id(vault, "MERGE_HEAD"))
    try:
        told = (folder / "MERGE_MSG").read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    named = _NAMED.search(told.partition("\n")[0])
    return source._replace(name=named[1]) if named else source


def _read_index(vault: Vault) -> _Index:
    """Return the vault's files in git's index, by path."""
    index = _Index({}, {})
    prefix = vault.history.prefix
    for line in filter(None, vault.history.git.run("ls-files", "-s", "-z").split("\0")):
        meta, _, path = line.partition("\t")
        mode, blob, stage = meta.split()
        entry, inside = TreeEntry(mode, blob), path.removeprefix(prefix)
        if not path.startswith(prefix):
            continue
        if stage == "0":
            index.merged[inside] = entry
        else:
            index.open.setdefault(inside, {})[stage] = entry
    return index


def _choose_files(vault: Vault, draft: Draft, index: _Index) -> dict[str, File]:
    """Return what becomes of the files that are open, and of others as far as git alone did them.

    Names under which git left a version, and that the merge has under another one, go.
    """
    automatic = vault.history.tree(draft.base)
    chosen: dict[str, File] = {}
    for path, file in draft.files.items():
        if path in index.open:
            chosen[path] = _find_mended(vault, path, index.open[path]) or file
        elif index.merged.get(path) == automatic.get(path):
            chosen[path] = file
    for path, stages in index.open.items():
        is_moved = path not in draft.files and (set(stages) == {"1"} or _ASIDE.search(path))
        if is_moved:
            chosen[path] = None
    return chosen


def _find_mended(vault: Vault, path: str, stages: dict[str, TreeEntry]) -> File:
    """Return what a person made of a file in conflict, None where it is as git left it."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except (NoteNotFoundError, UnsafeFileError):
        return None
    text = data.decode("utf-8", "replace")
    if blob_id(data) in {entry.blob for entry in stages.values()} or find_conflict(text):
        return None
    return next(iter(stages.values())).mode, data


def _stage(vault: Vault, chosen: dict[str, File], index: _Index) -> None:
    git, prefix = vault.history.git, vault.history.prefix
    lines: list[str] = []
    for path, file in chosen.items():
        if path in index.open or file is None:
            lines.append(f"0 {_GONE}\t{prefix}{path}\0")
        if file is not None:
            blob = git.run("hash-object", "-w", "--stdin", stdin=file[1])
            lines.append(f"{file[0]} {blob}\t{prefix}{path}\0")
    said = "".join(lines).encode("utf-8", "surrogateescape")
    quiet = vault.history.settings().without_filters()
    git.run("update-index", "-z", "--index-info", stdin=said, env=quiet)


def _commit(vault: Vault, draft: Draft, chosen: dict[str, File], index: _Index) -> str:
    """Stage what was chosen and let git make the commit, with all that a person has staged."""
    _stage(vault, chosen, index)
    name, email = draft.author
    env = vault.history.settings().without_filters()
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": name, f"GIT_{who}_EMAIL": email}
    command = ("commit", "-q", "--no-verify", "--allow-empty", "--cleanup=verbatim", "-F", "-")
    vault.history.git.run(*command, stdin=draft.message.encode("utf-8"), env=env)
    return vault.history.head().commit
