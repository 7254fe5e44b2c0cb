"""A whole vault as one archive: its members, and the manifest that says what each must be."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import RefusedError

FORMAT = 1

#: The first member; all others follow by name.
MANIFEST = "manifest.json"
FILES = "vault/"
HISTORY = "history.bundle"
RECEIPTS = "kept/receipts/"
ARTIFACTS = "kept/artifacts/"
SESSIONS = "kept/sessions/"
STATE = "kept/state.jsonl"
TRUST = "kept/trust.json"

#: Members, and bytes of the manifest, of an archive that is read.
MAX_MEMBERS = 1_000_000
MAX_MANIFEST = 256 * 1024 * 1024

_SINGLE = frozenset({HISTORY, STATE, TRUST})
_KEPT = re.compile(
    rf"(?:{RECEIPTS}[0-9A-Za-z-]{{1,64}}\.json|{ARTIFACTS}[0-9a-f]{{64}}\.md"
    rf"|{SESSIONS}[0-9a-f]{{32}}\.json)"
)
_COMMIT = re.compile(r"(?:[0-9a-f]{40})?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Member(NamedTuple):
    """A file by its size and the SHA-256 digest of its bytes; or a `link` by what it holds.

    `at` is when it was last changed, in nanoseconds since the epoch.
    """

    bytes: int
    sha256: str
    at: int = 0
    executable: bool = False
    link: str = ""


class ArchiveManifest(NamedTuple):
    """What an archive is of: the vault's name, its `folder` in the repository ("" or with a "/").

    `vaultmem` is the version that made it, `made` when (ISO 8601). `branch` and `commit` are what
    was checked out; both are empty where there is no git.
    """

    vaultmem: str
    made: str
    name: str
    folder: str
    branch: str
    commit: str
    notes: int
    commits: int
    members: Mapping[str, Member]

    @property
    def size(self) -> int:
        """The bytes of all members together."""
        return sum(each.bytes for each in self.members.values())

    def count(self, beginning: str) -> int:
        """Return how many members' names begin like this."""
        return sum(name.startswith(beginning) for name in self.members)


def format_manifest(manifest: ArchiveManifest) -> bytes:
    """Return a manifest as a file: JSON, members by name."""
    members = {
        name: {key: value for key, value in member._asdict().items() if value or key == "bytes"}
        for name, member in sorted(manifest.members.items())
    }
    content = {"format": FORMAT, **manifest._asdict(), "members": members}
    return json.dumps(content, indent=1).encode() + b"\n"


def parse_manifest(data: bytes) -> ArchiveManifest:
    """Return what a manifest says, all of it checked.

    Raises:
        RefusedError: it is of a newer format, damaged, or names what no archive may have.
    """
    try:
        content = json.loads(data)
        number = int(content["format"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError(f"its {MANIFEST} cannot be read") from None
    if number != FORMAT:
        raise RefusedError(
            f"it is of format {number}, made by vaultmem {_text(content, 'vaultmem')}, and this "
            f"one reads format {FORMAT}; install that version or a newer one"
        )
    try:
        members = {str(name): _parse_member(value) for name, value in content["members"].items()}
        manifest = ArchiveManifest(
            vaultmem=_text(content, "vaultmem"),
            made=_text(content, "made"),
            name=_text(content, "name"),
            folder=_text(content, "folder"),
            branch=_text(content, "branch"),
            commit=_text(content, "commit"),
            notes=int(content["notes"]),
            commits=int(content["commits"]),
            members=members,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RefusedError(f"its {MANIFEST} is damaged") from None
    _check(manifest)
    return manifest


def _text(content: Mapping[str, Any], key: str) -> str:
    return str(content.get(key, ""))


def _parse_member(value: Mapping[str, Any]) -> Member:
    found = Member(
        int(value["bytes"]),
        str(value.get("sha256", "")),
        int(value.get("at", 0)),
        bool(value.get("executable")),
        str(value.get("link", "")),
    )
    is_file = found.bytes >= 0 and _DIGEST.fullmatch(found.sha256)
    if not (is_file if not found.link else found.bytes == 0) or not 0 <= found.at < 2**63:
        raise ValueError
    return found


def _check(manifest: ArchiveManifest) -> None:
    """Refuse names that lead elsewhere than into the vault, and more than can be looked at."""
    if len(manifest.members) > MAX_MEMBERS:
        raise RefusedError(f"it has {len(manifest.members):,} members; {MAX_MEMBERS:,} are allowed")
    if not _COMMIT.fullmatch(manifest.commit) or (
        manifest.folder and not is_safe(manifest.folder.removesuffix("/"))
    ):
        raise RefusedError(f"its {MANIFEST} is damaged")
    links = {name for name, member in manifest.members.items() if member.link}
    for name, member in manifest.members.items():
        path = name.removeprefix(FILES)
        known = is_safe(path) if name.startswith(FILES) else is_kept(name)
        if not known or (name in links and not stays_inside(path, member.link)):
            raise RefusedError(f"{name!r} leads out of the vault, or is nothing that belongs to it")
        if links and any(f"{FILES}{above}" in links for above in _parents(path)):
            raise RefusedError(f"{name!r} is reached through a link")


def is_kept(name: str) -> bool:
    """Tell whether a member that is no file of the vault has a name that is known."""
    return name in _SINGLE or _KEPT.fullmatch(name) is not None


def is_safe(path: str) -> bool:
    """Tell whether a path is one inside a vault, written in the one way, and not in git's own."""
    try:
        parse_note_path(path)
    except RefusedError:
        return False
    return posixpath.normpath(path) == path and "\\" not in path


def stays_inside(path: str, target: str) -> bool:
    """Tell whether a link at a path of the vault leads to another path of it."""
    if not target or "\\" in target or posixpath.isabs(target):
        return False
    led = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return led == "." or is_safe(led)


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
