"""Go back to before a rebase whose git was killed; what was saved since stays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath

from vaultmem.core.merging.merged import Sides
from vaultmem.core.merging.note import is_note, merge_texts
from vaultmem.core.notes.conflict import Speaker
from vaultmem.errors import FaultError, NoteNotFoundError, PendingError, naming_faults
from vaultmem.services.branching.tree_moves import find_moves, moving_tree, plan_files, read_entry
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.recovery import recover
from vaultmem.services.reading.sync import sync_vault
from vaultmem.storage.files import read_file
from vaultmem.storage.git.commit_draft import File, TreeEntry
from vaultmem.storage.git.killed_rebase import KilledRebase
from vaultmem.storage.git.locks import describe_lock, free_lock
from vaultmem.vault import Vault

#: A write that was cut off has left a whole number of these, none of most notes.
_PAGE = 4096


def leave_rebase(vault: Vault) -> str:
    """Bring files, index and HEAD back to the branch that was rebased; return its name.

    What git wrote goes. What somebody has saved in a note since is merged into what the branch has
    of it, and waits for a commit. "" where no git was killed in a rebase, or where another branch
    than what is checked out is worked on.

    Raises:
        PendingError: another git holds a lock, or has left one.
        RefusedError: git has to do it, for links or files that are no vault's.
        ConflictError: somebody saved a file meanwhile; all is as it was.
    """
    if find_branch(vault) or vault.history.find_killed_rebase() is None:
        return ""
    with naming_faults("the rebase is as it was"), vault.lock():
        recover(vault)
        killed, head = vault.history.find_killed_rebase(), vault.history.head()
        branch = head.branch or (killed.branch if killed else "")
        if killed is None or not branch:
            return ""
        _check_locks(vault)
        files = _choose_files(vault, (head.commit, *killed.commits), branch)
        moves, contents = plan_files(files, partial(read_entry, vault))
        with moving_tree(vault, moves, contents):
            vault.history.refs.checkout(branch)
        _clear_git(vault, killed)
        with vault.leaving_to_next():
            sync_vault(vault)
    return branch


def _check_locks(vault: Vault) -> None:
    for name in ("index.lock", "HEAD.lock"):
        lock = vault.history.git_folder / name
        if not free_lock(lock, vault.history.git.place):
            raise PendingError(describe_lock(lock))


def _choose_files(vault: Vault, commits: tuple[str, ...], branch: str) -> dict[str, File]:
    """Return what becomes of each file that is not the same in all of the commits.

    The first of them is what is checked out.
    """
    history = vault.history
    tip = history.refs.branch_tip(branch)
    find_moves(vault, commits[0], tip)  # It refuses what vaultmem does not move.
    now, *others = (history.tree(commit) for commit in (tip, *commits))
    paths = {path for tree in others for path in tree.keys() | now.keys()}
    files: dict[str, File] = {}
    for path in sorted(paths):
        versions = [tree.get(path) for tree in (now, *others)]
        if any(each != versions[0] for each in versions):
            files |= _choose_file(vault, path, versions)
    return files


def _choose_file(vault: Vault, path: str, versions: list[TreeEntry | None]) -> Mapping[str, File]:
    """Return a file as the branch has it, the first version, with what was saved of the next."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except NoteNotFoundError:
        data = None
    texts = [vault.history.objects.read(each.blob)[1] if each else None for each in versions]
    wanted = versions[0]
    if data is None or _is_of_git(data, texts):
        return {path: (wanted.mode, texts[0]) if wanted and texts[0] is not None else None}
    if wanted is None or not is_note(path):
        return {}
    merged = _carry(vault, path, texts, data)
    return {} if merged is None else {path: (wanted.mode, merged.encode())}


def _carry(vault: Vault, path: str, texts: list[bytes | None], data: bytes) -> str | None:
    """Return a note as the branch has it with what somebody saved; None if one is no text."""
    try:
        ours, *bases = ("" if each is None else each.decode() for each in texts)
        theirs = data.decode()
    except UnicodeDecodeError:
        return None
    base = min(bases, key=lambda each: _count_other_lines(each, theirs))
    author = vault.history.person().identity.name
    said = Speaker(author, f"{vault.local_time():%Y-%m-%d}", "saved in a rebase")
    return merge_texts(path, base, ours, theirs, Sides(theirs=said, later="theirs")).text


def _count_other_lines(text: str, other: str) -> int:
    """Return how many lines only one of two texts has: what was saved was made of the nearest."""
    return len(set(text.splitlines()) ^ set(other.splitlines()))


def _is_of_git(data: bytes, texts: list[bytes | None]) -> bool:
    """Tell whether bytes are those of a commit, or as much of them as git had written."""
    known = [each for each in texts if each is not None]
    is_cut = not len(data) % _PAGE and any(each.startswith(data) for each in known)
    return is_cut or data in known


def _clear_git(vault: Vault, killed: KilledRebase) -> None:
    """Let git's index follow, and drop what it has noted of the rebase."""
    git = vault.history.git
    git.run("reset", "-q", env=vault.history.settings().without_filters())
    git.run("rebase", "--quit")
    if killed.has_stash:
        try:
            git.run("stash", "pop", "-q")
        except FaultError as error:
            told = "the rebase is ended, but what git had put away before it does not fit any more"
            raise FaultError(f"{told}; `git stash show -p` has it") from error
