"""Check a vault, its repository and the machine, and mend what cannot lose anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from vaultmem.core.check import Check, Verdict
from vaultmem.errors import BusyError, VaultError
from vaultmem.services.health import examine_git, examine_machine, examine_notes
from vaultmem.services.reading.indexing import Progress
from vaultmem.services.reading.sync import sync_to_read, sync_vault
from vaultmem.storage.git.health import is_git_installed
from vaultmem.storage.lock import READER
from vaultmem.vault import Vault

#: A check's name, and what makes it.
Named = tuple[str, Callable[[], Check]]


def examine_vault(
    vault: Vault,
    fix: bool = False,
    progress: Progress | None = None,
    now: float | None = None,
    settings_problem: str = "",
) -> list[Check]:
    """Run every check; with `fix` mend what can be mended without losing anything.

    `now` is the time in seconds since the epoch, else the vault's. A check that fails itself is a
    problem, and stops no other. With a `settings_problem` the notes are not looked at: what to
    ignore is not known.
    """
    at = vault.now() if now is None else now
    checks = [_describe_failure("settings", settings_problem)]
    repository = _run("git", partial(examine_git.check_repository, vault))
    # Whoever writes just now is found before it is waited for.
    checks += [repository, _run("vault's lock", partial(examine_machine.check_lock, vault))]
    if not settings_problem:
        checks.append(_run("index", partial(_check_index, vault, fix, progress)))
        if vault.notices.stale:  # What is mended below would wait as long, each for itself.
            vault = replace(vault, patience=READER)
        checks += _run_all(_name_note_checks(vault, fix, at))
    if _has_repository(vault):
        checks += _run_all(_name_git_checks(vault, fix, at, not settings_problem))
    checks += _run_all(
        [
            ("watcher", partial(examine_machine.check_watcher, vault, fix)),
            ("hooks", partial(examine_machine.check_hooks, vault)),
            ("watch limit", partial(examine_machine.check_watch_limit, vault)),
            ("disk", partial(examine_machine.check_disk, vault)),
        ]
    )
    return sorted(checks, key=_is_told_later)


def _is_told_later(check: Check) -> bool:
    return check.verdict is Verdict.OK or check.name != examine_notes.DOUBTFUL


def _name_note_checks(vault: Vault, fix: bool, now: float) -> list[Named]:
    return [
        (examine_notes.DOUBTFUL, partial(examine_notes.check_doubtful, vault, fix)),
        ("notes", partial(examine_notes.check_notes, vault)),
        ("note sizes", partial(examine_notes.check_sizes, vault)),
        ("note dates", partial(examine_notes.check_dates, vault, now)),
        ("note names", partial(examine_notes.check_names, vault)),
        ("conflicts", partial(examine_notes.check_conflicted, vault)),
        ("conflict copies", partial(examine_notes.check_conflicts, vault)),
        ("links", partial(examine_notes.check_moved, vault)),
        ("not looked into", partial(examine_notes.check_passed_over, vault)),
        ("sessions", partial(examine_machine.check_sessions, vault, fix)),
        ("trust", partial(examine_notes.check_trust, vault)),
        ("clock", partial(examine_machine.check_clock, vault, now)),
    ]


def _name_git_checks(vault: Vault, fix: bool, now: float, has_settings: bool) -> list[Named]:
    credentials = ("credentials", partial(examine_git.check_credentials, vault))
    ignored = ("ignored files", partial(examine_git.check_excludes, vault, fix))
    return [
        ("git's objects", partial(examine_git.check_objects, vault)),
        ("git's locks", partial(examine_git.check_locks, vault, now)),
        ("git's leftovers", partial(examine_git.check_leftovers, vault, fix, now)),
        ("git's upkeep", partial(examine_git.check_upkeep, vault, fix)),
        ("your name", partial(examine_git.check_person, vault)),
        *([credentials, ignored] if has_settings else []),
        ("merge driver", partial(examine_git.check_merge_driver, vault, fix)),
        ("sync", partial(examine_git.check_sync, vault, now)),
        ("time of commits", partial(examine_git.check_commit_times, vault, now)),
    ]


def _check_index(vault: Vault, fix: bool, progress: Progress | None) -> Check:
    """Bring the index up to date; what is damaged is built again."""
    try:
        (sync_vault if fix else sync_to_read)(vault, progress)
    except BusyError as error:
        vault.notices.stale = str(error)
        raise
    if vault.notices.stale:
        return Check("index", Verdict.WARNING, vault.notices.stale)
    return examine_machine.check_state(vault, fix)


def _has_repository(vault: Vault) -> bool:
    if not is_git_installed():
        return False
    try:
        return vault.head() is not None and bool(vault.history.git_folder)
    except VaultError:
        return False


def _run_all(named: list[Named]) -> list[Check]:
    return [_run(name, check) for name, check in named]


def _run(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except BusyError as error:
        return Check(name, Verdict.WARNING, f"not looked at: {error}")
    except (VaultError, OSError, ImportError) as error:  # GitPython needs git to be imported.
        return _describe_failure(name, str(error))


def _describe_failure(name: str, error: str) -> Check:
    """Return the check that an error's text (subject: fact; remedy) makes; none is fine."""
    if not error:
        return Check(name)
    told, _, remedy = error.rpartition("; ")
    if not told:
        return Check(name, Verdict.PROBLEM, error)
    return Check(name, Verdict.PROBLEM, told, remedy=remedy)
