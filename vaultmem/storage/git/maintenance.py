"""Maintain a repository: pack objects, check its health, write bundles.

Vaultmem's commits leave each object in its own file, and git's automatic maintenance is off for
them. So git is asked at times to run those maintenance tasks that only rewrite, never `gc`.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.text.paths import is_conflict_copy
from vaultmem.errors import RefusedError, SystemFailureError, VaultError
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.runner import find_complaint
from vaultmem.storage.git.setup import is_own_driver
from vaultmem.storage.git.vault_history import VaultHistory

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner


#: More loose objects than this are worth packing.
MAX_LOOSE_OBJECTS = 1_000

_COMMAND = (
    *("maintenance", "run", "--auto", "--quiet"),
    *("--task=loose-objects", "--task=incremental-repack"),
)


class ObjectCounts(NamedTuple):
    """The number of loose objects, and the size of all objects in bytes."""

    loose: int
    size: int


def measure_objects(git: GitRunner) -> ObjectCounts:
    """Return the number of loose objects and the size of all objects."""
    lines = (line.partition(": ") for line in git.run("count-objects", "-v").splitlines())
    counts = {name: int(value) for name, _, value in lines if value.isdigit()}
    return ObjectCounts(
        counts.get("count", 0), 1024 * (counts.get("size", 0) + counts.get("size-pack", 0))
    )


def may_tidy(git: GitRunner) -> bool:
    """Return whether the person allows automatic maintenance (`gc.auto`, `maintenance.auto`)."""
    return not (_is_off(git, "gc.auto", "int") or _is_off(git, "maintenance.auto", "bool"))


def tidy_up(git: GitRunner) -> str:
    """Let git pack its objects, and return a message with the result."""
    before = measure_objects(git)
    for _ in range(2):  # The second run removes loose objects that the first packed.
        git.run(*_COMMAND)
    after = measure_objects(git)
    packed_count = before.loose - after.loose
    return f"{packed_count:,} objects of git are packed: {_say(before)} became {_say(after)}"


def _say(objects: ObjectCounts) -> str:
    return f"{objects.size / 1024 / 1024:.1f} MB"


def _is_off(git: GitRunner, name: str, kind: str) -> bool:
    out = git.run("config", "--show-scope", f"--type={kind}", "--get-all", name, check=False)
    rows = (line.split("\t", 1) for line in out.splitlines())
    values = [value for scope, value in rows if scope != "command"]  # Skip vaultmem's own.
    return values[-1:] in (["0"], ["false"])


# Checks of a repository: missing settings, damage and wrong times.

#: The first git version that merges without a work tree (`git merge-tree --write-tree`).
MERGES_SINCE = (2, 38)

_MAX_CHECKED_COMMITS = 1_000


def is_git_installed() -> bool:
    """Return whether git is on the PATH."""
    return shutil.which("git") is not None


def read_git_version(history: VaultHistory) -> tuple[int, ...]:
    """Return git's version, such as (2, 39, 5); () if it is unknown."""
    match = re.search(r"\d+(\.\d+)+", history.git.run("version"))
    return tuple(map(int, match.group().split("."))) if match else ()


def find_driver_lack(history: VaultHistory) -> str:
    """Return why git would not merge notes with this vaultmem, "" if it would."""
    path = f"{history.prefix}notes/x.md"
    out = history.git.run("check-attr", "-z", "merge", "--", path)
    if out.split("\0")[2:3] != ["vaultmem"]:
        return "git merges notes line by line"
    driver = history.git.run("config", "--get", "merge.vaultmem.driver", check=False)
    if not driver:
        return "git is set to merge notes with vaultmem, but not how"
    return "" if is_own_driver(driver) else "git merges notes with another vaultmem or Python"


def find_future_commits(history: VaultHistory, commit: str, now: float) -> list[str]:
    """Return those of the last commits whose time is more than a minute after `now`."""
    if not commit:
        return []
    options = (f"--max-count={_MAX_CHECKED_COMMITS}", "--no-show-signature", "--format=%H %ct")
    out = history.git.run("log", "--no-ext-diff", "--no-textconv", *options, commit, "--")
    pairs = (line.split() for line in out.splitlines())
    return [name for name, at in pairs if int(at) > now + 60]


def find_copies_in_git(git_folder: Path) -> list[Path]:
    """Return conflict copies that a file sync service made among git's own files."""
    folder = common_folder(git_folder)
    files = (*folder.glob("*"), *(folder / "refs").rglob("*"))
    return sorted(file for file in files if is_conflict_copy(file.name))


def find_broken_objects(history: VaultHistory) -> list[str]:
    """Return git's lines on missing or broken objects of commits; file contents are not read.

    The cost is one walk through all commits and trees.
    """
    check = ("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
    try:
        history.git.run(*check)
    except VaultError as error:
        complaint = str(error).partition("failed: ")[2]
        lines = history.git.run(*check, check=False).splitlines()
        return [complaint, *lines] if not complaint.startswith("status") else lines or [complaint]
    return []


def find_committed(history: VaultHistory, commit: str, paths: list[str]) -> list[str]:
    """Return those of the files, or folders ending in `/`, that a commit contains."""
    if not commit:
        return []
    names = {f"{history.prefix}{path.rstrip('/')}": path for path in paths}
    out = history.git.run("ls-tree", "--name-only", "-z", "--full-tree", commit, "--", *names)
    return [names[name] for name in out.split("\0") if name in names]


# The unpacked size of a pack, counted before git unpacks it.
#
# Each entry of a pack states its size. Reading stops when the sum exceeds a limit, so a few bytes
# that unpack to gigabytes cost nothing. The format is git's `gitformat-pack`.

#: Types of entries that are deltas.
_OFS_DELTA, _REF_DELTA = 6, 7

#: Bytes of an entry that are read first and then at a time, and bytes decompressed at a time.
_FIRST_READ_BYTES, _NEXT_READ_BYTES, _MAX_INFLATED_BYTES = 4 * 1024, 256 * 1024, 1024 * 1024

#: Bytes that hold the two sizes at the start of a delta.
_SIZES = 20

_DAMAGED = "its pack is damaged"


class PackLimits(NamedTuple):
    """Limits of a pack: objects, their bytes, and the bytes of objects made from deltas."""

    objects: int
    size: int
    delta_size: int


class _DamagedPackError(Exception):
    """A damaged pack, which git would not unpack either."""


def find_excess(data: bytes | mmap, start: int, limits: PackLimits) -> str:
    """Return why the pack at `start` must not be unpacked, "" if it can be."""
    pack = memoryview(data)
    try:
        return _find_excess(pack, start, limits)
    except (IndexError, zlib.error, _DamagedPackError):
        return _DAMAGED
    finally:
        pack.release()


def _find_excess(pack: memoryview, start: int, limits: PackLimits) -> str:
    if len(pack) < start + 12 or bytes(pack[start : start + 4]) != b"PACK":
        return _DAMAGED
    count = int.from_bytes(pack[start + 8 : start + 12], "big")
    if count > limits.objects:
        return f"it has more than {limits.objects:,} objects"
    at, size, delta_size = start + 12, 0, 0
    for _ in range(count):
        kind, own, at = _read_head(pack, at)
        size += own
        if size > limits.size:
            return f"its objects hold more than {limits.size:,} bytes together"
        begin, at = _inflate(pack, at, own)
        if kind in (_OFS_DELTA, _REF_DELTA):
            _, after = _read_number(begin, 0)
            delta_size += _read_number(begin, after)[0]
            if delta_size > limits.delta_size:
                return f"its objects become more than {limits.delta_size:,} bytes"
    return ""


def _read_head(pack: memoryview, at: int) -> tuple[int, int, int]:
    """Return the type of an entry, its stated size, and the start of its compressed bytes."""
    first = pack[at]
    kind, size, shift, at = first >> 4 & 7, first & 15, 4, at + 1
    if first & 0x80:
        rest, at = _read_number(pack, at)
        size |= rest << shift
    if kind == _OFS_DELTA:
        while pack[at] & 0x80:
            at += 1
        at += 1
    return kind, size, at + 20 * (kind == _REF_DELTA)


def _read_number(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, lowest first, and the position after it."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at
        if shift > 63:
            raise _DamagedPackError


def _inflate(pack: memoryview, at: int, size: int) -> tuple[bytes, int]:
    """Return the first bytes of an entry, and the position after its compressed bytes.

    Raises:
        _DamagedPackError: the entry does not have its stated size.
    """
    inflater, begin, total, window = zlib.decompressobj(), b"", 0, _FIRST_READ_BYTES
    while not inflater.eof:
        chunk = pack[at : at + window]
        if not chunk:
            raise _DamagedPackError
        rest: bytes | memoryview = chunk
        while rest and not inflater.eof:
            out = inflater.decompress(rest, _MAX_INFLATED_BYTES)
            begin, total = (begin + out[:_SIZES])[:_SIZES], total + len(out)
            if total > size:
                raise _DamagedPackError
            rest = inflater.unconsumed_tail
        at, window = at + len(chunk), _NEXT_READ_BYTES
    if total != size:
        raise _DamagedPackError
    return begin, at - len(inflater.unused_data)


# All refs of a repository with their history, as one file: git's bundle.

_BLOCK = 1024 * 1024

#: Refs of one work tree, which have no meaning elsewhere.
_LOCAL = ("refs/bisect/", "refs/rewritten/", "refs/worktree/")


def write_bundle(history: VaultHistory) -> Iterator[bytes]:
    """Yield a bundle of all refs and HEAD.

    Raises:
        RefusedError: a shallow clone lacks a part of its history.
        VaultError: git could not read all of it.
    """
    if history.refs.is_shallow():
        raise RefusedError(
            "a shallow clone: its older history is not here; run `git fetch --unshallow` first"
        )
    local = (f"--exclude={each}*" for each in _LOCAL)
    process = history.git.start("bundle", "create", "-q", "-", *local, "--all", stdin=None)
    try:
        while block := process.stdout.read(_BLOCK):
            yield block
    finally:
        process.stdout.close()
        message = process.stderr.read().decode(errors="replace")
        status = process.proc.wait()
    if status:
        raise SystemFailureError(f"git bundle failed: {find_complaint(message, status)}")


def import_bundle(history: VaultHistory, file: Path | None, branch: str, commit: str) -> None:
    """Import a bundle into an empty repository, and check out a branch or a commit.

    Without a bundle there is no commit yet. Files outside the vault's folder are written to the
    work tree; the vault's own files are not touched.

    Raises:
        RefusedError: the bundle is damaged, or lacks a part of its history.
    """
    try:
        if file is not None:
            _import_refs(history, file)
        if branch:
            history.git.run("check-ref-format", f"refs/heads/{branch}")
            history.git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        else:
            history.git.run("update-ref", "--no-deref", "HEAD", commit)
        if history.git.run("rev-parse", "-q", "--verify", "HEAD", check=False) != commit:
            raise RefusedError("its history does not have what was checked out")
    except VaultError as error:
        raise RefusedError(f"its history cannot be taken over ({error})") from None
    if commit:
        history.git.run("read-tree", "HEAD")
        _check_out_rest(history)


def _import_refs(history: VaultHistory, file: Path) -> None:
    """Create each ref after a check that all its objects exist."""
    lines = history.git.run("bundle", "unbundle", os.fspath(file)).splitlines()
    refs = [line.partition(" ") for line in lines]
    ref_commits = [(name, commit) for commit, _, name in refs if name.startswith("refs/")]
    oids = "".join(f"{commit}\n" for commit, _, _ in refs).encode()
    history.git.run("rev-list", "--objects", "--quiet", "--stdin", stdin=oids)
    commands = (
        f"create {name} {commit}\n" for name, commit in ref_commits if not name.startswith(_LOCAL)
    )
    history.git.run(
        "update-ref", "--stdin", stdin="".join(commands).encode("utf-8", "surrogateescape")
    )


def _check_out_rest(history: VaultHistory) -> None:
    """Write the files outside the vault's folder, as a clone would."""
    paths = history.git.run("ls-files", "-z").split("\0")
    rest = [path for path in paths if path and not path.startswith(history.prefix)]
    if history.prefix and rest:
        stdin = os.fsencode("".join(f"{path}\0" for path in rest))
        history.git.run("checkout-index", "-q", "-z", "--stdin", stdin=stdin)
    history.git.run("update-index", "-q", "--refresh", check=False)
