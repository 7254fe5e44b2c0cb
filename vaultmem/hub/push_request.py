"""The body of a push: which refs it is to move, and whether its pack may be unpacked.

It is looked at before git is: git unpacks all of a pack before it asks anybody.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from typing import IO, NamedTuple

from vaultmem.services.hub.folder import Limits
from vaultmem.services.hub.refusal import Refusal, Update
from vaultmem.storage.git.pack_size import PackLimits, find_excess

#: Git's lines have four digits of their length before them; these are no lines, but ends.
_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")
_END = b"0000"

_UPDATE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) ([^\0\n]+)")

#: Objects of a push for each commit and file that it may bring: folders are objects, too.
_OBJECTS_EACH = 10

#: Bytes that objects made from differences may have, for each of those that are sent whole. Of a
#: folder, each commit has all of it anew.
_DELTA = 8

#: Bytes that one line of git's protocol holds after its length.
_LINE = 65_515


class PushRequest(NamedTuple):
    """What a push asks for; `refusal` is why its pack is not unpacked, None if it may be."""

    updates: tuple[Update, ...]
    capabilities: frozenset[bytes]
    refusal: Refusal | None

    def write_report(self) -> bytes:
        """Return the answer from which git's client reports each ref as rejected."""
        why = str(self.refusal).encode("utf-8", "surrogateescape")
        refs = (each.ref.encode("utf-8", "surrogateescape") for each in self.updates)
        lines = [b"unpack refused\n", *(b"ng %s unpacker error\n" % ref for ref in refs)]
        report = b"".join(map(_line, lines)) + _END
        if not self.capabilities & {b"side-band-64k", b"side-band"}:
            return report
        most = _LINE if b"side-band-64k" in self.capabilities else 990
        parts = (report[at : at + most] for at in range(0, len(report), most))
        said = _line(b"\x02vaultmem: %s\n" % why)
        return said + b"".join(_line(b"\x01" + part) for part in parts) + _END


def read_push(body: IO[bytes], limits: Limits) -> PushRequest | None:
    """Return what a push asks for; None for a body that git would not read like that."""
    body.seek(0, 2)
    if not body.tell():
        return None
    with contextlib.closing(mmap(body.fileno(), 0, access=ACCESS_READ)) as data:
        found = _read_commands(data)
        body.seek(0)
        if found is None:
            return None
        lines, at = found
        first, _, capabilities = lines[0].partition(b"\0") if lines else (b"", b"", b"")
        updates = tuple(_read_updates([first, *lines[1:]]))
        objects = _OBJECTS_EACH * (limits.push_commits + limits.push_files)
        allowed = PackLimits(objects, limits.total_bytes, _DELTA * limits.total_bytes)
        why = find_excess(data, at, allowed) if at < len(data) else ""
    remedy = "push less at once: fewer commits, or fewer files"
    refusal = Refusal("the push", why, remedy) if why else None
    return PushRequest(updates, frozenset(capabilities.split()), refusal)


def _read_commands(data: mmap) -> tuple[list[bytes], int] | None:
    """Return the lines before the pack, and where that begins; None if they are not git's."""
    lines, at = [], 0
    while (length := data[at : at + 4]) != _END:
        size = int(length, 16) if _LENGTH.fullmatch(length) else 0
        if size < 4 or at + size > len(data):
            return None
        lines.append(data[at + 4 : at + size].removesuffix(b"\n"))
        at += size
    return lines, at + 4


def _read_updates(lines: list[bytes]) -> Iterator[Update]:
    for line in lines:
        if match := _UPDATE.fullmatch(line):
            old, new, ref = (each.decode("utf-8", "surrogateescape") for each in match.groups())
            yield Update(ref, old, new)


def _line(data: bytes) -> bytes:
    return b"%04x%s" % (len(data) + 4, data)
