"""Check the repository: can it take commits and merges, and does it keep out what it should."""

from __future__ import annotations

from vaultmem.core.check import Check, Verdict
from vaultmem.core.packs.context_line import parse_contexts
from vaultmem.services.notes.create import template_folder
from vaultmem.storage.git.exclude import add_excludes, find_not_ignored, name_file
from vaultmem.storage.git.health import (
    MERGES_SINCE,
    find_driver_lack,
    find_lock_age,
    read_git_version,
)
from vaultmem.storage.git.merge_setup import install_driver
from vaultmem.vault import Vault

_STALE = 600.0


def check_version(vault: Vault) -> Check:
    """Tell whether git is new enough to merge."""
    version = read_git_version(vault.history)
    told = f"version {'.'.join(map(str, version)) or 'unknown'}"
    if version >= MERGES_SINCE:
        return Check("git", told=told)
    remedy = "install git 2.38 or newer; without it `merge` does not work"
    return Check("git", Verdict.PROBLEM, told, remedy=remedy)


def check_excludes(vault: Vault, fix: bool) -> Check:
    """See to it that git ignores what is generated or local."""
    template = (template_folder() / "gitignore").read_text(encoding="utf-8")
    lines = [line for line in template.splitlines() if line.strip() and line[0] != "#"]
    lines += [name_file(line.path) for line in parse_contexts(vault.config.contexts)]
    lacking = find_not_ignored(vault.history, lines)
    fixed: list[str] = []
    if lacking and fix:
        with vault.lock():
            fixed = add_excludes(vault.history, lacking)
        lacking = find_not_ignored(vault.history, lacking)
    done = tuple(f"{line} is in the repository's exclude file" for line in fixed)
    if not lacking:
        return Check("ignored files", fixed=done)
    told = f"git does not ignore {len(lacking):,} of what is generated or local"
    remedy = "add these lines to .gitignore" + ("" if fix else ", or run `vaultmem doctor --fix`")
    return Check("ignored files", Verdict.WARNING, told, tuple(lacking), remedy, done)


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
    return Check("merge driver", Verdict.WARNING, lack, remedy=remedy, fixed=fixed)


def check_lock(vault: Vault, now: float) -> Check:
    """Tell of a lock that a git left behind; it is never removed."""
    age = find_lock_age(vault.history.git_folder, now)
    if age is None:
        return Check("git's lock")
    file = str(vault.history.git_folder / "index.lock")
    if age < _STALE:
        return Check("git's lock", Verdict.WARNING, "another git is at work", (file,))
    told = f"git's index is locked since {age / 60:,.0f} minutes, so nothing can be committed"
    remedy = "if no git is at work, remove this file"
    return Check("git's lock", Verdict.PROBLEM, told, (file,), remedy)
