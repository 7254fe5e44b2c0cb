"""Open a view of a branch, a tag, a commit or a date, or of several at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vaultmem.config import CONFIG_NAME, Config, parse_config
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.views.read_index import Batch, Progress, is_index_stale
from vaultmem.services.views.update_index import read_note_rules, update_index_nonblocking
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.head import find_git_folder, read_branch
from vaultmem.storage.git.introduced import date_brought, find_brought
from vaultmem.storage.git.repository import find_checkout
from vaultmem.storage.views import ViewRow, ViewSource
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.views.invalid_notes import EffectiveVersion
    from vaultmem.storage.git.refs import RefTarget

#: Documents per batch read from git; the most that an interruption loses.
_BATCH_SIZE = 5_000

#: Seconds to wait for other writers: an unindexed view cannot be read.
_WRITER_WAIT_SECONDS = 20.0


def view_at(
    vault: Vault,
    at: str = "",
    include: Sequence[str] = (),
    progress: Progress | None = None,
    patience: float = _WRITER_WAIT_SECONDS,
) -> Vault:
    """Return the vault at `at`, or at its own ref, or in the folder.

    `at` is a branch, tag, commit or date, always as committed. `include` names refs to view
    together with it. A new view is indexed, and a missing or damaged index is built first. If
    indexing is needed, other writers are waited for up to `patience` seconds.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: a ref's name is unsafe or ambiguous.
        LockTimeoutError: another process writes for longer.
    """
    targets = [_find_target(vault, at), *(vault.history.refs.resolve(name) for name in include)]
    if targets[0] is None:  # The folder contains its branch and uncommitted changes.
        branch = vault.history.head().branch
        targets = [None, *(t for t in targets[1:] if t is None or t.branch != (branch or None))]
    distinct = [t for n, t in enumerate(targets) if t not in targets[:n]]
    if distinct == [None]:
        return vault
    if is_index_stale(vault):
        update_index_nonblocking(vault)
    config = vault.config if distinct[0] is None else config_at(vault, distinct[0].commit)
    sources = [
        _work_tree(vault) if t is None else _view_commit(vault, t, progress, patience)
        for t in distinct
    ]
    return replace(vault, view=vault.view.at(sources), config=config)


def current_view(vault: Vault) -> Vault:
    """Return the vault at its ref's present commit, which moves with each write.

    A folder, or a fixed point in history, is returned unchanged.

    Raises:
        NoteNotFoundError: there is no such branch.
    """
    if not vault.ref:
        return vault
    if vault.view.sources:
        source, repository = vault.view.sources[0], find_git_folder(vault.root)
        if not source.branch or (
            repository and read_branch(repository[1], source.branch) == source.commit
        ):
            return vault
    return view_at(vault)


def at_ref(vault: Vault, ref: str) -> Vault:
    """Return the same vault, with shared storage, on a branch ("" for the folder)."""
    if vault.ref == ref and not vault.view.sources:
        return vault
    return replace(vault, ref=ref, view=vault.view.at(()))


def get_branch_name(vault: Vault) -> str:
    """Return the branch that the vault works on, checked out or not; "" without one."""
    if vault.view.sources:
        return vault.view.sources[0].branch
    if vault.ref:
        return escape_bytes(vault.history.refs.resolve(vault.ref).branch)
    head = vault.head()
    return escape_bytes(head.branch) if head else ""


def find_branch(vault: Vault) -> str:
    """Return the branch of the vault's ref if it is not checked out; otherwise "".

    Raises:
        NoteNotFoundError: there is no such branch.
        RefusedError: the ref is a tag, a commit or a date, which cannot be written. Or the branch
            is checked out in another folder, which would fall out of step.
    """
    if not vault.ref:
        return ""
    history = vault.history
    target = history.refs.resolve(vault.ref)
    if not target.branch:
        raise RefusedError(
            f"{vault.ref}: not a branch, so nothing can be written there; "
            f"`vaultmem branch NAME --from {vault.ref}` makes one of it"
        )
    if target.branch == history.head().branch:
        return ""
    if folder := find_checkout(history.git_folder, f"refs/heads/{target.branch}"):
        raise RefusedError(
            f"{target.branch}: checked out in {folder}; write there, or switch it away"
        )
    return target.branch


def config_at(vault: Vault, commit: str) -> Config:
    """Return the vault's settings, with a commit's settings for reading."""
    try:
        name = f"{commit}:{vault.history.prefix}{CONFIG_NAME}"
        commit_config = parse_config(vault.history.objects.read(name)[1].decode("utf-8-sig"))
    except NoteNotFoundError:
        commit_config = Config()
    except (VaultError, UnicodeDecodeError):
        return vault.config
    names = (
        "budget",
        "pinned_share",
        "preference_share",
        "recall_limit",
        "recency_weight",
        "ignore",
    )
    return vault.config._replace(**{name: getattr(commit_config, name) for name in names})


def _find_target(vault: Vault, at: str) -> RefTarget | None:
    """Return the commit to view, None for the work tree."""
    if not at and not vault.ref:
        return None
    refs = vault.history.refs
    if not vault.ref:
        return refs.resolve(at)
    own = refs.resolve(vault.ref)
    if at:
        return refs.resolve(at, within=own.commit)
    return None if own.branch and own.branch == vault.history.head().branch else own


def _work_tree(vault: Vault) -> ViewSource:
    head = vault.history.head()
    at = vault.state.get("head_time") if vault.state.get("head") == head.commit else "0"
    branch = escape_bytes(head.branch)
    return ViewSource(branch or "work tree", branch, head.commit, int(at or 0))


def _view_commit(
    vault: Vault, target: RefTarget, progress: Progress | None, patience: float
) -> ViewSource:
    """Return a commit's view; its new notes are read and indexed."""
    config = config_at(vault, target.commit)
    rules = "\n".join((*config.ignore, *config.generated, read_note_rules(vault).key))
    ignored = hashlib.sha256(rules.encode()).hexdigest()[:16]
    key = f"{target.commit} {ignored}"
    number = vault.manifest.find_view(key)
    if number is None:
        with vault.lock_caches(patience):  # Another process might have made it.
            number = vault.manifest.find_view(key)
            if number is None:
                rows = _read_commit(vault, target, config, ignored, progress)
                with vault.state.transaction():
                    number = vault.manifest.add_view(key, rows)
    name, branch = escape_bytes(target.name), escape_bytes(target.branch)
    return ViewSource(name, branch, target.commit, target.at, number)


def _read_commit(
    vault: Vault, target: RefTarget, config: Config, ignored: str, progress: Progress | None
) -> list[ViewRow]:
    """Return the rows of a commit's view, with the time each note was last committed."""
    blobs = _list_notes(vault, target.commit, config)
    results = _index_unseen(vault, target.commit, blobs, progress)
    # Git is asked only for commits since the nearest ancestor that has a view.
    view_numbers = {
        key.partition(" ")[0]: n for key, n in vault.manifest.view_keys(ignored).items()
    }
    start = vault.history.refs.nearest(target.commit, view_numbers.keys()) if view_numbers else ""
    new_dates = date_brought(find_brought(vault.history, target.commit, start))
    old_dates = vault.manifest.view_dates(view_numbers[start]) if start else {}
    rows = []
    for path, (document, problem) in results.items():
        if document is not None:
            dates = (new_dates.get((path, blobs[path]), 0), old_dates.get(document, 0))
            rows.append(ViewRow(path, document, max(dates) or target.at, problem))
    return rows


def _list_notes(vault: Vault, commit: str, config: Config) -> dict[str, str]:
    """Return path and blob of the files that a scan of the checked-out commit would read."""
    rules = read_note_rules(vault)._replace(config=config)
    return {
        path: entry.blob
        for path, entry in vault.history.tree(commit).items()
        if is_note_name(path) and not rules.why_not(path)
    }


def _index_unseen(
    vault: Vault, commit: str, blobs: Mapping[str, str], progress: Progress | None
) -> dict[str, EffectiveVersion]:
    """Return the document for each path of a commit; unknown notes are read first."""
    from vaultmem.services.views.invalid_notes import EffectiveVersion

    documents = vault.manifest.list_readable()
    places = blobs.items()
    results = {
        path: EffectiveVersion(documents[path, b], "")
        for path, b in places
        if (path, b) in documents
    }
    new_paths = [path for path in blobs if path not in results]
    for start in range(0, len(new_paths), _BATCH_SIZE):
        paths = new_paths[start : start + _BATCH_SIZE]
        results |= _index_some(vault, commit, {path: blobs[path] for path in paths})
        if progress is not None:
            progress(start + len(paths), len(new_paths))
    return results


def _index_some(vault: Vault, commit: str, blobs: Mapping[str, str]) -> dict[str, EffectiveVersion]:
    """Read notes of a commit and index them; return the document for each path."""
    from vaultmem.services.views.chunk import ReadJob, read_notes
    from vaultmem.services.views.invalid_notes import EffectiveVersion, settle

    contents = vault.history.objects.read_all(blobs.values())
    jobs = [
        ReadJob(path, size=len(data), data=data)
        for path, (_, data) in zip(blobs, contents, strict=True)
        if len(data) <= MAX_FILE_BYTES
    ]
    results: dict[str, EffectiveVersion] = {}
    batch = Batch(vault)
    with vault.state.transaction():
        for group, chunk in read_notes(vault.root, jobs):
            pairs = zip(group, batch.add(group, chunk), strict=True)
            results |= {job.path: EffectiveVersion(number, "") for job, number in pairs}
            results |= settle(vault, commit, batch, group, chunk, {})
        vault.state.put("index", "")
    batch.write()
    return results
