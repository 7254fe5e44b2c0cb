"""Learn what new commits brought: when each note was written, and what came from elsewhere.

Notes that a merge or a pull has brought wait to be compared with what is known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.paths import is_note_name
from vaultmem.errors import VaultError
from vaultmem.services.reading.withdraw import review_commits
from vaultmem.storage.arrivals import add_waiting
from vaultmem.storage.git.brought import Brought, date_brought, find_brought
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.log import Commit


def learn_commits(vault: Vault) -> None:
    """Ask git what was written when in the commits that are new since last time, and by whom."""
    head, before = vault.head(), vault.state.get("head")
    if head is None or not head.commit:
        return
    history = vault.history
    from vaultmem.services.reading.attribute import attribute_commits, carry_attribution

    carry_attribution(vault)
    if vault.journal.agents_paths():
        attribute_commits(vault, head.commit, before)
    brought = find_brought(history, head.commit, before)
    goes_on = bool(before) and history.refs.is_ancestor(before, head.commit)
    is_rebased = bool(before) and vault.state.get("branch") == head.branch
    arrived = _list_arrivals(vault, before, brought) if goes_on or is_rebased else {}
    if goes_on or is_rebased:
        review_commits(vault, before, brought)
    if before and not goes_on:  # What is checked out has a history of its own.
        brought = find_brought(history, head.commit, "")
    with vault.state.transaction():
        if not goes_on:
            vault.state.put("name", next(iter(vault.store.find_names()), ""))
        vault.manifest.put_commit_dates(date_brought(brought), is_anew=not goes_on)
        vault.state.put("head", head.commit)
        vault.state.put("branch", head.branch)
        vault.state.put("head_time", str(history.commit_time(head.commit)))
        add_waiting(vault.state, arrived)


def _list_arrivals(vault: Vault, since: str, brought: Sequence[Brought]) -> dict[str, str]:
    """Return, by path, who sent the notes that commits not made here have brought, newest first.

    The index must have what is on disk, and know no more commits than those up to `since`. What
    this vaultmem committed is known by its bytes, and so is what a rebase only moved.
    """
    notes = [each for each in brought if each.blob and is_note_name(each.path)]
    fresh = [each for each in notes if not vault.manifest.is_committed(each.path, each.blob)]
    files = vault.manifest.files(list({each.path for each in fresh}))
    now = {each.path for each in fresh if (file := files.get(each.path)) and file.blob == each.blob}
    made_here = _find_made_here(vault, since) if now else set()
    sent: dict[str, list[str]] = {}
    for each in fresh:
        if each.path in now and each.commit not in made_here:
            sent.setdefault(each.path, []).append(each.commit)
    return _name_senders(vault, sent) if sent else {}


def _find_made_here(vault: Vault, since: str) -> set[str]:
    """Return the commits that somebody made here by plain git: no remote has them."""
    span = ("--first-parent", "--no-merges", "HEAD", f"^{since}", "--not", "--remotes", "--")
    return set(vault.history.git.run("rev-list", *span, check=False).split())


def _name_senders(vault: Vault, sent: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return who wrote the last of these commits, but for the one that merged them."""
    from vaultmem.storage.git.log import read_commits

    try:
        commits = read_commits(vault.history, {each for path in sent for each in sent[path]})
    except VaultError:
        return dict.fromkeys(sent, "")
    return {path: _name_sender([commits[c] for c in sent[path] if c in commits]) for path in sent}


def _name_sender(commits: Sequence[Commit]) -> str:
    written = [each for each in commits if len(each.parents) < 2]
    return next((each.who for each in [*written, *commits]), "")
