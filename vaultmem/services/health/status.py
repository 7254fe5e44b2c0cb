"""Tell how a vault is: what it holds, what is not committed and by whom, what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from vaultmem.core.paths import is_note_name
from vaultmem.errors import VaultError
from vaultmem.services.committing.pending import find_pending
from vaultmem.services.history.log import CommitFilter, list_commits
from vaultmem.services.indexing import Progress, is_index_behind
from vaultmem.services.sync import SyncReport, sync_vault
from vaultmem.services.watching.watching import Watching, find_watcher
from vaultmem.storage.git.head import Head
from vaultmem.storage.git.log import Commit
from vaultmem.storage.journal import Author
from vaultmem.storage.passed_over import find_passed_over
from vaultmem.vault import Vault

_EVENTS = 5


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """What one author wrote and no commit has; `agent` is empty for a person."""

    agent: str
    session: str
    notes: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GitStatus:
    """Where the vault is in git's history.

    `problem` says why git cannot be used at all, `obstacle` why it takes no commit just now.
    """

    head: Head
    obstacle: str
    uncommitted: tuple[Uncommitted, ...]
    left_out: dict[str, str]
    events: tuple[Commit, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VaultStatus:
    """How a vault is; `git` is None where there is none.

    `sync` is what had changed since the last look, `passed_over` counts files by the reason why
    they are no notes.
    """

    author: Author
    ref: str
    watcher: Watching | None
    notes: int
    tokens: int
    kinds: dict[str, int]
    states: dict[str, int]
    sync: SyncReport
    is_in_sync: bool
    git: GitStatus | None
    waiting: tuple[str, ...]
    problems: tuple[tuple[str, str], ...]
    passed_over: dict[str, int]


def read_status(vault: Vault, progress: Progress | None = None) -> VaultStatus:
    """Bring the index up to date, and tell how the vault is."""
    report = sync_vault(vault, progress)
    kinds, states = _count_notes(vault)
    notes, tokens = vault.view.totals()
    problems = vault.manifest.problems()
    return VaultStatus(
        author=vault.author,
        ref=vault.ref,
        watcher=find_watcher(vault),
        notes=notes,
        tokens=tokens,
        kinds=kinds,
        states=states,
        sync=report,
        is_in_sync=not is_index_behind(vault),
        git=_read_git(vault),
        waiting=tuple(str(event.get("subject", "")) for _, event in vault.journal.pending()),
        problems=tuple(problems),
        passed_over=_count_passed_over(vault),
    )


def _count_notes(vault: Vault) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many notes there are of each kind, and in each state; the most first."""
    records = vault.view.records()
    kinds = Counter(str(record.kind) for record in records)
    states = Counter(str(record.state) for record in records)
    return dict(kinds.most_common()), dict(states.most_common())


def _read_git(vault: Vault) -> GitStatus | None:
    try:
        head = vault.head()
        if head is None:
            return None
        pending = find_pending(vault)
        return GitStatus(
            head=head,
            obstacle=vault.history.obstacle(),
            uncommitted=_group(pending.authors.items()),
            left_out=pending.skipped,
            events=list_commits(vault, CommitFilter(), _EVENTS).commits if head.commit else (),
        )
    except VaultError as error:
        return GitStatus(Head("", ""), "", (), {}, (), str(error))


def _group(authors: Iterable[tuple[str, Author | None]]) -> tuple[Uncommitted, ...]:
    """Return what each author wrote: the person first, then agents by name."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, author in authors:
        key = (author.agent, author.session if author.agent else "") if author else ("", "")
        found.setdefault(key, []).append(path)
    return tuple(
        Uncommitted(
            *key,
            notes=tuple(sorted(path for path in paths if is_note_name(path))),
            files=tuple(sorted(path for path in paths if not is_note_name(path))),
        )
        for key, paths in sorted(found.items())
    )


def _count_passed_over(vault: Vault) -> dict[str, int]:
    """Count by reason what is in the folder and no note that can be found."""
    config = vault.config
    walked = find_passed_over(vault.root, config.ignores if config.ignore else None)
    files = vault.manifest.files().values()
    counts = Counter(file.problem.partition(" (")[0] for file in files if file.problem)
    counts["hidden by name"] = len(walked.hidden)
    counts["ignored by vaultmem.yaml"] = len(walked.ignored)
    counts["a folder of templates, transcripts or media"] = len(walked.set_aside)
    return {reason: count for reason, count in counts.most_common() if count}
