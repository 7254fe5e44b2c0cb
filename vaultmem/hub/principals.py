"""Authenticate callers of a hub by a token or a cookie, and check the body of a push.

A cookie contains the id of its token and an expiry time, signed with the token's digest. So the
server stores no sessions, and a cookie ends with its token.
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

#: Seconds until a cookie expires.
LIFETIME = 30 * 86_400

#: Most tokens and addresses that are cached, and for how many seconds.
_MAX_CACHE_ENTRIES, _CACHE_SECONDS = 4_096, 600.0

#: Wrong tokens allowed from one address in a minute.
_WRONG = 20
_MINUTE = 60.0


class Principals:
    """The principals of a hub's grants, cached until the grants change."""

    def __init__(self, hub: Hub, now: Callable[[], float] = time.time) -> None:
        self.hub = hub
        self._now = now
        self._cached_grants: OrderedDict[str, tuple[object, float, Grant]] = OrderedDict()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def find(self, token: str) -> Grant | None:
        """Return the grant of a token, None if it is unknown or expired.

        Raises:
            VaultError: the grants cannot be read.
        """
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        return self._find(key, lambda: find_grant(self.hub, token, self._now()))

    def make_cookie(self, grant: Grant) -> str:
        """Return a cookie value that a browser sends instead of a token, valid for thirty days."""
        payload = f"{grant.id}.{int(self._now()) + LIFETIME}"
        return f"{payload}.{_sign(grant, payload)}"

    def read_cookie(self, value: str) -> Grant | None:
        """Return the grant a cookie was made for, if both are still valid."""
        payload, _, signature = value.rpartition(".")
        id, _, end = payload.partition(".")
        if not (end.isascii() and end.isdecimal() and len(end) < 20 and self._now() < int(end)):
            return None
        grant = self._find(f"id {id}", lambda: find_by_id(self.hub, id, self._now()))
        is_ours = grant is not None and hmac.compare_digest(
            _sign(grant, payload).encode(), signature.encode("utf-8", "surrogatepass")
        )
        return grant if is_ours else None

    def counts(self, grant: Grant) -> bool:
        """Return whether a grant is still valid, with the same permissions."""
        stored_grant = self._find(
            f"id {grant.id}", lambda: find_by_id(self.hub, grant.id, self._now())
        )
        return stored_grant is not None and stored_grant.scopes == grant.scopes

    def turn_away(self, address: str) -> bool:
        """Count a wrong token from an address, and log it; return False if there were too many.

        Further attempts above the limit are not logged.
        """
        now = time.monotonic()
        tries = self._wrong.pop(address, deque(maxlen=_WRONG))
        while tries and tries[0] < now - _MINUTE:
            tries.popleft()
        is_over = len(tries) == _WRONG
        tries.append(now)
        self._wrong[address] = tries
        if len(self._wrong) > _MAX_CACHE_ENTRIES:
            self._wrong.popitem(last=False)
        if not is_over:
            record(self.hub, AuditEntry(self._now(), "", "", address, "sign-in", (), "refused"))
        return not is_over

    def _find(self, key: str, load_grant: Callable[[], Grant | None]) -> Grant | None:
        state = self._reload_grants()
        cached_state, expiry, grant = self._cached_grants.pop(key, (None, 0.0, None))
        if cached_state != state or expiry < time.monotonic() or grant is None:
            grant, expiry = (
                load_grant(),
                time.monotonic() + _CACHE_SECONDS,
            )  # Not older than `state`.
        if grant is None or not grant.is_alive(self._now()):
            return None
        self._cached_grants[key] = state, expiry, grant
        if len(self._cached_grants) > _MAX_CACHE_ENTRIES:
            self._cached_grants.popitem(last=False)
        return grant

    def _reload_grants(self) -> object:
        try:
            file_status = os.stat(self.hub.folder / FILE_NAME)
        except OSError:
            return None
        return file_status.st_ino, file_status.st_mtime_ns, file_status.st_size


def read_token(request: Request, *schemes: str) -> str | None:
    """Return the token of the `Authorization` header, "" if malformed, None if missing.

    For "Basic", the token is the password. Git first sends a name without one; this also gives
    None.
    """
    headers = request.headers.getlist("authorization")
    if not headers:
        return None
    scheme, _, value = headers[0].partition(" ")
    if len(headers) > 1 or scheme.lower() not in schemes:
        return ""
    if scheme.lower() == "bearer":
        return value.strip()
    try:
        credentials = base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return credentials.partition(":")[2] or None


def make_visitor(grant: Grant, vault: str, origin: str) -> Visitor:
    """Return a grant holder's name, permission and write branch in a vault they can read.

    A caller with only "propose" writes on a branch of their own. `origin` is "api", "mcp" or
    "page".
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
    """Return a `send` that adds a header with the token's expiry, if that is soon."""
    if not grant.ends_soon(time.time()):
        return send
    header = ENDS_HEADER.lower().encode(), b"%d" % grant.expires

    async def send_warned(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return send_warned


def _sign(grant: Grant, payload: str) -> str:
    return hmac.new(grant.digest.encode(), b"page " + payload.encode(), "sha256").hexdigest()


# The body of a push: the refs to move, and whether its pack can be unpacked. It is checked before
# git runs, because git unpacks a whole pack before its hooks run.

#: Each pkt-line begins with its length in four digits; `0000` is a flush packet.
_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")
_END = b"0000"

_UPDATE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) ([^\0\n]+)")

#: Objects allowed for each commit and file of a push: trees are objects, too.
_OBJECTS_EACH = 10

#: Bytes of deltified objects allowed for each byte sent whole: each commit has all of a tree again.
_DELTA = 8

#: Bytes in one pkt-line after its length.
_LINE = 65_515


class PushRequest(NamedTuple):
    """A parsed push; `refusal` is why its pack must not be unpacked, None if it can be."""

    updates: tuple[RefUpdate, ...]
    capabilities: frozenset[bytes]
    refusal: Refusal | None

    def write_report(self) -> bytes:
        """Return the response from which git's client reports each ref as rejected."""
        reason = str(self.refusal).encode("utf-8", "surrogateescape")
        refs = (each.ref.encode("utf-8", "surrogateescape") for each in self.updates)
        lines = [b"unpack refused\n", *(b"ng %s unpacker error\n" % ref for ref in refs)]
        report = b"".join(map(_line, lines)) + _END
        if not self.capabilities & {b"side-band-64k", b"side-band"}:
            return report
        chunk_size = _LINE if b"side-band-64k" in self.capabilities else 990
        parts = (report[at : at + chunk_size] for at in range(0, len(report), chunk_size))
        message = _line(b"\x02vaultmem: %s\n" % reason)
        return message + b"".join(_line(b"\x01" + part) for part in parts) + _END


def read_push(body: IO[bytes], limits: PushLimits) -> PushRequest | None:
    """Return the parsed push, None if git would not parse the body."""
    body.seek(0, 2)
    if not body.tell():
        return None
    with contextlib.closing(mmap(body.fileno(), 0, access=ACCESS_READ)) as data:
        commands = _read_commands(data)
        body.seek(0)
        if commands is None:
            return None
        lines, at = commands
        first, _, capabilities = lines[0].partition(b"\0") if lines else (b"", b"", b"")
        updates = tuple(_read_updates([first, *lines[1:]]))
        objects = _OBJECTS_EACH * (limits.push_commits + limits.push_files)
        allowed = PackLimits(objects, limits.total_bytes, _DELTA * limits.total_bytes)
        excess = find_excess(data, at, allowed) if at < len(data) else ""
    remedy = "push less at once: fewer commits, or fewer files"
    refusal = Refusal("the push", excess, remedy) if excess else None
    return PushRequest(updates, frozenset(capabilities.split()), refusal)


def _read_commands(data: mmap) -> tuple[list[bytes], int] | None:
    """Return the lines before the pack and the pack's offset, None if they are malformed."""
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
