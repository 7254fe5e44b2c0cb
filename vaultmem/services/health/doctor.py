"""Check a vault, its repository and the machine, and mend what cannot lose anything."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial

from vaultmem.core.check import Check, Verdict
from vaultmem.errors import VaultError
from vaultmem.services.health.examine_git import (
    check_excludes,
    check_lock,
    check_merge_driver,
    check_version,
)
from vaultmem.services.health.examine_notes import (
    check_conflicts,
    check_names,
    check_notes,
    check_passed_over,
    check_sizes,
    check_trust,
)
from vaultmem.services.health.examine_place import (
    check_clock,
    check_state,
    check_temporaries,
    check_watch_limit,
)
from vaultmem.services.indexing import Progress
from vaultmem.services.sync import sync_vault
from vaultmem.vault import Vault


def examine_vault(
    vault: Vault, fix: bool = False, progress: Progress | None = None, now: float | None = None
) -> list[Check]:
    """Run every check; with `fix` mend what can be mended without losing anything.

    `now` is the time in seconds since the epoch. A check that fails itself is a problem, and stops
    no other.
    """
    moment = time.time() if now is None else now
    checks = [_run("git", partial(_check_repository, vault))]
    has_git = checks[0].verdict is Verdict.OK
    index = _run("index", partial(_sync, vault, progress))
    for name, check in (
        ("index", partial(check_state, vault)),
        ("notes", partial(check_notes, vault)),
        ("note sizes", partial(check_sizes, vault)),
        ("note names", partial(check_names, vault)),
        ("conflict copies", partial(check_conflicts, vault)),
        ("interrupted writes", partial(check_temporaries, vault, fix, moment)),
        ("not looked into", partial(check_passed_over, vault)),
        ("trust", partial(check_trust, vault)),
        ("clock", partial(check_clock, vault, moment)),
        ("watch limit", partial(check_watch_limit, vault)),
    ):
        checks.append(_run(name, check))
    if index.verdict is not Verdict.OK:
        checks[1] = index
    if has_git:
        checks[0] = _run("git", partial(check_version, vault))
        checks += [
            _run("git's lock", partial(check_lock, vault, moment)),
            _run("ignored files", partial(check_excludes, vault, fix)),
            _run("merge driver", partial(check_merge_driver, vault, fix)),
        ]
    return checks


def _run(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except VaultError as error:
        return Check(name, Verdict.PROBLEM, str(error))


def _check_repository(vault: Vault) -> Check:
    """Tell whether there is a repository that git and vaultmem can work in."""
    if shutil.which("git") is None:
        remedy = "install git 2.38 or newer; without it nothing is committed"
        return Check("git", Verdict.PROBLEM, "it is not installed", remedy=remedy)
    if vault.head() is None:
        remedy = "`vaultmem init` makes one; without it nothing is committed"
        return Check("git", Verdict.WARNING, "the vault is in no repository", remedy=remedy)
    vault.history.head()
    return Check("git")


def _sync(vault: Vault, progress: Progress | None) -> Check:
    """Bring the index up to date; a database found damaged is built again at the second try."""
    try:
        sync_vault(vault, progress)
    except VaultError:
        sync_vault(vault, progress)
    return Check("index")
