"""Removes what a killed git left in a hub's repositories: locks, which would keep others out."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.repositories import list_repositories
from vaultmem.storage.atomic import drop_file
from vaultmem.storage.git.locks import PATIENCE, Place, find_locks, is_git_at_work

#: Seconds between two looks, or as many times as long as one takes, if that is more.
_PAUSE, _REST = 10.0, 100

#: What a push brings, while it is checked.
_INCOMING = "objects/*incoming-*"


class Sweeper:
    """Looks from time to time, in a thread of its own, until it is stopped."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            begun = time.monotonic()
            for repository in list_repositories(self._hub).values():
                sweep(repository, time.time())
            if self._ended.wait(max(_PAUSE, _REST * (time.monotonic() - begun))):
                return


def sweep(repository: Path, now: float) -> None:
    """Remove locks and half pushes of gits that are gone; of one that works, nothing is."""
    left = [file for file, age in find_locks(repository, now).items() if age > PATIENCE]
    incoming = [each for each in repository.glob(_INCOMING) if _age_of(each, now) > PATIENCE]
    if not (left or incoming) or is_git_at_work(Place(repository, repository)):
        return
    for file in left:
        drop_file(file)
    for folder in incoming:
        shutil.rmtree(folder, ignore_errors=True)


def _age_of(folder: Path, now: float) -> float:
    try:
        return now - folder.lstat().st_mtime
    except OSError:
        return 0.0
