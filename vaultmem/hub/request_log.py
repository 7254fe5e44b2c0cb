"""What callers asked of a hub and what they were refused, written into its audit log."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.services.hub.audit import Entry, record
from vaultmem.services.hub.folder import Hub
from vaultmem.workers.caller import Guest

#: Rows of one token's refused requests in a minute: repeated ones must not fill the disk.
_ROWS, _MINUTE = 20, 60.0

#: Characters of the reason for which something failed.
_LONGEST = 500


class RequestLog:
    """Writes rows before the caller gets an answer; called from any thread."""

    def __init__(self, hub: Hub, clock: Callable[[], float] = time.monotonic) -> None:
        self._hub = hub
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_ROWS))
        self._dropped: Counter[str] = Counter()

    def add_question(
        self, vaults: Sequence[str], guest: Guest, operation: str, answer: object
    ) -> None:
        """Write that a question was asked, and how many notes answer it.

        Raises:
            FaultError: the disk did not take it.
        """
        details = {"operation": operation, "hits": _count_hits(answer)}
        self._record(guest, "ask", vaults, "done", details)

    def add_refusal(
        self, vaults: Sequence[str], guest: Guest, what: str, operation: str, why: object
    ) -> None:
        """Write that a request was refused, if this token has few such rows; count it if not.

        Raises:
            FaultError: the disk did not take it.
        """
        now = self._clock()
        with self._lock:
            written = self._written[guest.id]
            if len(written) == _ROWS and written[0] > now - _MINUTE:
                self._dropped[guest.id] += 1
                return
            written.append(now)
            dropped = self._dropped.pop(guest.id, 0)
        refused = [describe_reason(why)]
        if dropped:
            refused.append(f"{count_things(dropped, 'refused request')} before it without a row")
        self._record(guest, what, vaults, "refused", {"operation": operation, "refused": refused})

    def _record(
        self, guest: Guest, what: str, vaults: Sequence[str], outcome: str, details: dict[str, Any]
    ) -> None:
        who = guest.name, guest.id, guest.origin
        record(self._hub, Entry(time.time(), *who, what, tuple(vaults), outcome, details))


def describe_reason(why: object) -> str:
    """Return why something failed, in one line without credentials."""
    return one_line(mask_secrets(str(why)))[:_LONGEST]


def _count_hits(answer: Any) -> int | None:
    """Return how many notes an answer shows, None where it is no list of such."""
    found = getattr(answer, "answer", None)
    if found is not None:
        return len(found.hits if hasattr(found, "hits") else found.pack.items)
    data = json.loads(answer.data) if hasattr(answer, "data") else answer[1] if answer else {}
    rows = data.get("hits", data.get("items")) if isinstance(data, dict) else None
    return len(rows) if isinstance(rows, list) else None
