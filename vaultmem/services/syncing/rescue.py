"""Bring commits that their branch does not take to a ref of ours at the remote, so none is lost."""

from __future__ import annotations

import platform
import re
import time

from vaultmem.services.syncing.place import Place
from vaultmem.storage.git.remote import Fate, push
from vaultmem.vault import Vault

#: Where such refs are; below it, by machine, branch and time.
REFS = "refs/vaultmem/rescue/"


def rescue_commits(vault: Vault, place: Place, commit: str, known: str = "") -> str:
    """Push a commit to a ref that is ours alone; return it, empty if even that was refused.

    A ref that is `known` from before is moved on, if the remote takes that.
    """
    fresh = f"{REFS}{_name_machine()}/{place.branch}-{_clock(vault)}-{commit[:7]}"
    for ref in filter(None, (known, fresh)):
        done = push(vault.history, place.remote, [f"{commit}:{ref}"])
        if done.refs.get(ref, (Fate.REFUSED, ""))[0] in {Fate.DONE, Fate.CURRENT}:
            return ref
    return ""


def _name_machine() -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", platform.node()).strip("-") or "machine"


def _clock(vault: Vault) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.localtime(vault.now()))
