"""List and resolve conflicts that a merge left in notes, one commit for each note."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files
from vaultmem.core.merging.text import ConflictChoice, resolve_callouts
from vaultmem.core.notes.conflict import (
    REMOVED_NOTE,
    Callout,
    PlacedCallout,
    Speaker,
    extract_callouts,
    find_callouts,
    find_conflict,
)
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.line_diff import split_lines
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.changes.change import Change, check_encoding
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.edit_notes import check_text, reject_hidden
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import AuthorScope
from vaultmem.services.changes.write import write
from vaultmem.services.merging.branches import move_tree, plan_files, read_entry
from vaultmem.services.merging.file_conflicts import BranchMerge, MergeReport
from vaultmem.services.merging.merge import draft_merge, reject_secrets
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.read_notes import find_note, read_bytes, resolve_address
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.checkout import list_staged
from vaultmem.storage.git.commit_draft import CommitDraft, File, TreeEntry
from vaultmem.storage.git.head import find_operation
from vaultmem.storage.git.merge_tree import UnmergedPath
from vaultmem.storage.git.refs import RefTarget
from vaultmem.vault import Vault

_BEGINNING = b"> [!conflict"

#: Returns an edited note text.
Rewrite = Callable[[str], str]


class NoteConflict(NamedTuple):
    """A conflict in a note: its number there, its line, our text above it, and theirs.

    `verb` is what the others did: `Also said`, `Left out` or `Removed` (the note).
    """

    path: str
    number: int
    line: int
    verb: str
    author: str
    since: str
    where: str
    ours: str
    theirs: str
    state: str


class ResolveResult(NamedTuple):
    """A note with resolved conflicts: their number, and the commit; `is_gone` if removed.

    Without a commit, `next_step` is the command that commits it.
    """

    path: str
    decided: int
    is_gone: bool
    report: CommitReport
    next_step: str = ""


def list_conflicts(vault: Vault) -> list[NoteConflict]:
    """Return the conflicts in notes, by path and line; the vault must be in sync."""
    conflicts: list[NoteConflict] = []
    for path in sorted(vault.view.paths("d.warnings <> '[]' OR v.problem <> ''").values()):
        place = PurePosixPath(path)
        try:
            data = read_bytes(vault, place)
        except (NoteNotFoundError, VaultError):
            continue
        if _BEGINNING in data and (note := find_note(vault, place)) is not None:
            conflicts += describe_conflicts_in(note)
    return conflicts


def describe_conflicts_in(note: Note) -> list[NoteConflict]:
    """Return the conflicts in a note, numbered from 1."""
    text, conflicts = extract_callouts(note.body)
    lines, first = split_lines(text), note.text.count("\n", 0, note.frontmatter.body) + 1
    return [_describe(note, number, each, lines, first) for number, each in enumerate(conflicts, 1)]


def _describe(
    note: Note, number: int, placed: PlacedCallout, lines: list[str], first: int
) -> NoteConflict:
    callout = placed.callout
    our_lines = lines[max(placed.place - callout.our_line_count, 0) : placed.place]
    our_text = "" if callout.verb == REMOVED_NOTE else "".join(our_lines)
    return NoteConflict(
        *(str(note.path), number, first + placed.line, callout.verb, *callout.speaker),
        *(our_text, "".join(f"{line}\n" for line in callout.lines), note.state.value),
    )


def resolve_conflicts(
    vault: Vault, address: str, choice: ConflictChoice, number: int = 0
) -> ResolveResult:
    """Keep our text, replace it by theirs, or keep both; for one conflict, or for all.

    If they removed the note, choosing theirs removes it.

    Raises:
        NoteNotFoundError: there is no such note, or no such conflict in it.
        RefusedError: an agent cannot change the note.
        ConflictError: another process kept saving it; it stays.
    """

    def settle(note: Note) -> str | None:
        conflicts = _choose(note, number)
        verbs = {each.verb for each in conflicts}
        if choice is ConflictChoice.THEIRS and REMOVED_NOTE in verbs:
            return None
        body = resolve_callouts(note.body, choice, [each.number for each in conflicts])
        return note.text[: note.frontmatter.body] + body

    return _resolve(vault, address, choice.value, number, settle)


def resolve_by_hand(vault: Vault, address: str, rewrite: Rewrite) -> ResolveResult:
    """Let a person rewrite the note; conflicts left in its text stay.

    Raises:
        NoteNotFoundError, RefusedError, ConflictError: as for `resolve_conflicts`.
    """
    path = resolve_address(vault, address)[0]
    note = find_note(vault, path)
    if note is None:
        raise NoteNotFoundError(f"{path}: there is no such note")
    _choose(note, 0)
    text = rewrite(note.text)
    check_text(path, text)
    if text == note.text:
        raise RefusedError(f"{path}: nothing was changed, so the conflict remains")

    def settle(current_note: Note) -> str:
        if current_note.blob != note.blob:
            raise ConflictError(f"{path}: another process changed it; look at it again")
        return text

    return _resolve(vault, str(path), "edited", 0, settle)


def _choose(note: Note, number: int) -> list[NoteConflict]:
    conflicts = describe_conflicts_in(note)
    selection = [each for each in conflicts if number in (0, each.number)]
    if not selection:
        reason = f"no conflict {number}" if conflicts else "no conflict"
        raise NoteNotFoundError(f"{note.path}: {reason} is in it; see `vaultmem resolve`")
    return selection


def _resolve(
    vault: Vault, address: str, decision: str, number: int, settle: Callable[[Note], str | None]
) -> ResolveResult:
    def plan(change: Change) -> tuple[str, int, bool]:
        path = resolve_address(change.seen, address)[0]
        note = change.read(path)
        check_encoding(note)
        reject_hidden(vault, note)
        conflicts = _choose(note, number)
        text = settle(note)
        if text is None:
            change.remove(path, note.blob)
        else:
            change.replace(path, text.encode("utf-8"), note.blob)
        body = tuple(f"{decision}: {each.verb} by {each.author}" for each in conflicts)
        event = Event("resolve", format_files("resolve", [str(path)]), vault.author, body)
        change.commit(event, AuthorScope.ANYBODY)
        return str(path), len(conflicts), text is None

    result = write(vault, plan)
    return ResolveResult(*result.value, result.report)


# Resolve the conflicts in git's index, whatever caused them.
#
# A stopped merge still needs its commit. A rebase, a cherry-pick or a revert is continued by git.
# After `git stash pop`, `git checkout -m` or `git apply -3` no operation is in progress: the
# resolved files are uncommitted changes.

_NULL_ID = "0" * 40

#: The commit that git replays, by command; it has their side.
_REPLAY_HEADS = {
    "rebase": "REBASE_HEAD",
    "cherry-pick": "CHERRY_PICK_HEAD",
    "revert": "REVERT_HEAD",
}

_QUOTED_BRANCH = re.compile(r"branch '([^'\n]+)'")
#: The suffix git adds to a file that it moved out of another folder's way.
_MOVED_FILE_SUFFIX = re.compile(r"~[^/~]+$")

#: Files in conflict by their path in the vault.
_Open = dict[str, UnmergedPath]


def is_stopped(vault: Vault) -> bool:
    """Return whether a merge with conflicts is in progress."""
    return (vault.history.git_folder / "MERGE_HEAD").is_file() and bool(vault.history.unmerged())


def finish_merge(vault: Vault) -> MergeReport:
    """Resolve and commit a stopped `git merge` or `git pull`, as `merge` does.

    Files that a person resolved and staged stay, and so does a note from which they removed the
    markers. Without a merge in progress, git's conflicts are resolved and staged, not committed.

    Raises:
        NoteNotFoundError: nothing is in progress, and no note is in conflict.
        RefusedError: some text looks like a credential, or the vault's ref is another branch.
        MergeConflictError: a conflict is not in a file of the vault.
        ConflictError: a file was saved meanwhile; the merge is unchanged.
    """

    def work(operation: Transaction) -> MergeReport:
        if find_branch(vault):
            raise RefusedError("a merge is finished where it was begun; drop --ref")
        if (vault.history.git_folder / "MERGE_HEAD").is_file():
            return _finish(operation, vault)
        return _resolve_all(operation, vault)

    report = operate(vault, "the merge is as it was", work)
    return report if report.commit else report._replace(next_step=describe_next_step(vault))


def decide_unmerged(vault: Vault, address: str, choice: ConflictChoice) -> ResolveResult | None:
    """Resolve and stage one file in conflict; return None if there is none of that name.

    For a note on both sides, `choice` decides changes by both; the rest is merged.

    Raises:
        RefusedError: a person has edited it, an agent cannot change it, or it looks like a
            credential.
    """
    if find_branch(vault) or not vault.history.unmerged():
        return None

    def work(operation: Transaction) -> ResolveResult | None:
        _, unmerged_files = _read_index(vault)
        paths = [path for path in unmerged_files if address in _list_names(path)]
        if len(paths) != 1:
            return None
        path, unmerged = paths[0], unmerged_files[paths[0]]
        for entry in unmerged.versions:
            _reject_hidden(vault, path, entry)
        if _find_edited(vault, path, unmerged):
            add = f"git add {shlex.quote(path)}"
            raise RefusedError(f"{path}: edited since git left it; `{add}` keeps that")
        files = _decide(vault, path, unmerged, choice)
        _write(operation, vault, files, unmerged_files)
        return ResolveResult(path, 1, files[path] is None, CommitReport())

    result = operate(vault, "nothing was decided", work)
    return result and result._replace(next_step=describe_next_step(vault))


def describe_next_step(vault: Vault) -> str:
    """Return the command to continue after files were resolved, and its effect."""
    operation = find_operation(vault.history.git_folder)
    if vault.history.unmerged():
        return "`vaultmem resolve` shows what else is in conflict."
    if operation == "merge":
        return "`vaultmem resolve --all` commits the merge."
    if operation in {*_REPLAY_HEADS, "am"}:
        option = "continue" if list_staged(vault.history) else "skip"
        return f"`git {operation} --{option}` goes on."
    return "`vaultmem checkpoint NOTE` commits it."


def _finish(operation: Transaction, vault: Vault) -> MergeReport:
    source = _find_source(vault)
    head = vault.history.head()
    draft, merge = draft_merge(vault, head.commit, source, head.branch or "HEAD")
    merged, unmerged_files = _read_index(vault)
    files = _choose_files(vault, draft, merge, merged, unmerged_files)
    paths = _write(operation, vault, files, unmerged_files)
    return merge.report(_commit(vault, draft), paths)._replace(target_branch=head.branch)


def _find_source(vault: Vault) -> RefTarget:
    folder = vault.history.git_folder
    source = vault.history.refs.resolve(_read_id(vault, "MERGE_HEAD"))
    try:
        message = (folder / "MERGE_MSG").read_text(encoding="utf-8", errors="replace")
    except OSError:
        message = ""
    match = _QUOTED_BRANCH.search(message.partition("\n")[0])
    return source._replace(name=match[1]) if match else source


def _choose_files(
    vault: Vault,
    draft: CommitDraft,
    merge: BranchMerge,
    merged: Mapping[str, TreeEntry],
    unmerged_files: _Open,
) -> dict[str, File]:
    """Return the new versions of open files, and of others that only git changed.

    Names of a version that the merge keeps under another name are removed. A file that one side
    removed and that is no longer open was resolved by a person.
    """
    automatic = vault.history.tree(draft.base)
    files: dict[str, File] = {}
    for path, file in draft.files.items():
        if path in unmerged_files:
            files[path] = _find_edited(vault, path, unmerged_files[path]) or file
        elif path in merge.removed:
            continue
        elif merged.get(path) == automatic.get(path):
            files[path] = file
    for path, unmerged in unmerged_files.items():
        is_left = bool(unmerged.ours or unmerged.theirs) and not _MOVED_FILE_SUFFIX.search(path)
        if path not in draft.files and not is_left:
            files[path] = None
    return files


def _commit(vault: Vault, draft: CommitDraft) -> str:
    """Let git commit all that is staged."""
    name, email = draft.author
    env = vault.history.settings().without_filters()
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": email}
    command = ("commit", "-q", "--no-verify", "--allow-empty", "--cleanup=verbatim", "-F", "-")
    vault.history.git.run(*command, stdin=draft.message.encode("utf-8"), env=env)
    return vault.history.head().commit


def _resolve_all(operation: Transaction, vault: Vault) -> MergeReport:
    """Resolve and stage all files in conflict with both versions, without a commit."""
    _, unmerged_files = _read_index(vault)
    if not unmerged_files:
        raise NoteNotFoundError("no merge is under way, and git has no note in conflict")
    merge = _settle(vault, unmerged_files)
    files = dict(merge.files)
    for path, unmerged in unmerged_files.items():
        file = merge.files.get(path)
        files[path] = file and (_find_edited(vault, path, unmerged) or file)
    report = merge.report("", _write(operation, vault, files, unmerged_files))
    return report._replace(target_branch=vault.history.head().branch)


def _settle(vault: Vault, unmerged_files: _Open) -> BranchMerge:
    head = vault.history.head().commit
    source, change = _find_theirs(vault, head)
    merge = BranchMerge(vault, head, source, "ours", change)
    merge.settle(list(unmerged_files.values()))
    reject_secrets(vault, head, head, merge.files)
    return merge


def _find_theirs(vault: Vault, head: str) -> tuple[RefTarget, tuple[int, Speaker] | None]:
    """Return the commit of their side; if there is none, HEAD and the person's change."""
    refs = vault.history.refs
    operation = find_operation(vault.history.git_folder)
    if operation == "merge":
        return refs.resolve(_read_id(vault, "MERGE_HEAD"))._replace(name=""), None
    if commit := _read_id(vault, _REPLAY_HEADS.get(operation, "")):
        back = "^" if operation == "revert" else ""
        return refs.resolve(commit + back)._replace(name=""), None
    now, person = vault.local_time(), vault.history.person().identity.name
    change = int(now.timestamp()), Speaker(person, f"{now:%Y-%m-%d}")
    return refs.resolve(head)._replace(name="uncommitted"), change


def _write(
    operation: Transaction, vault: Vault, files: Mapping[str, File], unmerged_files: _Open
) -> list[str]:
    """Write files and index; return the paths of changed files."""
    moves, contents = plan_files(files, partial(read_entry, vault))
    move_tree(operation, vault, moves, contents)
    _stage_files(vault, files, unmerged_files)
    return list(moves)


def _decide(
    vault: Vault, path: str, unmerged: UnmergedPath, choice: ConflictChoice
) -> dict[str, File]:
    """Return a file's new version: one side's, or the merge of both sides' notes."""
    ours, theirs = unmerged.ours, unmerged.theirs
    if ours and theirs and (is_note_name(path) or choice is ConflictChoice.BOTH):
        files = _settle(vault, {path: unmerged}).files
        if (file := files[path]) and is_note_name(path):
            callouts = {each for entry in (ours, theirs) for each in _find_callouts(vault, entry)}
            files[path] = file[0], _resolve_new(file[1].decode(), choice, callouts).encode()
        return files
    version = {
        ConflictChoice.OURS: ours,
        ConflictChoice.THEIRS: theirs,
        ConflictChoice.BOTH: ours or theirs,
    }[choice]
    head = vault.history.head().commit
    files = {path: _read_file(vault, version) if version else None}
    reject_secrets(vault, head, head, files)
    return files


def _resolve_new(text: str, choice: ConflictChoice, old_callouts: set[Callout]) -> str:
    """Resolve the conflicts of a note, except those that one side had before."""
    start = read_frontmatter(text).body
    callouts = extract_callouts(text[start:])[1]
    new_numbers = [
        number for number, each in enumerate(callouts, 1) if each.callout not in old_callouts
    ]
    return (
        text[:start] + resolve_callouts(text[start:], choice, new_numbers) if new_numbers else text
    )


def _find_callouts(vault: Vault, entry: TreeEntry) -> set[Callout]:
    text = _read_file(vault, entry)[1].decode("utf-8", "replace")
    return {each.callout for each in find_callouts(text, read_frontmatter(text).body)}


def _read_file(vault: Vault, entry: TreeEntry) -> tuple[str, bytes]:
    return entry.mode, vault.history.objects.read(entry.blob)[1]


def _reject_hidden(vault: Vault, path: str, entry: TreeEntry) -> None:
    if is_note_name(path):
        try:
            reject_hidden(vault, parse_note(PurePosixPath(path), _read_file(vault, entry)[1]))
        except UnreadableNoteError:
            vault.require_person(f"{path}: not a text")


def _list_names(path: str) -> set[str]:
    """Return the addresses that name a file in conflict."""
    place = PurePosixPath(path)
    return {path, place.name, place.stem, str(place.with_suffix(""))}


# ---- git's index


def _read_id(vault: Vault, name: str) -> str:
    """Return the first commit in a git file, "" if there is none."""
    try:
        text = (vault.history.git_folder / name).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
    return next(iter(text.split()), "")


def _read_index(vault: Vault) -> tuple[dict[str, TreeEntry], _Open]:
    """Return the vault's merged files in git's index, and the unmerged ones."""
    prefix = vault.history.prefix
    merged: dict[str, TreeEntry] = {}
    stages: dict[str, dict[str, TreeEntry]] = {}
    for line in filter(None, vault.history.git.run("ls-files", "-s", "-z").split("\0")):
        meta, _, path = line.partition("\t")
        mode, blob, stage = meta.split()
        inside = path.removeprefix(prefix)
        if not path.startswith(prefix):
            continue
        if stage == "0":
            merged[inside] = TreeEntry(mode, blob)
        else:
            stages.setdefault(inside, {})[stage] = TreeEntry(mode, blob)
    unmerged_files = {
        path: UnmergedPath(prefix + path, versions.get("1"), versions.get("2"), versions.get("3"))
        for path, versions in stages.items()
    }
    return merged, unmerged_files


def _find_edited(vault: Vault, path: str, unmerged: UnmergedPath) -> File:
    """Return a person's version of a file in conflict, None if it is unedited."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except (NoteNotFoundError, UnsafeFileError):
        return None
    text = data.decode("utf-8", "replace")
    if blob_id(data) in {entry.blob for entry in unmerged.versions} or find_conflict(text):
        return None
    return unmerged.versions[0].mode, data


def _stage_files(vault: Vault, files: Mapping[str, File], unmerged_files: _Open) -> None:
    """Stage files (None removes one) and clear their conflicts."""
    git, prefix = vault.history.git, vault.history.prefix
    lines: list[str] = []
    for path, file in files.items():
        if path in unmerged_files or file is None:
            lines.append(f"0 {_NULL_ID}\t{prefix}{path}\0")
        if file is not None:
            blob = git.run("hash-object", "-w", "--stdin", stdin=file[1])
            lines.append(f"{file[0]} {blob}\t{prefix}{path}\0")
    index_info = "".join(lines).encode("utf-8", "surrogateescape")
    quiet = vault.history.settings().without_filters()
    git.run("update-index", "-z", "--index-info", stdin=index_info, env=quiet)
