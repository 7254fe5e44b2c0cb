"""Reads a vault's `.obsidian` folder; what was read is kept until one of its files changes."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path, PurePosixPath

from vaultmem.core.obsidian.settings import FOLDER, READERS, ObsidianSettings, parse_settings
from vaultmem.core.paths import TEMPLATES, is_template_folder
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.files import UnsafeFileError, read_file

_NONE = ObsidianSettings()

_Seen = tuple[tuple[int, ...] | None, ...]


class ObsidianFolder:
    """The settings of one vault, read again when a file of them is another one.

    It is the folder on disk that counts, for views of commits too: the settings say how the owner
    sees the vault now, and are seldom committed. No link is followed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: _Seen | None = None
        self._settings = _NONE

    def read(self) -> ObsidianSettings:
        """Return the settings as they are now; what cannot be read is named in `problems`."""
        folder = f"{self._root}/{FOLDER}"
        if (there := _look_at(folder)) is None:
            return _NONE
        seen = (there[:2], *(_look_at(f"{folder}/{name}") for name in READERS))
        if seen != self._seen:
            self._settings = self._read()
            self._seen = seen
        return self._settings

    def _read(self) -> ObsidianSettings:
        if not stat.S_ISDIR(os.lstat(self._root / FOLDER).st_mode):
            return _NONE._replace(problems=(f"{FOLDER}: not a folder; links are never followed",))
        files: dict[str, bytes] = {}
        problems: list[str] = []
        for name in READERS:
            try:
                files[name] = read_file(self._root, PurePosixPath(FOLDER, name))
            except NoteNotFoundError:
                continue
            except UnsafeFileError as error:
                problems.append(str(error))
            except OSError as error:
                problems.append(f"{FOLDER}/{name}: cannot be read ({error.strerror})")
        return parse_settings(files, problems)


def read_obsidian(root: Path) -> ObsidianSettings:
    """Return what a vault's `.obsidian` says, read once; the defaults where there is none."""
    return ObsidianFolder(root).read()


def find_template_folder(root: Path, settings: ObsidianSettings) -> str:
    """Return the folder of a vault where its templates are, or are to be: a path in it.

    It is Obsidian's, else Templater's, else the one at the root that is called so, else
    `templates`.
    """
    if settings.template_folders:
        return settings.template_folders[0]
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        folders = (each.name for each in entries if each.is_dir(follow_symlinks=False))
        return min(filter(is_template_folder, folders), default=TEMPLATES)
    return TEMPLATES


def _look_at(path: str) -> tuple[int, ...] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
