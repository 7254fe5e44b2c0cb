"""Keep who wrote what plain git committed: a backup plugin, `git commit -am`.

The journal knows which bytes an agent wrote. A commit of somebody else that has them, or has them
with a person's edit, gets a note of git's that says so.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence

from vaultmem.core.delta.lines import match_lines, split_bytes
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.git.attribution import (
    NOTES_REF,
    Wrote,
    format_attribution,
    parse_attribution,
    read_attribution,
    read_first_commit,
    replace_attribution,
    write_attribution,
)
from vaultmem.storage.git.brought import Brought, find_brought
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.log import read_commits
from vaultmem.storage.journal import REMOVED, choose_draft, choose_lost
from vaultmem.vault import Vault

#: In the state database: the commit from which on it could not be noted yet.
_BEHIND = "unattributed"

#: In the state database: which map of old and new commits was gone by last.
_MAP = "commit_map"

_RENAMED = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40})")


def attribute_commits(vault: Vault, commit: str, since: str) -> None:
    """Note what the commits of `commit` that are not in `since` have of agents' words.

    It keeps nobody from reading: what cannot be noted now is when HEAD moves the next time.
    """
    since = vault.state.get(_BEHIND) or since
    try:
        _keep_attribution(vault, find_brought(vault.history, commit, since))
        vault.state.put(_BEHIND, "")
    except VaultError:
        vault.state.put(_BEHIND, since)


def _keep_attribution(vault: Vault, brought: Sequence[Brought]) -> None:
    """Note which of these files (newest first) that commits brought have an agent's words."""
    found: dict[str, list[Wrote]] = {}
    last: dict[str, str] = {}
    for each in reversed(brought):
        wrote, before = _find_wrote(vault, each)
        if wrote:
            found.setdefault(each.commit, []).append(wrote)
            last |= {before: REMOVED, each.path: each.blob}
    if not found:
        return
    commits = read_commits(vault.history, found)
    for commit, wrotes in found.items():
        if not commits[commit].agent:  # Else it says by itself who wrote it.
            write_attribution(vault.history, commit, wrotes)
    _forget_settled(vault, last)


def _find_wrote(vault: Vault, each: Brought) -> tuple[Wrote | None, str]:
    """Return what an agent wrote of a file, and to which path: a person may have moved it first."""
    path = vault.history.prefix + each.path
    author = vault.journal.find_author(each.path, each.blob)
    for _, moved in vault.journal.find_moved(each.blob)[:1] if author is None else ():
        author = moved  # Somebody moved the file first.
    if author is not None:
        return Wrote(path, "", *author) if author.agent else None, each.path
    drafts, lost = vault.journal.find_drafts(each.path), vault.journal.find_lost()
    if not (drafts or lost) or not each.blob:
        return None, each.path
    try:
        data = vault.history.objects.read(each.blob)[1]
    except NoteNotFoundError:
        return None, each.path
    draft, before = choose_draft(drafts, data), each.path
    for found in choose_lost(lost, {each.path: data}).values() if draft is None else ():
        draft, before = found.draft, found.path
    if draft is None:
        return None, each.path
    matches = match_lines(split_bytes(draft.data), split_bytes(data))
    spans = ",".join(f"{start + 1}-{start + length}" for _, start, length in matches)
    return Wrote(path, spans, *draft.author) if spans else None, before


def _forget_settled(vault: Vault, blobs: Mapping[str, str]) -> None:
    """Clear the journal of what is committed as it is on disk."""
    known = vault.manifest.files(list(blobs))
    now = {path: known[path].blob if path in known else REMOVED for path in blobs}
    vault.journal.clear({path: blob for path, blob in blobs.items() if now[path] == blob})


def carry_attribution(vault: Vault) -> None:
    """Move notes on commits that `git filter-repo` has rewritten to the new commits, once.

    Files that the new commits do not change are left out. It keeps nobody from reading: what
    cannot be written now is when HEAD moves the next time.
    """
    file = common_folder(vault.history.git_folder) / "filter-repo" / "commit-map"
    with contextlib.suppress(OSError, VaultError):
        stamp = f"{file.stat().st_mtime_ns} {file.stat().st_size}"
        if vault.state.get(_MAP) != stamp:
            lines = file.read_text(encoding="ascii", errors="replace").splitlines()
            matches = filter(None, map(_RENAMED.fullmatch, lines))
            _carry(vault, {match[1]: match[2] for match in matches})
            vault.state.put(_MAP, stamp)


def _carry(vault: Vault, renamed: Mapping[str, str]) -> None:
    """Move notes from the old to the new commits; a note that a new one has already stays."""
    notes = read_attribution(vault.history)
    kept = {commit: text.encode("utf-8", "surrogateescape") for commit, text in notes.items()}
    moved: dict[str, tuple[str, str]] = {}
    for commit, text in notes.items():
        first = read_first_commit(text) or commit
        new = renamed.get(commit) or renamed.get(first, commit)
        if new != commit:
            del kept[commit]
            moved[new] = (first, text)
    brought = _list_changed(vault, moved)
    for commit, (first, text) in moved.items():
        wrote = [each for each in parse_attribution(text) if each.path in brought.get(commit, ())]
        if wrote:
            kept.setdefault(commit, format_attribution(wrote, first_commit=first))
    if moved:
        replace_attribution(vault.history, NOTES_REF, kept, int(vault.now()))


def _list_changed(vault: Vault, commits: Iterable[str]) -> dict[str, set[str]]:
    """Return the files (by path in the repository) that each commit that there is changes."""
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    if not asked:
        return {}
    out = vault.history.git.run(
        *("log", "--no-walk", "--ignore-missing", "--no-notes", "--no-show-signature", "-z"),
        *("--name-only", "--no-renames", "-m", "--root", "--no-ext-diff", "--no-textconv"),
        *("--format=%x01%H", "--stdin"),
        stdin=asked,
    )
    found: dict[str, set[str]] = {}
    for block in out.split("\x01"):
        commit, _, paths = block.replace("\n", "\0").partition("\0")
        found.setdefault(commit, set()).update(filter(None, paths.split("\0")))
    return found
