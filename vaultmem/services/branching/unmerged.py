"""Settle or decide the files that git's index has in conflict, whatever left them there.

A merge that git has stopped has a commit to come (`finish`). A rebase, a cherry-pick or a revert
goes on by git itself. After `git stash pop`, `git checkout -m` or `git apply -3` nothing is under
way: what is settled is a change that no commit has yet.
"""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.merging.text import Choice, settle_callouts
from vaultmem.core.notes.conflict import (
    Callout,
    find_callouts,
    find_conflict,
    take_out_callouts,
)
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import UnreadableNoteError, parse_note
from vaultmem.core.paths import is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.branching.conflicts import Resolved
from vaultmem.services.branching.incoming import refuse_leaks
from vaultmem.services.branching.merge import MergeReport
from vaultmem.services.branching.settle import Settled, settle_merge
from vaultmem.services.branching.tree_moves import move_tree, plan_files, read_entry
from vaultmem.services.notes.update import refuse_hidden
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.checkout import list_staged
from vaultmem.storage.git.commit_draft import File, TreeEntry
from vaultmem.storage.git.head import find_operation
from vaultmem.storage.git.last_change import LastChange
from vaultmem.storage.git.merge_tree import MergedTree, Unmerged
from vaultmem.storage.git.refs import Target
from vaultmem.vault import Vault

_GONE = "0" * 40

#: The commits whose change git makes again, by the command, and the one that has their side.
_REPLAYED = {"rebase": "REBASE_HEAD", "cherry-pick": "CHERRY_PICK_HEAD", "revert": "REVERT_HEAD"}

Stages = dict[str, TreeEntry]


class Index(NamedTuple):
    """What git's index has: files that are merged, and the versions of those that are not.

    Stage "1" is the common version, "2" ours, "3" theirs.
    """

    merged: dict[str, TreeEntry]
    open: dict[str, Stages]


def settle_unmerged(vault: Vault) -> MergeReport:
    """Settle and stage all files in conflict; both versions stay, and no commit is made.

    Raises:
        NoteNotFoundError: none of the vault's files is in conflict.
        MergeConflictError: something in conflict is no file of the vault.
    """
    index = read_index(vault)
    if not index.open:
        raise NoteNotFoundError("no merge is under way, and git has no note in conflict")
    source, settled = _settle(vault, index.open)
    chosen = {
        path: settled.files.get(path) and (find_edited(vault, path, stages) or settled.files[path])
        for path, stages in index.open.items()
    }
    moved = _write(vault, {**settled.files, **chosen}, index)
    return MergeReport(source, vault.history.head().branch, "", moved, *settled.told)


def decide_unmerged(vault: Vault, address: str, choice: Choice) -> Resolved | None:
    """Decide and stage one file in conflict; None where git has none that is called that.

    Of a note that both sides have, `choice` decides what both changed; the rest is merged.

    Raises:
        RefusedError: a person has edited it, an agent may not change it, or it looks like a
            credential.
    """
    if find_branch(vault) or not vault.history.unmerged():
        return None

    def work(_: Operation) -> Resolved | None:
        index = read_index(vault)
        named = [path for path in index.open if address in _list_names(path)]
        if len(named) != 1:
            return None
        (path,), stages = named, index.open[named[0]]
        for entry in stages.values():
            _refuse_hidden(vault, path, entry)
        if find_edited(vault, path, stages):
            add = f"git add {shlex.quote(path)}"
            raise RefusedError(f"{path}: edited since git left it; `{add}` keeps that")
        files = _decide(vault, path, stages, choice)
        _write(vault, files, index)
        return Resolved(path, 1, files[path] is None, CommitReport())

    return operate(vault, "nothing was decided", work)


def name_next_step(vault: Vault) -> str:
    """Return the command that goes on after files were settled, and what it does."""
    operation = find_operation(vault.history.git_folder)
    if vault.history.unmerged():
        return "`vaultmem resolve` shows what else is in conflict."
    if operation == "merge":
        return "`vaultmem resolve --all` commits the merge."
    if operation in {*_REPLAYED, "am"}:
        how = "continue" if list_staged(vault.history) else "skip"
        return f"`git {operation} --{how}` goes on."
    return "`vaultmem checkpoint NOTE` commits it."


def read_id(vault: Vault, name: str) -> str:
    """Return the first commit that a file of git's names, "" if it names none."""
    try:
        text = (vault.history.git_folder / name).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
    return next(iter(text.split()), "")


def read_index(vault: Vault) -> Index:
    """Return the vault's files in git's index, by path."""
    index = Index({}, {})
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


def find_edited(vault: Vault, path: str, stages: Stages) -> File:
    """Return what a person made of a file in conflict, None where it is as git left it."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except (NoteNotFoundError, UnsafeFileError):
        return None
    text = data.decode("utf-8", "replace")
    if blob_id(data) in {entry.blob for entry in stages.values()} or find_conflict(text):
        return None
    return next(iter(stages.values())).mode, data


def stage_files(vault: Vault, chosen: dict[str, File], index: Index) -> None:
    """Put files into git's index, None takes one out; those in conflict are so no more."""
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


def _settle(vault: Vault, open_files: dict[str, Stages]) -> tuple[Target, Settled]:
    history = vault.history
    head = history.head().commit
    source, change = _find_source(vault, head)
    unmerged = tuple(
        Unmerged(history.prefix + path, stages.get("1"), stages.get("2"), stages.get("3"))
        for path, stages in open_files.items()
    )
    settled = settle_merge(vault, MergedTree("", unmerged), head, source, "ours", change)
    refuse_leaks(vault, head, head, settled.files)
    return source, settled


def _find_source(vault: Vault, head: str) -> tuple[Target, LastChange | None]:
    """Return the commit that has their side; where none has it, HEAD and the person."""
    refs = vault.history.refs
    operation = find_operation(vault.history.git_folder)
    if operation == "merge":
        return refs.resolve(read_id(vault, "MERGE_HEAD"))._replace(name=""), None
    if commit := read_id(vault, _REPLAYED.get(operation, "")):
        back = "^" if operation == "revert" else ""
        return refs.resolve(commit + back)._replace(name=""), None
    now, person = vault.local_time(), vault.history.person().identity.name
    change = LastChange(int(now.timestamp()), f"{now:%Y-%m-%d}", person)
    return refs.resolve(head)._replace(name="uncommitted"), change


def _write(vault: Vault, files: dict[str, File], index: Index) -> tuple[str, ...]:
    """Bring files and index to this; return the paths whose files changed."""
    moves, contents = plan_files(files, partial(read_entry, vault))

    def work(operation: Operation) -> None:
        move_tree(operation, vault, moves, contents)
        stage_files(vault, files, index)

    operate(vault, "nothing was decided", work)
    return tuple(sorted(moves))


def _decide(vault: Vault, path: str, stages: Stages, choice: Choice) -> dict[str, File]:
    """Return what becomes of a file: one side's version, or what both sides' notes merge to."""
    ours, theirs = stages.get("2"), stages.get("3")
    if ours and theirs and (is_note_name(path) or choice is Choice.BOTH):
        files = _settle(vault, {path: stages})[1].files
        if (file := files[path]) and is_note_name(path):
            known = {each for entry in (ours, theirs) for each in _find_callouts(vault, entry)}
            files[path] = file[0], _settle_new(file[1].decode(), choice, known).encode()
        return files
    kept = {Choice.OURS: ours, Choice.THEIRS: theirs, Choice.BOTH: ours or theirs}[choice]
    head = vault.history.head().commit
    files = {path: _read_file(vault, kept) if kept else None}
    refuse_leaks(vault, head, head, files)
    return files


def _settle_new(text: str, choice: Choice, known: set[Callout]) -> str:
    """Decide the conflicts of a note but for those that one side had before."""
    start = read_frontmatter(text).body
    placed = take_out_callouts(text[start:])[1]
    new = [number for number, each in enumerate(placed, 1) if each.callout not in known]
    return text[:start] + settle_callouts(text[start:], choice, new) if new else text


def _find_callouts(vault: Vault, entry: TreeEntry) -> set[Callout]:
    text = _read_file(vault, entry)[1].decode("utf-8", "replace")
    return {each.callout for each in find_callouts(text, read_frontmatter(text).body)}


def _read_file(vault: Vault, entry: TreeEntry) -> tuple[str, bytes]:
    return entry.mode, vault.history.objects.read(entry.blob)[1]


def _refuse_hidden(vault: Vault, path: str, entry: TreeEntry) -> None:
    if is_note_name(path):
        try:
            refuse_hidden(vault, parse_note(PurePosixPath(path), _read_file(vault, entry)[1]))
        except UnreadableNoteError:
            vault.require_person(f"{path}: not a text")


def _list_names(path: str) -> set[str]:
    """Return by which addresses a file in conflict can be named."""
    place = PurePosixPath(path)
    return {path, place.name, place.stem, str(place.with_suffix(""))}
