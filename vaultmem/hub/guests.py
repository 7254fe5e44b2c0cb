"""Who comes to a hub: by a token, or in a browser by a cookie that a token was shown for.

A cookie says which token it was made for, and until when it counts; it is signed with that token's
digest. So nothing of it has to be kept, and it ends with the token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from starlette.requests import Request
from starlette.types import Message, Send

from vaultmem.services.hub.audit import Entry, record
from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.grants import (
    FILE_NAME,
    Grant,
    Kind,
    Scope,
    find_by_id,
    find_grant,
    may,
)
from vaultmem.storage.git.remote import ENDS_HEADER
from vaultmem.web.visits import Visitor
from vaultmem.workers.caller import Guest

#: Seconds for which a cookie counts.
LIFETIME = 30 * 86_400

#: Tokens and addresses that are remembered, and the seconds for which that is.
_MANY, _WHILE = 4_096, 600.0

#: Wrong tokens that may come from an address in a minute before it is told to wait.
_WRONG = 20
_MINUTE = 60.0


class Guests:
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
            record(self.hub, Entry(self._now(), "", "", address, "sign-in", (), "refused"))
        return not is_over

    def _find(self, key: str, look: Callable[[], Grant | None]) -> Grant | None:
        state = self._look_at_grants()
        seen, until, grant = self._known.pop(key, (None, 0.0, None))
        if seen != state or until < time.monotonic() or grant is None:
            grant, until = look(), time.monotonic() + _WHILE  # As of `state`, or later.
        if grant is None or not grant.is_alive(self._now()):
            return None
        self._known[key] = state, until, grant
        if len(self._known) > _MANY:
            self._known.popitem(last=False)
        return grant

    def _look_at_grants(self) -> object:
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
    lands = may(grant, vault, Scope.WRITE)
    mail = grant.emails[0] if grant.emails else ""
    is_agent = grant.kind is Kind.AGENT
    guest = Guest(
        grant.name,
        grant.id,
        "" if is_agent else mail if "<" in mail else f"{grant.name} <{mail}>",
        "" if lands else f"proposals/{grant.name}/notes",
        origin,
    )
    agent = grant.name if is_agent else ""
    return Visitor(may(grant, vault, Scope.PROPOSE), agent, guest)


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
