"""Who asks, and the browsers that were let in."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.requests import Request

from vaultmem.workers.caller import Guest

#: Browsers that are let in at once; the one that came first goes.
_MANY = 64


class Visitor(NamedTuple):
    """Who asks: a person in a browser, else a program under an agent's name; if they may write.

    A hub knows more of them, as its `guest`.
    """

    may_write: bool
    agent: str = ""
    guest: Guest | None = None


@dataclass
class Visit:
    """A browser that was let in; its next page tells what was done, and which commit undoes it."""

    notices: list[tuple[str, str]] = field(default_factory=list)

    def take_notices(self) -> list[tuple[str, str]]:
        """Return what is to be told; it is not told again."""
        notices, self.notices = self.notices, []
        return notices


class Visits:
    """The browsers that were let in since this process started, by their cookies."""

    def __init__(self) -> None:
        self._visits: OrderedDict[str, Visit] = OrderedDict()

    def begin(self) -> str:
        """Let a browser in; return its cookie's value."""
        name = secrets.token_urlsafe(32)
        self._visits[name] = Visit()
        if len(self._visits) > _MANY:
            self._visits.popitem(last=False)
        return name

    def find(self, name: str) -> Visit | None:
        """Return the visit of a cookie, None if nobody was let in with it."""
        return self._visits.get(name)


def follows_link(request: Request) -> bool:
    """Tell whether a person follows a link or sends a form, and no page's code or tag asks."""
    return request.headers.get("sec-fetch-mode", "navigate") == "navigate"
