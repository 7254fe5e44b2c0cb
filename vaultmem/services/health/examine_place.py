"""Check where the vault lives: its derived state, what writes left behind, and the machine."""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePosixPath

from vaultmem.core.check import Check, Verdict
from vaultmem.errors import VaultError
from vaultmem.services.indexing import is_index_behind
from vaultmem.storage.files import find_temporaries, read_file
from vaultmem.storage.git.health import find_future_commits
from vaultmem.storage.passed_over import count_folders, list_folders
from vaultmem.storage.state_health import find_damage
from vaultmem.vault import Vault

_LIMIT_FILE = Path("/proc/sys/fs/inotify/max_user_watches")

#: Seconds after which nobody is still writing a temporary file.
_OLD = 3_600.0


def check_state(vault: Vault) -> Check:
    """Tell whether index and database are whole and belong together."""
    broken = find_damage(vault.state)
    lost = vault.manifest.documents() - vault.index.documents()
    if broken or lost or is_index_behind(vault):
        told = broken or "the index is behind the notes"
        remedy = "run `vaultmem sync`; it builds both again"
        return Check("index", Verdict.PROBLEM, told, remedy=remedy)
    damaged = tuple(str(file) for file in sorted(vault.state_folder.glob("*.damaged")))
    if not damaged:
        return Check("index", told="in sync")
    told = "it was damaged, and was built again"
    return Check("index", Verdict.WARNING, told, damaged, "remove what was set aside")


def check_temporaries(vault: Vault, fix: bool, now: float) -> Check:
    """Find what interrupted writes left behind; with `fix` remove what exists elsewhere too."""
    with vault.lock() if fix else contextlib.nullcontext():
        left = _find_temporaries(vault)
        fixed = []
        for file in list(left) if fix else []:
            if _is_old(file, now) and _is_held_elsewhere(vault, file):
                file.unlink()
                left.remove(file)
                fixed.append(f"{file.relative_to(vault.root)} is removed")
    if not left:
        return Check("interrupted writes", fixed=tuple(fixed))
    told = f"interrupted writes left {len(left):,} files"
    remedy = (
        "look into them, and remove what is not needed"
        if fix
        else "`vaultmem doctor --fix` removes those whose text is safe elsewhere"
    )
    paths = tuple(str(file.relative_to(vault.root)) for file in left)
    return Check("interrupted writes", Verdict.WARNING, told, paths, remedy, tuple(fixed))


def check_watch_limit(vault: Vault) -> Check:
    """Tell whether the system can watch as many folders as there are (Linux)."""
    try:
        limit = int(_LIMIT_FILE.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("watch limit")
    folders = count_folders(vault.root, limit + 1)
    if folders <= limit:
        return Check("watch limit", told=f"{folders:,} of {limit:,} folders")
    told = f"there are more folders than the {limit:,} that may be watched: `watch` polls"
    remedy = f"raise it: `sudo sysctl fs.inotify.max_user_watches={max(524_288, 2 * limit)}`"
    return Check("watch limit", Verdict.WARNING, told, remedy=remedy)


def check_clock(vault: Vault, now: float) -> Check:
    """Name files and commits from the future."""
    late = (now + 60) * 1e9
    stats = vault.manifest.stats()
    found = [path for path, (_, modified, _, _) in sorted(stats.items()) if modified > late]
    head = vault.head()
    if head is not None:
        commits = find_future_commits(vault.history, head.commit, now)
        found += [f"commit {commit[:7]}" for commit in commits]
    if not found:
        return Check("clock")
    told = f"{len(found):,} files or commits are from the future"
    remedy = "set the clock; `touch` the files: until then they count as the newest"
    return Check("clock", Verdict.WARNING, told, tuple(found), remedy)


def _find_temporaries(vault: Vault) -> list[Path]:
    folders = list_folders(vault.root)
    found = (find_temporaries(vault.root, PurePosixPath(folder)) for folder in folders)
    return sorted(file for files in found for file in files)


def _is_old(file: Path, now: float) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    # A note that is being removed is renamed, and keeps the time of its last change.
    return now - max(status.st_mtime, status.st_ctime) > _OLD


def _is_held_elsewhere(vault: Vault, file: Path) -> bool:
    """Tell whether a file's bytes are, or begin, a note beside it, on disk or in HEAD."""
    try:
        data = read_file(vault.root, PurePosixPath(file.relative_to(vault.root).as_posix()))
    except VaultError:
        return False
    return not data or any(each.startswith(data) for each in _read_beside(vault, file))


def _read_beside(vault: Vault, file: Path) -> list[bytes]:
    """Return the bytes of what is indexed or committed in a file's folder."""
    folder = file.parent.relative_to(vault.root)

    def is_beside(path: str) -> bool:
        return PurePosixPath(path).parent == PurePosixPath(folder.as_posix())

    found = []
    for path in filter(is_beside, vault.manifest.blobs()):
        with contextlib.suppress(VaultError):
            found.append(read_file(vault.root, PurePosixPath(path)))
    head = vault.head()
    if head is not None and head.commit:
        entries = vault.history.tree(head.commit)
        blobs = [entry.blob for path, entry in entries.items() if is_beside(path)]
        found += [data for _, data in vault.history.objects.read_all(blobs)]
    return found
