"""Bring a merge to its end that git has stopped, and that nobody went on with."""

from __future__ import annotations

import re
from functools import partial

from vaultmem.errors import RefusedError
from vaultmem.services.branching.merge import Drafted, MergeReport, draft_merge
from vaultmem.services.branching.tree_moves import move_tree, plan_files, read_entry
from vaultmem.services.branching.unmerged import (
    Index,
    find_edited,
    read_id,
    read_index,
    settle_unmerged,
    stage_files,
)
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.git.commit_draft import Draft, File
from vaultmem.storage.git.refs import Target
from vaultmem.vault import Vault

_NAMED = re.compile(r"branch '([^'\n]+)'")
#: How git calls, in the folder, a file that it moved out of another folder's way.
_ASIDE = re.compile(r"~[^/~]+$")


def is_stopped(vault: Vault) -> bool:
    """Tell whether a merge is under way that has files in conflict."""
    return (vault.history.git_folder / "MERGE_HEAD").is_file() and bool(vault.history.unmerged())


def finish_merge(vault: Vault) -> MergeReport:
    """Settle what a stopped `git merge` or `git pull` left open, as `merge` does, and commit it.

    What a person has repaired and staged stays as it is, and so does a note in conflict from which
    they have taken the markers. Where no merge is under way, what git has in conflict is staged
    and not committed.

    Raises:
        NoteNotFoundError: nothing is under way, and no note is in conflict.
        RefusedError: something looks like a credential, or another branch is worked on.
        MergeConflictError: something in conflict is no file of the vault.
        ConflictError: somebody saved a file meanwhile; the merge is as it was.
    """
    return operate(vault, "the merge is as it was", lambda operation: _finish(operation, vault))


def _finish(operation: Operation, vault: Vault) -> MergeReport:
    history = vault.history
    if find_branch(vault):
        raise RefusedError("a merge is finished where it was begun; drop --ref")
    if not (history.git_folder / "MERGE_HEAD").is_file():
        return settle_unmerged(vault)
    source = _find_source(vault)
    head = history.head()
    drafted = draft_merge(vault, head.commit, source, head.branch or "HEAD")
    draft, index = drafted.draft, read_index(vault)
    chosen = _choose_files(vault, drafted, index)
    moves, contents = plan_files(chosen, partial(read_entry, vault))
    move_tree(operation, vault, moves, contents)
    commit = _commit(vault, draft, chosen, index)
    return MergeReport(source, head.branch, commit, tuple(sorted(moves)), *drafted.settled.told)


def _find_source(vault: Vault) -> Target:
    folder = vault.history.git_folder
    source = vault.history.refs.resolve(read_id(vault, "MERGE_HEAD"))
    try:
        told = (folder / "MERGE_MSG").read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    named = _NAMED.search(told.partition("\n")[0])
    return source._replace(name=named[1]) if named else source


def _choose_files(vault: Vault, drafted: Drafted, index: Index) -> dict[str, File]:
    """Return what becomes of the files that are open, and of others as far as git alone did them.

    Names under which git left a version, and that the merge has under another one, go. A file that
    one side removed and that is open no more was decided by a person.
    """
    draft = drafted.draft
    automatic = vault.history.tree(draft.base)
    chosen: dict[str, File] = {}
    for path, file in draft.files.items():
        if path in index.open:
            chosen[path] = find_edited(vault, path, index.open[path]) or file
        elif path in drafted.removed:
            continue
        elif index.merged.get(path) == automatic.get(path):
            chosen[path] = file
    for path, stages in index.open.items():
        is_moved = path not in draft.files and (set(stages) == {"1"} or _ASIDE.search(path))
        if is_moved:
            chosen[path] = None
    return chosen


def _commit(vault: Vault, draft: Draft, chosen: dict[str, File], index: Index) -> str:
    """Stage what was chosen and let git make the commit, with all that a person has staged."""
    stage_files(vault, chosen, index)
    name, email = draft.author
    env = vault.history.settings().without_filters()
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": name, f"GIT_{who}_EMAIL": email}
    command = ("commit", "-q", "--no-verify", "--allow-empty", "--cleanup=verbatim", "-F", "-")
    vault.history.git.run(*command, stdin=draft.message.encode("utf-8"), env=env)
    return vault.history.head().commit
