"""The checks of a hub, and their repairs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from vaultmem.core.text.display import pluralize
from vaultmem.core.text.timestamps import Check, Verdict
from vaultmem.errors import VaultError
from vaultmem.services.hub.grants import FILE_NAME, GrantScope, may, read_grants
from vaultmem.services.hub.hub_folder import MAKING, Hub, count_broken, find_hook, open_hub
from vaultmem.services.hub.pushed_refs import read_claims
from vaultmem.services.hub.repositories import list_repositories, set_up, settings_of
from vaultmem.storage.git.bare import BareGit

#: Age from which unreachable objects are dropped; those of a running push are newer.
_PRUNE_AGE = "1.hour.ago"

#: Loose objects and packs from which git is slow with a repository.
_MAX_LOOSE_OBJECTS, _MAX_PACKS = 2_000, 50

_FIX = "`vaultmem hub check --fix`"


def examine_hub(
    hub: Hub, environment: Mapping[str, str], now: float, fix: bool = False
) -> list[Check]:
    """Check a hub's folder, grants and audit log, and each repository with git.

    With `fix`, repair permissions, the hook and git's settings, and pack objects. Objects
    unreachable for an hour are dropped.
    """
    checks = [_check_modes(hub, fix), _check_hook(hub, fix), _check_grants(hub, now)]
    checks.append(_check_record(hub))
    for name, folder in list_repositories(hub).items():
        checks.append(_check_repository(hub, name, folder, environment, fix))
    return checks


def _check_modes(hub: Hub, fix: bool) -> Check:
    if os.name != "posix":
        return Check("folder")
    private_paths = (hub.folder, hub.folder / FILE_NAME)
    exposed_paths = [each for each in private_paths if each.exists() and _mode(each) & 0o77]
    if fix:
        for each in exposed_paths:
            each.chmod(_mode(each) & 0o700)
    fixed = tuple(f"{each.name} is its owner's alone" for each in exposed_paths if fix)
    if exposed_paths and not fix:
        names = tuple(map(str, exposed_paths))
        summary = "others on this machine can look into it"
        return Check("folder", Verdict.PROBLEM, summary, names, _FIX)
    return Check("folder", message=str(hub.folder), fixed=fixed)


def _check_hook(hub: Hub, fix: bool) -> Check:
    problem = find_hook(hub.hooks)
    leftovers = [each.name for each in hub.repositories.glob(f"{MAKING}*")]
    if fix and (problem or leftovers):
        open_hub(hub.folder)
        return Check("door", fixed=("written anew",))
    if problem:
        remedy = f"start `vaultmem hub serve`, or run {_FIX}"
        return Check("door", Verdict.PROBLEM, problem, remedy=remedy)
    if leftovers:
        summary = "repositories were left half made"
        return Check("door", Verdict.WARNING, summary, tuple(leftovers), _FIX)
    return Check("door", message="each push is checked")


def _check_grants(hub: Hub, now: float) -> Check:
    try:
        grants = read_grants(hub)
        read_claims(hub, "")
    except VaultError as error:
        return Check("grants", Verdict.PROBLEM, str(error))
    live_grants = [each for each in grants if each.is_alive(now)]
    names = {each.name for each in live_grants}
    summary = f"{pluralize(len(live_grants), 'token')} of {pluralize(len(names), 'name')}"
    vaults = list_repositories(hub)
    unowned_vaults = [
        n for n in vaults if not any(may(each, n, GrantScope.OWN, "") for each in live_grants)
    ]
    if unowned_vaults:
        remedy = "`vaultmem hub grant NAME --person --email EMAIL --admin VAULT`"
        return Check(
            "grants", Verdict.WARNING, "vaults without an owner", tuple(unowned_vaults), remedy
        )
    return Check("grants", message=summary)


def _check_record(hub: Hub) -> Check:
    if broken_count := count_broken(hub):
        summary = f"{pluralize(broken_count, 'line')} cut by a kill or changed by hand"
        return Check("record", Verdict.WARNING, summary)
    return Check("record")


def _check_repository(
    hub: Hub, name: str, folder: Path, environment: Mapping[str, str], fix: bool
) -> Check:
    """Check that a repository is intact, has our settings, and is not slow."""
    git = BareGit(folder, environment)
    fixed: list[str] = []
    if wrong_keys := [*_find_settings(hub, git, folder)]:
        if not fix:
            summary = f"git's settings are not the hub's: {', '.join(wrong_keys[:3])}"
            return Check(name, Verdict.PROBLEM, summary, remedy=_FIX)
        set_up(hub, folder, environment)
        fixed.append("git's settings")
    try:
        output = git.run("fsck", "--full", "--no-progress")
    except VaultError as error:
        remedy = "restore the folder from a backup, or push from a clone that is whole"
        return Check(name, Verdict.PROBLEM, str(error), remedy=remedy, fixed=tuple(fixed))
    facts = _count_objects(git)
    if facts["count"] > _MAX_LOOSE_OBJECTS or facts["packs"] > _MAX_PACKS:
        if not fix:
            summary = f"{facts['count']:,} loose objects and {facts['packs']:,} packs make git slow"
            return Check(name, Verdict.WARNING, summary, remedy=_FIX)
        git.run("gc", "--quiet", f"--prune={_PRUNE_AGE}")
        fixed.append("objects packed")
    elif fix and b"dangling " in output:  # Such as of a removed proposal.
        git.run("gc", "--quiet", f"--prune={_PRUNE_AGE}")
        fixed.append("objects without a ref")
    kilobytes = facts["size"] + facts["size-pack"]
    return Check(name, message=f"whole, {kilobytes:,} kB", fixed=tuple(fixed))


def _find_settings(hub: Hub, git: BareGit, folder: Path) -> Iterator[str]:
    output = git.run("config", "--file", str(folder / "config"), "-z", "--list")
    pairs = (row.partition("\n") for row in output.decode("utf-8", "replace").split("\0") if row)
    settings = {key: value for key, _, value in pairs}
    for key, value in settings_of(hub).items():
        if settings.get(key.lower()) != value:
            yield key


def _count_objects(git: BareGit) -> dict[str, int]:
    lines = git.run("count-objects", "-v").decode().splitlines()
    pairs = (line.partition(": ") for line in lines)
    return {key: int(value) for key, _, value in pairs if value.isdigit()}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
