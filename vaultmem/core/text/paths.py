"""Paths inside a vault: parse them, create them, and check that they are portable."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import accumulate, chain
from pathlib import PurePosixPath

from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import RefusedError

#: Notes that are pinned by their name, in the order in which a pack shows them.
PINNED_FILES = ("MEMORY.md", "USER.md", "AGENTS.md", "SOUL.md")

#: The heading in MEMORY.md for lessons from sessions.
LEARNED = "Learned"

#: The diary of consolidations quotes earlier notes: not evidence, and its links can break.
DREAMS = PurePosixPath("DREAMS.md")

#: The folder of session transcripts.
TRANSCRIPTS = "transcripts"

#: The folders at the root that vaultmem writes notes into.
OWN_FOLDERS = ("notes/", "primed/", "sessions/", "tasks/")

#: The default folder of note templates.
TEMPLATES = "templates"

#: The endings of note names; canvases are read-only.
NOTE_ENDINGS = (".md", ".canvas")

#: Folders at the vault's root whose files are never notes; see also `is_template_folder`.
NOT_NOTES = frozenset({TEMPLATES, TRANSCRIPTS, "media"})

# The name can begin with marks and numbers: `_templates`, `99 - Template`.
_TEMPLATES = compile_later(r"[\W\d_]*templates?", re.IGNORECASE)

#: Files at the vault's root that vaultmem generates.
GENERATED = frozenset({"CONTEXT.md"})

# Windows and Obsidian forbid these characters; also control and direction characters.
_FORBIDDEN = compile_later(
    r'[\x00-\x1f\x7f-\x9f<>:"|?*\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]'
)
#: Device names, and short names (`VAULTM~1.YAM`) that NTFS gives to other files; never a note.
_RESERVED = compile_later(
    r"(?i)^((con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?"
    r"|[^.~]{1,6}~\d{1,6}(\.(?!md$)[^.]{0,3})?)$"
)
_TEMPORARY = ("~", ".tmp", ".swp", ".swx", ".part", ".crdownload")
MAX_NAME_BYTES = 200

# Names of conflict copies by Syncthing, Dropbox, Obsidian Sync and vaultmem.
_CONFLICT_COPY = compile_later(
    r"(?i)\.sync-conflict-\d{8}-\d{6}|\([^()]*conflicted copy[^()]*\)"
    r"|\.conflict-\d{8}T\d{6}-[0-9a-f]{4}\b"
)


def parse_note_path(text: str) -> PurePosixPath:
    """Return `text` as the vault-relative path of a note, new or existing.

    Raises:
        RefusedError: empty, absolute, not UTF-8, leaves the vault, enters `.git`, or has a NUL.
    """
    if not is_text(text):
        raise RefusedError(f'"{escape_bytes(text)}" is not UTF-8; rename it to have it as a note')
    if not text.strip() or "\0" in text:
        raise RefusedError(f"{text!r} is not a path; name a note relative to the vault")
    path = PurePosixPath(text)
    if path.is_absolute() or text.startswith("\\") or re.match(r"^[A-Za-z]:[\\/]", text):
        raise RefusedError(f'"{text}" is absolute; name the note relative to the vault')
    for part in re.split(r"[\\/]", text):
        if part == "..":
            raise RefusedError(f'"{text}" leaves the vault; name a note inside it')
        if fold_as_disks_do(part) in {".git", "git~1"}:
            raise RefusedError(f'"{text}" is inside git\'s own folder; name a note')
    return path


def fold_as_disks_do(name: str) -> str:
    """Return a name as HFS+ and NTFS compare it: no case, invisible marks, streams, final dots."""
    visible = "".join(mark for mark in name if unicodedata.category(mark) != "Cf")
    folded = " ".join(unicodedata.normalize("NFKC", visible).casefold().split())
    return folded.partition(":")[0].rstrip(". ")


def check_new_name(path: PurePosixPath) -> None:
    """Check that every system and Obsidian can store a new note of this name.

    Raises:
        RefusedError: a part of the name is forbidden; the error gives the part and the reason.
    """
    for part in path.parts:
        if match := _FORBIDDEN.search(part):
            raise RefusedError(f"{path!s}: {match.group()!r} is not allowed in a note's name")
        if _RESERVED.match(part):
            raise RefusedError(f'{path}: "{part}" is a reserved name on Windows; choose another')
        if part != part.rstrip(". ") or part != part.lstrip():
            raise RefusedError(f'{path}: "{part}" starts or ends with a space or dot; drop it')
        if is_hidden(part):
            raise RefusedError(
                f'{path}: "{part}" is a hidden name; choose one that does not begin with ".", "~" '
                'or "#" or end like a temporary file'
            )
        if len(part.encode()) > MAX_NAME_BYTES:
            raise RefusedError(f"{path}: a name may be {MAX_NAME_BYTES} bytes long at most")
    if not is_note_path(path):
        raise RefusedError(f"{path}: not a place for a note; use notes/<context>/<name>.md")


def is_note_path(path: PurePosixPath) -> bool:
    """Return whether a path is a note: markdown or canvas, not hidden, generated or a template."""
    return bool(path.stem) and is_note_name(str(path))


def is_note_name(path: str) -> bool:
    """Return whether a vault-relative path is a note's, like `is_note_path`; faster for many."""
    if not path.lower().endswith(NOTE_ENDINGS) or not is_text(path):
        return False
    parts = path.split("/")
    if parts[0] in NOT_NOTES or path in GENERATED or any(map(is_hidden, parts)):
        return False
    return len(parts) == 1 or not is_template_folder(parts[0])


def is_template_folder(name: str) -> bool:
    """Return whether a folder at the root has a template folder's name, such as `_templates`.

    Deeper folders can be about templates, so only Obsidian's settings mark those.
    """
    return bool(_TEMPLATES.fullmatch(name))


def is_forbidden(mark: str) -> bool:
    """Return whether a character must not be in names on some system or in Obsidian."""
    return bool(_FORBIDDEN.match(mark)) or unicodedata.category(mark) in {"Cc", "Cn", "Co", "Cs"}


def is_reserved(name: str) -> bool:
    """Return whether Windows reserves a name."""
    return bool(_RESERVED.match(name))


def is_text(path: str) -> bool:
    """Return whether a name is valid text; bytes that are not UTF-8 are lone surrogates.

    Git and file systems allow any bytes. Files with invalid names can be moved, but they are not
    notes and are not indexed.
    """
    return path.isascii() or path == path.encode("utf-8", "replace").decode()


def is_hidden(name: str) -> bool:
    """Return whether a file or folder name is hidden or an editor's temporary file."""
    return name[0] in ".~#" or name.lower().endswith(_TEMPORARY) or name == "4913"


def is_conflict_copy(name: str) -> bool:
    """Return whether a file name is that of a conflict copy by a sync program or vaultmem."""
    return bool(_CONFLICT_COPY.search(name))


def fold(text: str) -> str:
    """Return the text without case, in NFC: names that links cannot distinguish are equal."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def fold_name(path: PurePosixPath) -> str:
    """Return a path without case, in NFC: twins have the same result."""
    return fold(str(path))


def find_twins(paths: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of paths that differ only in case or in Unicode form (NFC, NFD)."""
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(fold(path), []).append(path)
    return sorted(tuple(sorted(each)) for each in by_name.values() if len(each) > 1)


def slugify(text: str) -> str:
    """Return a file stem for a title: lower-case words joined by hyphens, at most 60 characters."""
    plain = unicodedata.normalize("NFC", text).lower()
    words = re.findall(r"[^\W_]+", plain)
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer) > 60 or len(longer.encode()) > 150:
            break
        slug = longer
    slug = slug or "".join(words)[:40] or "note"
    return f"{slug}-note" if _RESERVED.match(slug) else slug


def note_context(path: PurePosixPath) -> str:
    """Return a note's context from its folder: `notes/auth/x.md` gives "auth"."""
    parents = path.parts[:-1]
    if parents and parents[0] in {"notes", "primed"}:
        parents = parents[1:]
    return "/".join(parents)


# Paths in commits from anywhere: dangerous for a clone, or impossible on some systems.
#
# Git allows nearly any bytes in names, also some that its commands reject.

#: The longest portable path in bytes; Windows allows 260 characters, with the folder around it.
MAX_PATH_BYTES = 400

#: The longest path on Linux, in bytes; macOS allows a fourth of it.
_LONGEST_PATH = 4_000

#: A short name that NTFS might give to a git file.
_NTFS_SHORT_NAME = compile_later(r"(?i)git.*~\d+")

_DRIVE = compile_later(r"[A-Za-z]:")


def find_danger(path: str) -> str:
    """Return why a path must not be in any commit, or "" if it is safe.

    Dangerous paths leave the clone's folder, or are inside git's own folder on some disk.
    """
    if "\\" in path:
        return "has a backslash, which divides folders on Windows"
    if _DRIVE.match(path):
        return "names a drive"
    if len(path) > _LONGEST_PATH:
        return "is longer than any system can hold"
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            return "leaves the vault, or is absolute"
        folded = fold_as_disks_do(part)
        if folded == ".git" or _NTFS_SHORT_NAME.fullmatch(folded):
            return "is inside git's own folder, on some disk"
    return ""


def find_hindrance(path: str) -> str:
    """Return why some systems cannot store a file at this path, or "" if all can."""
    if not is_text(path):
        return "is not UTF-8"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    for part in path.split("/"):
        if odd := next(filter(is_forbidden, part), ""):
            return f"has {odd!a}, which not every system can hold"
        if is_reserved(part):
            return "has a name that Windows keeps for itself"
        if part != part.rstrip(". ") or part != part.lstrip():
            return "has a name that begins with a space, or ends with a space or a dot"
        if len(part.encode()) > MAX_NAME_BYTES:
            return f"has a name longer than {MAX_NAME_BYTES} bytes"
    return ""


def is_owners(path: str) -> bool:
    """Return whether a file configures a vault: `vaultmem.yaml` in any folder, and hidden files.

    A settings file in a folder makes that folder a vault.
    """
    parts = path.split("/")
    return fold_as_disks_do(parts[-1]) == "vaultmem.yaml" or any(map(_is_hidden, parts))


def _is_hidden(name: str) -> bool:
    return next((mark for mark in name if unicodedata.category(mark) != "Cf"), "") == "."


def find_new_twins(added: Iterable[str], siblings: Iterable[str]) -> list[tuple[str, str]]:
    """Return the added paths that some disks cannot distinguish from another, each with its twin.

    `siblings` are all files and folders in the folders on the way to the added paths.
    """
    spellings: dict[str, set[str]] = {}
    ways = {path: list(accumulate(path.split("/"), "{}/{}".format)) for path in added}
    for path in (*siblings, *chain.from_iterable(ways.values())):
        spellings.setdefault(fold(path), set()).add(path)
    pairs = []
    for path, way in sorted(ways.items()):
        twins = (other for whole in way for other in spellings[fold(whole)] - {whole})
        if twin := next(twins, ""):
            pairs.append((path, twin))
    return pairs
