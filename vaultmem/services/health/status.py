"""Describe a vault: its contents, uncommitted changes by author, and open decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from vaultmem.core.curation.proposal import format_action
from vaultmem.core.lifecycle import CONFLICTED
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.changes.commit_parts import format_secrets
from vaultmem.services.changes.ownership import PendingFiles, read_pending
from vaultmem.services.curation.incoming_notes import check_edits
from vaultmem.services.curation.review import count_waiting
from vaultmem.services.history.commits import CommitFilter, list_commits
from vaultmem.services.memory.rename import plan_repair
from vaultmem.services.merging.branches import list_proposed
from vaultmem.services.search.trusted import describe_trust_elsewhere
from vaultmem.services.syncing.sync_place import SyncState, read_sync_state
from vaultmem.services.views.read_index import Progress, is_index_stale
from vaultmem.services.views.update_index import (
    IndexReport,
    find_skipped_files,
    update_index_nonblocking,
)
from vaultmem.services.watching.lease import WatcherInfo, find_watcher
from vaultmem.storage.git.head import GitHead
from vaultmem.storage.git.log import Commit
from vaultmem.storage.git.maintenance import is_git_installed
from vaultmem.storage.git.setup import read_kept_out
from vaultmem.storage.journal import Author, Owner
from vaultmem.storage.scan_files import LINK, OWN_REPOSITORY
from vaultmem.storage.views import PROPOSED, UNMERGED, View
from vaultmem.vault import Vault

_EVENTS = 5

#: Seconds to check edits for text that tries to instruct an agent.
_CHECK_SECONDS = 1.0


class Uncommitted(NamedTuple):
    """One author's uncommitted files; `agent` is empty for a person."""

    agent: str
    session: str
    notes: tuple[str, ...]
    files: tuple[str, ...]


class GitStatus(NamedTuple):
    """The vault's place in git's history.

    `problem` is why git cannot be used at all, `obstacle` why it cannot commit now. `person` is the
    author of a person's commits; if git knows none, `person_problem` names the fallback.
    `credentials` are places (path:line: rule) that block commits, `kept_out` the files that `init`
    kept out of git for such a place. `sync` is the last sync with a remote, if any. `proposals`
    counts proposed branches, and `moved_links` broken links to moved files.
    """

    head: GitHead
    obstacle: str
    uncommitted: tuple[Uncommitted, ...]
    skipped: dict[str, str]
    events: tuple[Commit, ...]
    problem: str = ""
    person_problem: str = ""
    person: str = ""
    credentials: tuple[str, ...] = ()
    sync: SyncState | None = None
    proposals: int = 0
    kept_out: tuple[str, ...] = ()
    moved_links: int = 0


class VaultStatus(NamedTuple):
    """The status of a vault; without git, `git` has no value (None).

    Each of `invalid_notes` has its reason. `sync` counts changes since the last index run.
    `proposed` counts preferences that wait for the owner, `to_decide` the decisions in `review` by
    kind. `skipped_files` counts what is skipped on purpose, by reason. `settings_problem` is why
    vaultmem.yaml cannot be read, `sync_problem` why the index could not be updated, `trust_problem`
    where else the repository is trusted.
    """

    folder: str
    settings_problem: str
    sync_problem: str
    author: Author
    ref: str
    watcher: WatcherInfo | None
    notes: int
    tokens: int
    kinds: dict[str, int]
    states: dict[str, int]
    proposed: int
    to_decide: dict[str, int]
    sync: IndexReport
    is_in_sync: bool
    git: GitStatus | None
    waiting: tuple[str, ...]
    invalid_notes: tuple[tuple[str, str], ...]
    trust_problem: str
    problems: tuple[tuple[str, str], ...]
    skipped_files: dict[str, int]


def read_status(
    vault: Vault, progress: Progress | None = None, settings_problem: str = ""
) -> VaultStatus:
    """Update the index and return the vault's status.

    With a `settings_problem` the folder is not scanned, because the ignore rules are unknown. The
    notes are then those of the last index run, and uncommitted changes are left out.
    """
    has_settings = not settings_problem
    report, sync_problem = _sync(vault, progress) if has_settings else (IndexReport(), "")
    notes, tokens = vault.view.totals()
    git = _read_git(vault, has_settings)
    return VaultStatus(
        folder=vault.show_folder(str(vault.root)),
        settings_problem=settings_problem,
        sync_problem=sync_problem,
        author=vault.author,
        ref=vault.ref,
        watcher=find_watcher(vault),
        notes=notes,
        tokens=tokens,
        kinds=View(vault.state).count_notes("kind"),
        states=_count_states(vault),
        proposed=len(vault.view.paths(PROPOSED)),
        to_decide=_format_waiting(vault) if has_settings else {},
        sync=report,
        is_in_sync=has_settings and not sync_problem and not is_index_stale(vault),
        git=git,
        waiting=tuple(
            str(event.get("subject", "")) for _, event in vault.operations.list_waiting()
        ),
        invalid_notes=(doubtful := tuple(vault.manifest.in_doubt())),
        trust_problem=_describe_trust(vault),
        problems=tuple(
            each
            for each in vault.manifest.problems()
            if each not in doubtful and each[1] not in {OWN_REPOSITORY, LINK}
        ),
        skipped_files=_count_passed_over(vault) if has_settings else {},
    )


def _format_waiting(vault: Vault) -> dict[str, int]:
    """Return the number of open decisions, by kind and of the projects as in `review`."""
    decisions = count_waiting(vault, drops_foreign=True).decisions
    return {format_action(action): count for action, count in decisions.items()}


def _count_states(vault: Vault) -> dict[str, int]:
    """Return the number of notes in each state, and of those with conflicts."""
    folder = View(vault.state)
    conflict_count = len(folder.paths(UNMERGED))
    conflict_counts = {CONFLICTED: conflict_count} if conflict_count else {}
    return folder.count_notes("state") | conflict_counts


def _sync(vault: Vault, progress: Progress | None) -> tuple[IndexReport, str]:
    try:
        return update_index_nonblocking(vault, progress), vault.notices.stale
    except (VaultError, ImportError) as error:  # GitPython needs git to be imported.
        return IndexReport(), str(error)


def _describe_trust(vault: Vault) -> str:
    try:
        return describe_trust_elsewhere(vault)
    except VaultError as error:
        return str(error)


def _read_git(vault: Vault, has_settings: bool) -> GitStatus | None:
    try:
        head = vault.head()
        if head is None:
            return None
        if not is_git_installed():
            raise VaultError("git is not installed, so nothing is committed; install it")
        pending, person = read_pending(vault) if has_settings else None, vault.history.person()
        if pending:
            check_edits(vault, pending, _CHECK_SECONDS)
        return GitStatus(
            head=head,
            obstacle=vault.history.obstacle(),
            uncommitted=_group(pending.owners) if pending else (),
            skipped=pending.skipped if pending else {},
            events=list_commits(vault, CommitFilter(), _EVENTS).commits if head.commit else (),
            person_problem=person.problem,
            person=person.identity.name,
            credentials=_name_credentials(vault, pending) if pending else (),
            sync=read_sync_state(vault) if has_settings else None,
            proposals=len(list_proposed(vault)),
            kept_out=tuple(read_kept_out(vault.history.git_folder, vault.history.prefix)),
            moved_links=plan_repair(vault, pending).links if pending and not vault.ref else 0,
        )
    except VaultError as error:
        return GitStatus(GitHead("", ""), "", (), {}, (), str(error))


def _name_credentials(vault: Vault, pending: PendingFiles) -> tuple[str, ...]:
    try:
        return format_secrets(vault, pending)
    except RefusedError as error:  # Invalid rules block all commits.
        return (str(error),)


def _group(owners: Mapping[str, Owner]) -> tuple[Uncommitted, ...]:
    """Return each author's files: the person first, then agents by name."""
    paths_by_author: dict[tuple[str, str], list[str]] = {}
    for path, (author, _) in owners.items():
        key = (author.agent, author.session if author.agent else "") if author else ("", "")
        paths_by_author.setdefault(key, []).append(path)
    return tuple(
        Uncommitted(
            *key,
            notes=tuple(sorted(path for path in paths if is_note_name(path))),
            files=tuple(sorted(path for path in paths if not is_note_name(path))),
        )
        for key, paths in sorted(paths_by_author.items())
    )


def _count_passed_over(vault: Vault) -> dict[str, int]:
    """Return the number of files and folders that are skipped on purpose, by reason."""
    skipped = find_skipped_files(vault)
    reasons = [reason for _, reason in vault.manifest.unread()]
    counts = Counter({reason: len(paths) for reason, paths in skipped.others.items()})
    counts["symbolic links"] = reasons.count(LINK)
    counts["repositories of their own"] = reasons.count(OWN_REPOSITORY)
    counts["hidden"] = len(skipped.hidden)
    counts["ignored by vaultmem.yaml"] = len(skipped.ignored)
    counts["folders of templates or media"] = len(skipped.set_aside)
    return {reason: count for reason, count in counts.most_common() if count}
