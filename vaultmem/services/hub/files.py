"""Which files a push may change: by their names, by what they are, and by whose folder it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from vaultmem.core.portable_paths import (
    find_danger,
    find_hindrance,
    find_new_twins,
    is_owners,
)
from vaultmem.core.safe_text import one_line
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.services.hub.grants import Scope
from vaultmem.services.hub.refusal import Refusal
from vaultmem.services.hub.visit import Visit
from vaultmem.storage.git.pushed import Change, NewCommit

_AGAIN = "take it out of its commit (`git rebase -i`, or `git reset --soft` and commit again)"
_KINDS = {"120000": "a symbolic link", "160000": "a repository inside the vault"}


def check_each(commits: Iterable[NewCommit]) -> Iterator[Refusal]:
    """Yield what must be in no commit, not even in one that a later one mends."""
    for commit in commits:
        for change in commit.changes:
            if change.mode and (why := find_danger(change.path) or _find_kind(change)):
                yield Refusal(f"{show_path(change.path)} in {commit.commit[:9]}", why, _AGAIN)


def check_form(commits: Iterable[NewCommit]) -> Iterator[Refusal]:
    """Yield what is in a machine's commits that nobody else is to read."""
    from vaultmem.storage.machines import is_shared  # Most pushes have no need of it.

    for commit in commits:
        for change in commit.changes:
            if change.mode and not is_shared(change.path):
                why = "is nothing that machines share at a hub: words of questions, perhaps"
                what = f"{show_path(change.path)} in {commit.commit[:9]}"
                yield Refusal(what, why, "update vaultmem, and run `vaultmem sync`")


def _find_kind(change: Change) -> str:
    if change.mode in _KINDS:
        return f"is {_KINDS[change.mode]}"
    if change.mode == "100755" and "100755" not in change.old_modes:
        return "can be executed (`git update-index --chmod=-x` takes that away)"
    if change.mode not in {"100644", "100755"}:
        return "is no file"
    return ""


def check_names(visit: Visit, new: str, difference: Sequence[Change]) -> Iterator[Refusal]:
    """Yield the files that are new at the end of a push and that some system cannot hold."""
    added = [change.path for change in difference if change.mode and change.is_new]
    fine = []
    for path in added:
        if why := find_hindrance(path):
            yield Refusal(show_path(path), why, "give it another name with `vaultmem mv`")
        else:
            fine.append(path)
    if fine:
        folders = {way for path in fine for way in accumulate(path.split("/")[:-1], "{}/{}".format)}
        there = visit.objects.list_folders(new, ["", *sorted(folders)])
        for path, twin in find_new_twins(fine, there):
            why = f"some disks have one file for it and {show_path(twin)}"
            yield Refusal(show_path(path), why, "give it another name with `vaultmem mv`")


def check_scope(visit: Visit, scope: Scope, changes: Iterable[Change]) -> Iterator[Refusal]:
    """Yield the files that whoever pushes may not change."""
    for path in dict.fromkeys(change.path for change in changes):
        if is_owners(path) and not visit.may(Scope.OWN, path):
            why = "is changed by the vault's owners alone"
            yield Refusal(show_path(path), why, "leave it as it is, and ask one of them")
        elif not visit.may(scope, path):
            verb = "write" if scope is Scope.WRITE else "propose"
            folders = ", ".join(_list_folders(visit, scope)) or "nothing"
            how = f"you may {verb} {folders}"
            if scope is Scope.WRITE and visit.may(Scope.PROPOSE, path):
                how = f"{how}; propose it: refs/heads/proposals/{visit.grant.name}/TOPIC"
            yield Refusal(show_path(path), f"is not yours to {verb}", how)


def _list_folders(visit: Visit, scope: Scope) -> list[str]:
    order = tuple(Scope)
    patterns = (
        each for have in order[order.index(scope) :] for each in visit.grant.scopes.get(have, ())
    )
    return list(dict.fromkeys(patterns))


def show_path(path: str) -> str:
    """Return a path in one line, cut, without what looks like a credential."""
    return one_line(mask_secrets(path))[:120]
