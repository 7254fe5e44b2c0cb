"""Checks of the repository, of this machine, and of the sync between machines."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import time
from pathlib import Path

import vaultmem
from vaultmem.core.packs.context_file import parse_contexts
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import GENERATED, is_hidden
from vaultmem.core.text.timestamps import Check, Verdict, count_found
from vaultmem.errors import VaultError
from vaultmem.services.changes.commit_parts import format_secrets
from vaultmem.services.changes.ownership import HOW_TO_ALLOW, read_pending
from vaultmem.services.sessions.close import recover_sessions
from vaultmem.services.sessions.find_session import find_dead, list_facts, open_transcripts
from vaultmem.services.syncing.sync_place import read_sync_state
from vaultmem.services.views.read_index import is_index_stale
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.generated_context import find_context_file
from vaultmem.services.watching.lease import find_watcher
from vaultmem.storage.atomic import drop_file
from vaultmem.storage.git.git_locks import find_locks
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.maintenance import (
    MAX_LOOSE_OBJECTS,
    MERGES_SINCE,
    find_broken_objects,
    find_committed,
    find_copies_in_git,
    find_driver_lack,
    find_future_commits,
    is_git_installed,
    may_tidy,
    measure_objects,
    read_git_version,
    tidy_up,
)
from vaultmem.storage.git.setup import add_excludes, find_unignored, format_file, install_driver
from vaultmem.storage.lock import find_holders, hold_lock, is_held, is_stopped
from vaultmem.storage.scan_files import count_folders
from vaultmem.storage.session_table import TROUBLE_FILE
from vaultmem.storage.user_files import find_package_folder
from vaultmem.storage.yaml_file import check_rules
from vaultmem.vault import Vault

#: The remedies for a copied vault.
HOW_TO_CHOOSE = (
    "`vaultmem doctor --keep-data here` moves them to this folder; "
    "`vaultmem doctor --keep-data there` leaves them there and gives this folder a new id"
)

#: Seconds after which a lock is not from a running git.
_STALE = 600.0


def check_repository(vault: Vault) -> Check:
    """Report whether there is a repository that git and vaultmem can use."""
    if not is_git_installed():
        remedy = "install git 2.38 or newer; without it nothing is committed"
        return Check("git", Verdict.PROBLEM, "it is not installed", remedy=remedy)
    if vault.head() is None:
        remedy = "`vaultmem init` makes one; without it nothing is committed"
        return Check("git", Verdict.WARNING, "the vault is in no repository", remedy=remedy)
    version = read_git_version(vault.history)
    summary = f"version {'.'.join(map(str, version)) or 'unknown'}"
    if version < MERGES_SINCE:
        remedy = "install git 2.38 or newer; without it `merge` does not work"
        return Check("git", Verdict.PROBLEM, summary, remedy=remedy)
    obstacle = vault.history.obstacle()
    if obstacle and ".lock exists" not in obstacle:  # Locks are reported with their age.
        summary, _, remedy = obstacle.partition("; ")
        return Check("git", Verdict.WARNING, f"nothing is committed now: {summary}", remedy=remedy)
    return Check("git", message=summary)


def check_copy(vault: Vault) -> Check:
    """Report whether the vault is a copy of another vault still on this machine."""
    source = vault.store.id.copied_from
    if not source:
        return Check("copied vault", message="no")
    summary = "a copy of another vault, which keeps the counts and receipts"
    return Check("copied vault", Verdict.WARNING, summary, (source,), HOW_TO_CHOOSE)


def check_objects(vault: Vault) -> Check:
    """Report missing git objects, and foreign files in git's folder."""
    copies = find_copies_in_git(vault.history.git_folder)
    if copies:
        return Check(
            "git's objects",
            Verdict.PROBLEM,
            "file synchronisation wrote into git's own folder",
            tuple(map(str, copies)),
            "let it pass over .git, and use `git push` and `git pull`; then remove these files",
        )
    if objects := find_broken_objects(vault.history):
        return Check(
            "git's objects",
            Verdict.PROBLEM,
            f"objects that commits need are missing or damaged: {len(objects):,}",
            tuple(objects),
            "fetch them from a clone or a backup: `git fsck` names all; the notes are not affected",
        )
    if vault.history.refs.is_shallow():
        remedy = "`git fetch --unshallow`, if all of the history is wanted"
        return Check(
            "git's objects",
            Verdict.WARNING,
            "a shallow clone: older commits are missing",
            remedy=remedy,
        )
    return Check("git's objects")


def check_locks(vault: Vault, now: float) -> Check:
    """Report locks that a git left; they are never removed."""
    locks = find_locks(vault.history.git_folder, now)
    if not locks:
        return Check("git's locks")
    paths = tuple(f"{file}  ({_check_age(age)})" for file, age in locks.items())
    if max(locks.values()) < _STALE:
        return Check("git's locks", Verdict.WARNING, "another git is at work", paths)
    remedy = "if no git is at work, remove " + ("this file" if len(paths) == 1 else "these files")
    summary = (
        f"locked since {_check_age(max(locks.values()))}: git, and commits of vaultmem, may fail"
    )
    return Check("git's locks", Verdict.PROBLEM, summary, paths, remedy)


def check_leftovers(vault: Vault, fix: bool, now: float) -> Check:
    """Report files that git wrote for a merge driver before it was killed."""
    files = sorted(vault.history.git.work_tree.glob(".merge_file_??????"))
    leftovers = [file for file in files if now - file.lstat().st_mtime > _STALE]
    if not leftovers:
        return Check("git's leftovers")
    if fix:
        for file in leftovers:
            drop_file(file)
        return Check("git's leftovers", fixed=tuple(f"removed {file.name}" for file in leftovers))
    summary = "a git that was killed during a merge left copies of notes, which git has anyway"
    remedy = "`vaultmem doctor --fix` removes them"
    return Check("git's leftovers", Verdict.WARNING, summary, tuple(map(str, leftovers)), remedy)


def check_upkeep(vault: Vault, fix: bool) -> Check:
    """Check that git's objects are packed: loose ones take ten times the space."""
    git = vault.history.git
    objects = measure_objects(git)
    if objects.loose < MAX_LOOSE_OBJECTS or not (fix or may_tidy(git)):
        return Check("git's upkeep")
    if fix:
        return Check("git's upkeep", fixed=(tidy_up(git),))
    summary = (
        f"{objects.loose:,} objects are in no pack; all take {objects.size / 1024 / 1024:.1f} MB"
    )
    remedy = "`vaultmem doctor --fix` packs them; so does a watcher, in time"
    return Check("git's upkeep", Verdict.WARNING, summary, remedy=remedy)


def check_person(vault: Vault) -> Check:
    """Report whether git knows the author's name for a person's commits."""
    person = vault.history.person()
    if not person.problem:
        return Check("your name", message=f"{person.identity.name} <{person.identity.email}>")
    summary, _, remedy = person.problem.partition("; ")
    return Check("your name", Verdict.WARNING, summary, remedy=remedy)


def check_credentials(vault: Vault) -> Check:
    """Report uncommitted text that looks like a credential, which blocks commits."""
    check_rules(vault.root)
    places = format_secrets(vault, read_pending(vault))
    if not places:
        return Check("credentials")
    summary = f"commits wait for {len(places):,}"
    return Check("credentials", Verdict.PROBLEM, summary, places, HOW_TO_ALLOW)


def check_excludes(vault: Vault, fix: bool) -> Check:
    """Check that git ignores generated and local files."""
    template = (find_package_folder("templates") / "gitignore").read_text(encoding="utf-8")
    lines = [line for line in template.splitlines() if line.strip() and line[0] != "#"]
    generated = [line.path for line in parse_contexts(vault.config.extra_packs)]
    if (own := find_context_file(vault)) not in {"", *GENERATED} and not is_hidden(own):
        generated.append(own)
    unignored_lines = find_unignored(vault.history, [*lines, *map(format_file, generated)])
    fixes: tuple[str, ...] = ()
    if unignored_lines and fix:
        with vault.lock():
            added_lines = add_excludes(vault.history, unignored_lines)
        fixes = tuple(f"{line} is in the repository's exclude file" for line in added_lines)
        unignored_lines = find_unignored(vault.history, unignored_lines)
    if unignored_lines:
        summary = f"generated or local, and not ignored by git: {len(unignored_lines):,}"
        remedy = "add these lines to .gitignore"
        remedy += "" if fix else ", or run `vaultmem doctor --fix`"
        return Check(
            "ignored files", Verdict.PROBLEM, summary, tuple(unignored_lines), remedy, fixes
        )
    head = vault.head()
    commit = head.commit if head is not None else ""
    committed_paths = find_committed(vault.history, commit, [*sorted(GENERATED), *generated])
    if committed_paths:
        summary = "generated files are in the last commit"
        remedy = f"`git rm --cached -- {shlex.join(committed_paths)}` and commit that"
        return Check(
            "ignored files", Verdict.PROBLEM, summary, tuple(committed_paths), remedy, fixes
        )
    return Check("ignored files", fixed=fixes)


def check_merge_driver(vault: Vault, fix: bool) -> Check:
    """Check that git merges notes property by property."""
    lack = find_driver_lack(vault.history)
    fixed: tuple[str, ...] = ()
    if lack and fix:
        with vault.lock():
            fixed = tuple(f"{name} is set" for name in install_driver(vault.history))
        lack = find_driver_lack(vault.history)
    if not lack:
        return Check("merge driver", fixed=fixed)
    remedy = "run `vaultmem doctor --fix`" if not fix else "see .gitattributes and git's settings"
    return Check("merge driver", Verdict.PROBLEM, lack, remedy=remedy, fixed=fixed)


def check_commit_times(vault: Vault, now: float) -> Check:
    """Report commits from the future."""
    head = vault.history.head()
    commits = find_future_commits(vault.history, head.commit, now)
    return count_found(
        "time of commits",
        Verdict.WARNING,
        "commits from the future",
        (commit[:7] for commit in commits),
        "correct the clock of the machine that made them; they stay as they are",
    )


def _check_age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0):.0f} seconds"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3_600:,.0f} hours"


#: Seconds that commits can wait before a warning.
_MAX_UNSYNCED_SECONDS = 7 * 86_400.0


def check_sync(vault: Vault, now: float) -> Check:
    """Report failed syncs, and commits that have waited long."""
    sync_state = read_sync_state(vault)
    if sync_state is None:
        return Check("sync", message="no remote")
    if sync_state.problem:
        summary, _, remedy = sync_state.problem.rpartition("; ")
        return Check("sync", Verdict.WARNING, summary or remedy, remedy=remedy if summary else "")
    if sync_state.outcome in {"refused", "conflict", "failed"}:
        remedy = "fix that, and run `vaultmem sync`"
        return Check(
            "sync", Verdict.PROBLEM, f"the last one failed: {sync_state.message}", remedy=remedy
        )
    if sync_state.at and sync_state.waiting and now - sync_state.good_at > _MAX_UNSYNCED_SECONDS:
        summary = f"commits waiting: {sync_state.waiting:,}; no sync has finished for a week"
        remedy = f"see that {sync_state.remote} can be reached, and run `vaultmem sync`"
        return Check("sync", Verdict.WARNING, summary, remedy=remedy)
    return Check(
        "sync",
        message=f"with {sync_state.remote}" if sync_state.at else f"never with {sync_state.remote}",
    )


# Check the vault's machine: disk, processes, hooks and sessions.

_LIMIT_FILE = Path("/proc/sys/fs/inotify/max_user_watches")

#: Bytes that must be free: a new index is built next to the old one.
MIN_FREE_BYTES = 256 * 1024 * 1024

_MEGABYTE = 1024 * 1024


def check_state(vault: Vault, fix: bool) -> Check:
    """Check that index and database are intact and match."""
    if problem := vault.state.find_damage():
        file = vault.state.path
        remedy = "`vaultmem checkpoint` what waits, and remove this file: it is built again"
        return Check("index", Verdict.PROBLEM, problem, (str(file),), remedy)
    problem = _find_lack(vault)
    if problem:
        with vault.lock_caches():  # A running write makes it stale.
            problem = _find_lack(vault)
    fixes: tuple[str, ...] = ()
    if problem and fix:
        with vault.lock_caches():
            vault.index.reset()
            sync_vault(vault)
        problem = _find_lack(vault)
        fixes = ("the index is built again from the notes",)
    if problem:
        remedy = "" if fix else "`vaultmem doctor --fix` builds it again from the notes"
        return Check("index", Verdict.PROBLEM, problem, remedy=remedy, fixed=fixes)
    if vault.store.state_place.lack:
        return Check(
            "index",
            Verdict.WARNING,
            f"a spare one in {vault.state_folder}: {vault.store.state_place.lack}",
            remedy="let this process write to that folder: until then it can write no note",
            fixed=fixes,
        )
    return _check_damaged(vault, fix, fixes)


def _find_lack(vault: Vault) -> str:
    """Return the problem of the index, "" if it is readable and complete."""
    if damage := vault.index.find_damage():
        return damage
    if vault.manifest.documents() - vault.index.documents() or is_index_stale(vault):
        return "the index is older than the notes"
    return ""


def _check_damaged(vault: Vault, fix: bool, fixes: tuple[str, ...]) -> Check:
    """Report damaged files that were set aside; the database can contain attribution."""
    index = vault.state_folder / "index.damaged"
    if fix and index.is_dir() and not index.is_symlink():
        shutil.rmtree(index, ignore_errors=True)
        fixes = (*fixes, f"{index} is removed")
    damaged_files = tuple(str(file) for file in sorted(vault.state_folder.glob("*.damaged")))
    if not damaged_files:
        return Check("index", message="in sync", fixed=fixes)
    summary = "it was damaged, and was built again"
    return Check(
        "index", Verdict.WARNING, summary, damaged_files, "remove what was set aside", fixes
    )


def check_clock(vault: Vault, now: float) -> Check:
    """Report files from the future."""
    limit = (now + 60) * 1e9
    stats = vault.manifest.stats()
    paths = (path for path, (_, modified, _, _) in sorted(stats.items()) if modified > limit)
    remedy = "set the clock, then `touch` the files: until then they count as the newest"
    return count_found("clock", Verdict.PROBLEM, "files from the future", paths, remedy)


def check_disk(vault: Vault, enough: int = MIN_FREE_BYTES) -> Check:
    """Report whether enough bytes are free for notes, commits and the index."""
    git = find_git_folder(vault.root)
    folders = [vault.root, vault.state_folder, *(git[1:] if git is not None else ())]
    disks = {os.stat(folder).st_dev: folder for folder in reversed(folders)}
    free = {folder: shutil.disk_usage(folder).free for folder in disks.values()}
    full_folders = {
        folder: free_bytes for folder, free_bytes in sorted(free.items()) if free_bytes < enough
    }
    least = f"{min(free.values()) // _MEGABYTE:,} MB are free"
    if not full_folders:
        return Check("disk", message=least)
    paths = tuple(
        f"{folder}  ({free_bytes // _MEGABYTE:,} MB)" for folder, free_bytes in full_folders.items()
    )
    return Check("disk", Verdict.PROBLEM, f"nearly full: {least}", paths, "make space")


def check_watch_limit(vault: Vault, limit_file: Path = _LIMIT_FILE) -> Check:
    """Report whether the system can watch all folders (Linux)."""
    try:
        limit = int(limit_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("watch limit")
    folders = count_folders(vault.root, limit + 1)
    if folders <= limit:
        return Check("watch limit", message=f"{folders:,} of {limit:,} folders")
    summary = f"there are more folders than the {limit:,} that may be watched: `watch` polls"
    remedy = f"raise it: `sudo sysctl fs.inotify.max_user_watches={max(524_288, 2 * limit)}`"
    return Check("watch limit", Verdict.PROBLEM, summary, remedy=remedy)


#: Files that a killed watcher leaves in the state folder.
_WATCHER_FILES = ("watch.json", "watch.sock")

_LAST_BYTES = 64 * 1024


def check_watcher(vault: Vault, fix: bool) -> Check:
    """Report the watcher; with `fix`, clean up after a killed one."""
    folder = vault.state_folder
    if is_held(folder / "watch.lock"):
        watcher = find_watcher(vault)
        if watcher is None:
            summary = "a process watches, and does not say which"
            holders = _name(find_holders(folder / "watch.lock"))
            return Check("watcher", Verdict.WARNING, summary, holders, "end it, and start it again")
        summary = f"process {watcher.pid} watches"
        if is_stopped(watcher.pid):
            remedy = f"`kill -CONT {watcher.pid}` lets it go on; or end it"
            return Check("watcher", Verdict.WARNING, f"{summary}, and was stopped", remedy=remedy)
        if watcher.version == vaultmem.__version__:
            return Check("watcher", message=summary)
        summary += f", of version {watcher.version}; this is {vaultmem.__version__}"
        remedy = "`vaultmem watch --stop`, and start it again"
        return Check("watcher", Verdict.WARNING, summary, remedy=remedy)
    leftovers = [folder / name for name in _WATCHER_FILES if os.path.lexists(folder / name)]
    fixes: list[str] = []
    if leftovers and fix:
        with contextlib.suppress(VaultError), hold_lock(folder / "watch.lock", 0.0):
            for file in leftovers:
                file.unlink(missing_ok=True)
                fixes.append(f"{file} is removed")
            leftovers = []
    if not leftovers:
        return Check("watcher", message="none is running", fixed=tuple(fixes))
    remedy = "`vaultmem watch` starts another; `vaultmem doctor --fix` removes what this one left"
    summary = "a watcher was killed"
    return Check("watcher", Verdict.PROBLEM, summary, tuple(map(str, leftovers)), remedy)


def check_lock(vault: Vault) -> Check:
    """Report whether another process writes to the vault; a dead one holds no lock."""
    file = vault.state_folder / "lock"
    if not is_held(file):
        return Check("vault's lock")
    remedy = "wait for it; if it stays, end that process"
    summary = "another vaultmem writes to this vault"
    holders = find_holders(file)
    if any(map(is_stopped, holders)):
        summary += ", and was stopped while doing so"
        remedy = f"`kill -CONT {holders[0]}` lets it go on; or end it"
    return Check("vault's lock", Verdict.WARNING, summary, _name(holders), remedy)


def check_hooks(vault: Vault) -> Check:
    """Report errors of hooks, which never stop an agent and so stay silent."""
    file = vault.state_folder / TROUBLE_FILE
    try:
        with open(file, "rb") as lines:
            size = os.fstat(lines.fileno()).st_size
            lines.seek(max(size - _LAST_BYTES, 0))
            text = lines.read(_LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return Check("hooks")
    rows = [_describe_trouble(line) for line in text.splitlines()[size > _LAST_BYTES :] if line]
    if not rows:
        return Check("hooks")
    return Check(
        "hooks",
        Verdict.WARNING,
        f"{pluralize(len(rows), 'time')} something went wrong, last {rows[-1].partition('  ')[0]}",
        tuple(reversed(rows)),
        f"correct these causes, then remove {file}",
    )


def _describe_trouble(line: str) -> str:
    try:
        entry = json.loads(line)
        at, event, error = entry["at"], entry["event"], entry["error"]
    except (ValueError, KeyError, TypeError):
        return line
    with contextlib.suppress(OverflowError, OSError, ValueError):
        if isinstance(at, (int, float)):
            at = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    return f"{at}  {event}: {error}"


def _name(processes: list[int]) -> tuple[str, ...]:
    return tuple(f"process {pid}" for pid in processes)


def check_sessions(vault: Vault, fix: bool) -> Check:
    """Check that sessions of dead processes are closed; the vault must be in sync."""
    fixed = []
    if fix:
        for each in recover_sessions(vault):
            if not each.problem:
                fixed.append(f"{each.session} has an end ({each.status})")
    dead_sessions = find_dead(vault)
    if dead_sessions:
        summary = f"{pluralize(len(dead_sessions), 'session')} without an end, the process gone"
        remedy = "`vaultmem doctor --fix` or `vaultmem session list` recovers them"
        paths = tuple(record.id for record in dead_sessions)
        return Check("sessions", Verdict.WARNING, summary, paths, remedy, tuple(fixed))
    facts = list_facts(vault)
    open_count = sum(each.is_open for each in facts)
    size = sum(open_transcripts(vault).size(each.id) for each in facts)
    summary = f"{len(facts):,}, {open_count:,} open, transcripts of {size / 1024 / 1024:.1f} MB"
    return Check("sessions", message=summary, fixed=tuple(fixed))
