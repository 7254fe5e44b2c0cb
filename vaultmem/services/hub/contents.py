"""Check the contents of pushed files: sizes, credentials, and files that no clone should get."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.project import TABLE_NAME, parse_table
from vaultmem.core.secrets.rules import IGNORE_NAME, SETTINGS_NAME, SecretSettings, extend_rules
from vaultmem.core.secrets.scan import ALLOW_MARK, SecretFinding, find_secrets, mask_secrets
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.paths import (
    find_danger,
    find_hindrance,
    find_new_twins,
    is_note_name,
    is_owners,
)
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.hub.grants import GrantKind, GrantScope
from vaultmem.services.hub.hub_folder import RefUpdate, Refusal
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.storage.git.pushed import NewCommit, PushedChange

#: Characters that are searched at once.
_BATCH = 4_000_000

_CREDENTIAL_REMEDY = (
    "take it out of its commit (`git reset --soft`, and commit again), and renew it"
)
_ALLOW = "; if it is not one, put `gitleaks:allow` on its line"


class PushedText(NamedTuple):
    """The text of a changed file in a commit; `mark` on a line allows a credential."""

    commit: NewCommit
    change: PushedChange
    text: str
    mark: str


def check_sizes(
    visit: ReceivedPush, commits: Sequence[NewCommit], most: int = 0
) -> Iterator[Refusal]:
    """Yield the files that are too large, before any is read.

    `most` is the limit for all files, in bytes; by default, hub.yaml has limits for notes and
    files.
    """
    limits = visit.limits
    texts = visit.objects.find(commit.commit for commit in commits)
    for name, (_, size) in texts.items():
        if size > limits.note_bytes:
            reason = f"has {size:,} bytes by itself; a commit may have {limits.note_bytes:,} here"
            yield Refusal(f"commit {name[:9]}", reason, "commit it again")
    new_blobs = _list_brought(commits)
    sizes = {name: size for name, (_, size) in visit.objects.find(b for b, _ in new_blobs).items()}
    for (blob, path), (commit, _) in new_blobs.items():
        is_note = is_note_name(path)
        max_bytes = most or (limits.note_bytes if is_note else limits.file_bytes)
        if (size := sizes.get(blob, 0)) > max_bytes:
            subject = f"{show_path(path)} in {commit.commit[:9]}"
            reason = (
                f"has {size:,} bytes; a {'note' if is_note else 'file'} may have {max_bytes:,} here"
            )
            yield Refusal(subject, reason, "divide it, or keep it elsewhere and link to it")
    unpacked_bytes = visit.git.count_incoming()  # Commits and folders, too.
    if max(unpacked_bytes, sum(sizes.values())) > limits.total_bytes:
        reason = f"its files hold more than {limits.total_bytes:,} bytes together"
        yield Refusal("the push", reason, "push less at once, an earlier commit first")


def check_strays(visit: ReceivedPush, updates: Iterable[RefUpdate]) -> Iterator[Refusal]:
    """Yield a refusal if a push has objects that no ref reaches: they would not be checked."""
    incoming = visit.git.list_incoming()
    if not incoming:
        return
    new_tips = [each.new for each in updates if not each.is_removal]
    command = ("rev-list", "--objects", "--no-object-names", *new_tips, "--not", "--all")
    strays = incoming.difference(visit.git.run(*command).decode().split())
    if strays:
        reason = f"has {pluralize(len(strays), 'object')} that no ref reaches ({min(strays)[:9]})"
        yield Refusal("the push", reason, "push branches with `git push`")


def check_contents(visit: ReceivedPush, commits: Sequence[NewCommit]) -> Iterator[Refusal]:
    """Yield new text that looks like a credential."""
    for change in dict.fromkeys(c for commit in commits for c in commit.changes if c.is_new):
        if (masked_path := mask_secrets(change.path)) != change.path:
            yield Refusal(
                masked_path, "has a name that looks like a credential", _CREDENTIAL_REMEDY
            )
    with _lay_rules(visit, visit.rules) as folder:
        for batch in _read_texts(visit, commits):
            try:
                yield from _check_batch(visit, folder, batch)
            except RefusedError as error:
                yield Refusal("the push", "credentials could not be looked for", str(error))
                return


@contextlib.contextmanager
def _lay_rules(visit: ReceivedPush, commit: str) -> Iterator[Path | None]:
    """Yield a temporary folder with a vault's rules for credentials, None if it has none."""
    own = [f"{commit}:{name}" for name in (SETTINGS_NAME, IGNORE_NAME)] if commit else []
    files = dict(visit.objects.read(own))
    if not files:
        yield None
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, name.partition(":")[2]).write_bytes(data)
        yield Path(folder)


def _check_batch(
    visit: ReceivedPush, rules: Path | None, batch: Sequence[PushedText]
) -> Iterator[Refusal]:
    for mark in dict.fromkeys(piece.mark for piece in batch):
        pieces = [piece for piece in batch if piece.mark == mark]
        texts = [(piece.change.path, piece.text) for piece in pieces]
        for piece, findings in zip(pieces, _find_in_texts(rules, texts, mark), strict=True):
            if new_findings := _drop_known(visit, piece, findings):
                lines = ", ".join(f"line {each.line} ({each.rule})" for each in new_findings[:5])
                subject = f"{show_path(piece.change.path)} in {piece.commit.commit[:9]}"
                remedy = _CREDENTIAL_REMEDY + (_ALLOW if piece.mark else "")
                yield Refusal(subject, f"{lines} looks like a credential", remedy)


def _find_in_texts(
    rules: Path | None, texts: Sequence[tuple[str, str]], mark: str
) -> list[list[SecretFinding]]:
    if rules is None:
        own_rules = extend_rules(SecretSettings(), (), mark)
        return [find_secrets(text, path, own_rules) for path, text in texts]
    from vaultmem.storage.yaml_file import find_in_texts

    return find_in_texts(rules, texts, mark)


def _drop_known(
    visit: ReceivedPush, piece: PushedText, findings: list[SecretFinding]
) -> list[SecretFinding]:
    """Return findings that were not in the file before, nor in one that the commit removes."""
    if not findings:
        return []
    removed_changes = [change for change in piece.commit.changes if not change.blob]
    blobs = [blob for change in (piece.change, *removed_changes) for blob in change.old_blobs]
    sizes = visit.objects.find(blobs)
    small_blobs = [blob for blob in blobs if sizes.get(blob, ("", 0))[1] <= visit.limits.file_bytes]
    for _, data in visit.objects.read(small_blobs):
        old_text = decode_text(data).text
        findings = [each for each in findings if piece.text[each.start : each.end] not in old_text]
    return findings


def check_markers(visit: ReceivedPush, difference: Iterable[PushedChange]) -> Iterator[Refusal]:
    """Yield the notes that have git's conflict markers at the end of a push."""
    notes = {change.blob: change.path for change in difference if is_note_name(change.path)}
    for blob, data in visit.objects.read(filter(None, notes)):
        if b"<<<<<<<" not in data or b">>>>>>>" not in data:
            continue
        if reason := _find_markers(data):
            yield Refusal(show_path(notes[blob]), reason, "decide it, commit, and push again")


def _find_markers(data: bytes) -> str:
    from vaultmem.core.notes.conflict import find_conflict  # Most pushes need none of these.
    from vaultmem.core.notes.frontmatter import read_frontmatter
    from vaultmem.core.notes.sections import find_fences

    text = decode_text(data).text
    return find_conflict(text, find_fences(text, read_frontmatter(text).body))


def _list_brought(
    commits: Iterable[NewCommit],
) -> Mapping[tuple[str, str], tuple[NewCommit, PushedChange]]:
    """Return new blobs by blob and path, with the oldest commit that has each."""
    new_blobs: dict[tuple[str, str], tuple[NewCommit, PushedChange]] = {}
    for commit in reversed(list(commits)):
        for change in commit.changes:
            if change.blob and change.blob not in change.old_blobs and change.mode != "160000":
                new_blobs.setdefault((change.blob, change.path), (commit, change))
    return new_blobs


def _read_texts(visit: ReceivedPush, commits: Iterable[NewCommit]) -> Iterator[list[PushedText]]:
    """Yield new texts of files that are checked for credentials, in batches."""
    changes_by_blob: dict[str, list[tuple[NewCommit, PushedChange]]] = {}
    for (blob, path), commit_change in _list_brought(commits).items():
        if not visit.allows_secrets(path):
            changes_by_blob.setdefault(blob, []).append(commit_change)
    batch: list[PushedText] = []
    length = 0
    for blob, data in visit.objects.read(changes_by_blob):
        text = decode_text(data).text
        for commit, change in changes_by_blob[blob]:
            mark = ALLOW_MARK if visit.grant.kind is GrantKind.PERSON and not commit.agents else ""
            batch.append(PushedText(commit, change, text, mark))
            length += len(data)
        if length > _BATCH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


_FORBIDDEN_FILE_REMEDY = (
    "take it out of its commit (`git rebase -i`, or `git reset --soft` and commit again)"
)
_KINDS = {"120000": "a symbolic link", "160000": "a repository inside the vault"}


def check_each(commits: Iterable[NewCommit]) -> Iterator[Refusal]:
    """Yield files that no commit may have, even if a later commit removes them."""
    for commit in commits:
        for change in commit.changes:
            if change.mode and (reason := find_danger(change.path) or _find_kind(change)):
                yield Refusal(
                    f"{show_path(change.path)} in {commit.commit[:9]}",
                    reason,
                    _FORBIDDEN_FILE_REMEDY,
                )


def check_form(commits: Iterable[NewCommit]) -> Iterator[Refusal]:
    """Yield files in a machine's commits that must not be shared."""
    from vaultmem.storage.git.machine_refs import is_shared  # Most pushes do not need it.

    for commit in commits:
        for change in commit.changes:
            if change.mode and not is_shared(change.path):
                reason = "is nothing that machines share at a hub: words of questions, perhaps"
                subject = f"{show_path(change.path)} in {commit.commit[:9]}"
                yield Refusal(subject, reason, "update vaultmem, and run `vaultmem sync`")


def _find_kind(change: PushedChange) -> str:
    if change.mode in _KINDS:
        return f"is {_KINDS[change.mode]}"
    if change.mode == "100755" and "100755" not in change.old_modes:
        return "can be executed (`git update-index --chmod=-x` takes that away)"
    if change.mode not in {"100644", "100755"}:
        return "is not a file"
    return ""


def check_names(
    visit: ReceivedPush, new: str, difference: Sequence[PushedChange]
) -> Iterator[Refusal]:
    """Yield new files at the end of a push whose names are invalid on some systems."""
    added_paths = [change.path for change in difference if change.mode and change.is_new]
    valid_paths = []
    for path in added_paths:
        if reason := find_hindrance(path):
            yield Refusal(show_path(path), reason, "give it another name with `vaultmem mv`")
        else:
            valid_paths.append(path)
    if valid_paths:
        folders = {
            folder
            for path in valid_paths
            for folder in accumulate(path.split("/")[:-1], "{}/{}".format)
        }
        existing_paths = visit.objects.list_folders(new, ["", *sorted(folders)])
        for path, twin in find_new_twins(valid_paths, existing_paths):
            reason = f"some disks have one file for it and {show_path(twin)}"
            yield Refusal(show_path(path), reason, "give it another name with `vaultmem mv`")


def check_scope(
    visit: ReceivedPush, scope: GrantScope, changes: Iterable[PushedChange]
) -> Iterator[Refusal]:
    """Yield the files that the pusher may not change; anyone may add projects to the table."""
    for path in dict.fromkeys(c.path for c in changes if not _only_adds_projects(visit, c)):
        if is_owners(path) and not visit.may(GrantScope.OWN, path):
            reason = "is changed by the vault's owners alone"
            yield Refusal(show_path(path), reason, "leave it as it is, and ask one of them")
        elif not visit.may(scope, path):
            verb = "write" if scope is GrantScope.WRITE else "propose"
            folders = ", ".join(_list_folders(visit, scope)) or "nothing"
            remedy = f"you may {verb} {folders}"
            if scope is GrantScope.WRITE and visit.may(GrantScope.PROPOSE, path):
                remedy = f"{remedy}; propose it: refs/heads/proposals/{visit.grant.name}/TOPIC"
            yield Refusal(show_path(path), f"is not yours to {verb}", remedy)


def _only_adds_projects(visit: ReceivedPush, change: PushedChange) -> bool:
    """Return whether a change keeps all projects of the table, and only adds others."""
    if change.path != TABLE_NAME or change.mode != "100644":
        return False
    contents = dict(visit.objects.read([change.blob, *change.old_blobs]))
    try:
        tables = {name: parse_table(data.decode("utf-8")) for name, data in contents.items()}
        new_projects = set(tables[change.blob].projects)
        return all(new_projects.issuperset(tables[blob].projects) for blob in change.old_blobs)
    except (KeyError, UnicodeDecodeError, VaultError):
        return False


def _list_folders(visit: ReceivedPush, scope: GrantScope) -> list[str]:
    order = tuple(GrantScope)
    patterns = (
        each
        for wider_scope in order[order.index(scope) :]
        for each in visit.grant.scopes.get(wider_scope, ())
    )
    return list(dict.fromkeys(patterns))


def show_path(path: str) -> str:
    """Return a path as one line, truncated, with credentials masked."""
    return one_line(mask_secrets(path))[:120]
