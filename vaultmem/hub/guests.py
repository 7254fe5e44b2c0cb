"""Authenticate callers of a hub by a token or a cookie, and identify who pushes.

A cookie says which token it was made for, and until when it counts; it is signed with that token's
digest. So nothing of it has to be kept, and it ends with the token.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from mmap import ACCESS_READ, mmap
from typing import IO, NamedTuple

from starlette.requests import Request
from starlette.types import Message, Send

from vaultmem.services.hub.grants import (
    FILE_NAME,
    Grant,
    GrantKind,
    GrantScope,
    find_by_id,
    find_grant,
    may,
)
from vaultmem.services.hub.hub_folder import AuditEntry, Hub, PushLimits, RefUpdate, Refusal, record
from vaultmem.storage.git.maintenance import PackLimits, find_excess
from vaultmem.storage.git.remote import ENDS_HEADER
from vaultmem.web.rendering import Visitor
from vaultmem.workers import HubPrincipal

#: Seconds for which a cookie counts.
LIFETIME = 30 * 86_400

#: Tokens and addresses that are remembered, and the seconds for which that is.
_MANY, _WHILE = 4_096, 600.0

#: Wrong tokens that may come from an address in a minute before it is told to wait.
_WRONG = 20
_MINUTE = 60.0


class Principals:
    """Knows by the hub's grants who asks; what it remembers of them counts while these stay."""

    def __init__(self, hub: Hub, now: Callable[[], float] = time.time) -> None:
        self.hub = hub
        self._now = now
        self._known: OrderedDict[str, tuple[object, float, Grant]] = OrderedDict()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def find(self, token: str) -> Grant | None:
        """Return the grant of a token that counts now.

        Raises:
            VaultError: the grants cannot be read.
        """
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        return self._find(key, lambda: find_grant(self.hub, token, self._now()))

    def make_cookie(self, grant: Grant) -> str:
        """Return what a browser shows instead of a token, for thirty days."""
        said = f"{grant.id}.{int(self._now()) + LIFETIME}"
        return f"{said}.{_sign(grant, said)}"

    def read_cookie(self, value: str) -> Grant | None:
        """Return the grant that a cookie was made for, if both count now."""
        said, _, signature = value.rpartition(".")
        id, _, end = said.partition(".")
        if not (end.isascii() and end.isdecimal() and len(end) < 20 and self._now() < int(end)):
            return None
        grant = self._find(f"id {id}", lambda: find_by_id(self.hub, id, self._now()))
        is_ours = grant is not None and hmac.compare_digest(
            _sign(grant, said).encode(), signature.encode("utf-8", "surrogatepass")
        )
        return grant if is_ours else None

    def counts(self, grant: Grant) -> bool:
        """Tell whether a grant still counts, for all that it did."""
        found = self._find(f"id {grant.id}", lambda: find_by_id(self.hub, grant.id, self._now()))
        return found is not None and found.scopes == grant.scopes

    def turn_away(self, address: str) -> bool:
        """Count a wrong token that an address has shown, and put that on record.

        Return False if there were too many; then nothing more is put there.
        """
        now = time.monotonic()
        tries = self._wrong.pop(address, deque(maxlen=_WRONG))
        while tries and tries[0] < now - _MINUTE:
            tries.popleft()
        is_over = len(tries) == _WRONG
        tries.append(now)
        self._wrong[address] = tries
        if len(self._wrong) > _MANY:
            self._wrong.popitem(last=False)
        if not is_over:
            record(self.hub, AuditEntry(self._now(), "", "", address, "sign-in", (), "refused"))
        return not is_over

    def _find(self, key: str, look: Callable[[], Grant | None]) -> Grant | None:
        state = self._reload_grants()
        seen, until, grant = self._known.pop(key, (None, 0.0, None))
        if seen != state or until < time.monotonic() or grant is None:
            grant, until = look(), time.monotonic() + _WHILE  # As of `state`, or later.
        if grant is None or not grant.is_alive(self._now()):
            return None
        self._known[key] = state, until, grant
        if len(self._known) > _MANY:
            self._known.popitem(last=False)
        return grant

    def _reload_grants(self) -> object:
        try:
            found = os.stat(self.hub.folder / FILE_NAME)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def read_token(request: Request, *schemes: str) -> str | None:
    """Return the token that a request shows in one of these ways, "" for what cannot be one.

    It is what stands behind "Bearer", or the password of "Basic". None where nothing is shown: git
    first sends a name alone.
    """
    shown = request.headers.getlist("authorization")
    if not shown:
        return None
    scheme, _, value = shown[0].partition(" ")
    if len(shown) > 1 or scheme.lower() not in schemes:
        return ""
    if scheme.lower() == "bearer":
        return value.strip()
    try:
        both = base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return both.partition(":")[2] or None


def make_visitor(grant: Grant, vault: str, origin: str) -> Visitor:
    """Return how somebody who may read a vault appears in it, and where what they write goes.

    Who may only propose writes on a branch of their own. `origin` is "api", "mcp" or "page".
    """
    lands = may(grant, vault, GrantScope.WRITE)
    mail = grant.emails[0] if grant.emails else ""
    is_agent = grant.kind is GrantKind.AGENT
    guest = HubPrincipal(
        grant.name,
        grant.id,
        "" if is_agent else mail if "<" in mail else f"{grant.name} <{mail}>",
        "" if lands else f"proposals/{grant.name}/notes",
        origin,
    )
    agent = grant.name if is_agent else ""
    return Visitor(may(grant, vault, GrantScope.PROPOSE), agent, guest)


def warn_of_end(grant: Grant, send: Send) -> Send:
    """Return a `send` that adds a header with the end of the token, if that is soon."""
    if not grant.ends_soon(time.time()):
        return send
    header = ENDS_HEADER.lower().encode(), b"%d" % grant.expires

    async def send_warned(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return send_warned


def _sign(grant: Grant, said: str) -> str:
    return hmac.new(grant.digest.encode(), b"page " + said.encode(), "sha256").hexdigest()


# The body of a push: which refs it is to move, and whether its pack may be unpacked.
#
# It is looked at before git is: git unpacks all of a pack before it asks anybody.

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

    updates: tuple[RefUpdate, ...]
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


def read_push(body: IO[bytes], limits: PushLimits) -> PushRequest | None:
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


def _read_updates(lines: list[bytes]) -> Iterator[RefUpdate]:
    for line in lines:
        if match := _UPDATE.fullmatch(line):
            old, new, ref = (each.decode("utf-8", "surrogateescape") for each in match.groups())
            yield RefUpdate(ref, old, new)


def _line(data: bytes) -> bytes:
    return b"%04x%s" % (len(data) + 4, data)
