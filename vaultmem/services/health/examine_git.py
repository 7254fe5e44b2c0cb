"""Check the repository: is it whole, can it take commits, does it keep out what it should.

And whether a vault that is carried between machines gets there.
"""

from __future__ import annotations

import shlex

from vaultmem.core.check import Check, Verdict, count_found
from vaultmem.core.packs.context_file import parse_contexts
from vaultmem.core.paths import GENERATED, is_hidden
from vaultmem.services.syncing.unasked import read_sync_state
from vaultmem.services.watching.context import find_context_file
from vaultmem.services.writing.leaks import HOW_TO_ALLOW
from vaultmem.services.writing.ownership import read_pending
from vaultmem.services.writing.parts import name_leaks
from vaultmem.storage.atomic import drop_file
from vaultmem.storage.git.health import (
    MERGES_SINCE,
    find_broken_objects,
    find_committed,
    find_copies_in_git,
    find_driver_lack,
    find_future_commits,
    is_git_installed,
    is_shallow,
    read_git_version,
)
from vaultmem.storage.git.locks import find_locks
from vaultmem.storage.git.setup import add_excludes, find_not_ignored, install_driver, name_file
from vaultmem.storage.git.upkeep import MANY, may_tidy, measure_objects, tidy_up
from vaultmem.storage.package_files import find_package_folder
from vaultmem.storage.secret_rules import check_rules
from vaultmem.vault import Vault

#: Seconds after which a lock is not that of a git at work.
_STALE = 600.0


def check_repository(vault: Vault) -> Check:
    """Tell whether there is a repository that git and vaultmem can work in."""
    if not is_git_installed():
        remedy = "install git 2.38 or newer; without it nothing is committed"
        return Check("git", Verdict.PROBLEM, "it is not installed", remedy=remedy)
    if vault.head() is None:
        remedy = "`vaultmem init` makes one; without it nothing is committed"
        return Check("git", Verdict.WARNING, "the vault is in no repository", remedy=remedy)
    version = read_git_version(vault.history)
    told = f"version {'.'.join(map(str, version)) or 'unknown'}"
    if version < MERGES_SINCE:
        remedy = "install git 2.38 or newer; without it `merge` does not work"
        return Check("git", Verdict.PROBLEM, told, remedy=remedy)
    obstacle = vault.history.obstacle()
    if obstacle and ".lock exists" not in obstacle:  # Locks are reported with their age.
        told, _, remedy = obstacle.partition("; ")
        return Check("git", Verdict.WARNING, f"nothing is committed now: {told}", remedy=remedy)
    return Check("git", told=told)


def check_objects(vault: Vault) -> Check:
    """Tell whether git has all that its commits name, and nothing between that is not its own."""
    copies = find_copies_in_git(vault.history.git_folder)
    if copies:
        return Check(
            "git's objects",
            Verdict.PROBLEM,
            "file synchronisation wrote into git's own folder",
            tuple(map(str, copies)),
            "let it pass over .git, and use `git push` and `git pull`; then remove these files",
        )
    if told := find_broken_objects(vault.history):
        return Check(
            "git's objects",
            Verdict.PROBLEM,
            f"objects that commits need are missing or damaged: {len(told):,}",
            tuple(told),
            "fetch them from a clone or a backup: `git fsck` names all; the notes are not affected",
        )
    if is_shallow(vault.history):
        remedy = "`git fetch --unshallow`, if all of the history is wanted"
        return Check(
            "git's objects",
            Verdict.WARNING,
            "a shallow clone: older commits are missing",
            remedy=remedy,
        )
    return Check("git's objects")


def check_locks(vault: Vault, now: float) -> Check:
    """Tell of locks that a git left behind; they are never removed."""
    locks = find_locks(vault.history.git_folder, now)
    if not locks:
        return Check("git's locks")
    paths = tuple(f"{file}  ({_say_age(age)})" for file, age in locks.items())
    if max(locks.values()) < _STALE:
        return Check("git's locks", Verdict.WARNING, "another git is at work", paths)
    remedy = "if no git is at work, remove " + ("this file" if len(paths) == 1 else "these files")
    told = f"locked since {_say_age(max(locks.values()))}: git, and commits of vaultmem, may fail"
    return Check("git's locks", Verdict.PROBLEM, told, paths, remedy)


def check_leftovers(vault: Vault, fix: bool, now: float) -> Check:
    """Tell of versions of notes that a git has written for a merge driver, and was killed at."""
    files = sorted(vault.history.git.work_tree.glob(".merge_file_??????"))
    left = [file for file in files if now - file.lstat().st_mtime > _STALE]
    if not left:
        return Check("git's leftovers")
    if fix:
        for file in left:
            drop_file(file)
        return Check("git's leftovers", fixed=tuple(f"removed {file.name}" for file in left))
    told = "a git that was killed during a merge left copies of notes, which git has anyway"
    remedy = "`vaultmem doctor --fix` removes them"
    return Check("git's leftovers", Verdict.WARNING, told, tuple(map(str, left)), remedy)


def check_upkeep(vault: Vault, fix: bool) -> Check:
    """See to it that git's objects are packed: one by one they take ten times the space."""
    git = vault.history.git
    found = measure_objects(git)
    if found.loose < MANY or not (fix or may_tidy(git)):
        return Check("git's upkeep")
    if fix:
        return Check("git's upkeep", fixed=(tidy_up(git),))
    told = f"{found.loose:,} objects are in no pack; all take {found.size / 1024 / 1024:.1f} MB"
    remedy = "`vaultmem doctor --fix` packs them; so does a watcher, in time"
    return Check("git's upkeep", Verdict.WARNING, told, remedy=remedy)


def check_person(vault: Vault) -> Check:
    """Tell whether git knows whose name a person's commits bear."""
    person = vault.history.person()
    if not person.problem:
        return Check("your name", told=f"{person.identity.name} <{person.identity.email}>")
    told, _, remedy = person.problem.partition("; ")
    return Check("your name", Verdict.WARNING, told, remedy=remedy)


def check_credentials(vault: Vault) -> Check:
    """Name what looks like a credential and is in no commit: nothing is committed with it."""
    check_rules(vault.root)
    places = name_leaks(vault, read_pending(vault))
    if not places:
        return Check("credentials")
    told = f"commits wait for {len(places):,}"
    return Check("credentials", Verdict.PROBLEM, told, places, HOW_TO_ALLOW)


def check_excludes(vault: Vault, fix: bool) -> Check:
    """See to it that git ignores what is generated or local."""
    template = (find_package_folder("templates") / "gitignore").read_text(encoding="utf-8")
    lines = [line for line in template.splitlines() if line.strip() and line[0] != "#"]
    generated = [line.path for line in parse_contexts(vault.config.contexts)]
    if (own := find_context_file(vault)) not in {"", *GENERATED} and not is_hidden(own):
        generated.append(own)
    lacking = find_not_ignored(vault.history, [*lines, *map(name_file, generated)])
    done: tuple[str, ...] = ()
    if lacking and fix:
        with vault.lock():
            added = add_excludes(vault.history, lacking)
        done = tuple(f"{line} is in the repository's exclude file" for line in added)
        lacking = find_not_ignored(vault.history, lacking)
    if lacking:
        told = f"generated or local, and not ignored by git: {len(lacking):,}"
        remedy = "add these lines to .gitignore"
        remedy += "" if fix else ", or run `vaultmem doctor --fix`"
        return Check("ignored files", Verdict.PROBLEM, told, tuple(lacking), remedy, done)
    head = vault.head()
    commit = head.commit if head is not None else ""
    held = find_committed(vault.history, commit, [*sorted(GENERATED), *generated])
    if held:
        told = "generated files are in the last commit"
        remedy = f"`git rm --cached -- {shlex.join(held)}` and commit that"
        return Check("ignored files", Verdict.PROBLEM, told, tuple(held), remedy, done)
    return Check("ignored files", fixed=done)


def check_merge_driver(vault: Vault, fix: bool) -> Check:
    """See to it that git merges notes property by property."""
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
    """Name commits from the future."""
    head = vault.history.head()
    commits = find_future_commits(vault.history, head.commit, now)
    return count_found(
        "time of commits",
        Verdict.WARNING,
        "commits from the future",
        (commit[:7] for commit in commits),
        "correct the clock of the machine that made them; they stay as they are",
    )


def _say_age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0):.0f} seconds"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3_600:,.0f} hours"


#: Seconds for which commits may wait before it is told.
_LONG = 7 * 86_400.0


def check_sync(vault: Vault, now: float) -> Check:
    """Tell of a sync that does not come about, and of commits that wait for long."""
    found = read_sync_state(vault)
    if found is None:
        return Check("sync", told="no remote")
    if found.problem:
        told, _, remedy = found.problem.rpartition("; ")
        return Check("sync", Verdict.WARNING, told or remedy, remedy=remedy if told else "")
    if found.outcome in {"refused", "conflict", "failed"}:
        remedy = "mend that, and run `vaultmem sync`"
        return Check("sync", Verdict.PROBLEM, f"the last one failed: {found.told}", remedy=remedy)
    if found.at and found.waiting and now - found.good_at > _LONG:
        told = f"commits waiting: {found.waiting:,}; no sync has finished for a week"
        remedy = f"see that {found.remote} can be reached, and run `vaultmem sync`"
        return Check("sync", Verdict.WARNING, told, remedy=remedy)
    return Check("sync", told=f"with {found.remote}" if found.at else f"never with {found.remote}")
