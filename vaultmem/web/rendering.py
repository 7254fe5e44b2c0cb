"""Templates become pages: how values are written in them, and where links lead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

import vaultmem
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import clean_text, escape_bytes
from vaultmem.services.vaults.beside import EVERY
from vaultmem.web.markdown.page import name_heading
from vaultmem.web.site import BELOW
from vaultmem.web.visits import follows_link

if TYPE_CHECKING:
    from vaultmem.web.visits import Visit, Visitor

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


class Links(NamedTuple):
    """Where links lead: to a page by its place and what is given to it, to a note by its path.

    They are "" where there is no such page. If pages are files (`is_static`), nobody answers what
    is asked in them, and no time is told by how long ago it was.
    """

    page: Callable[..., str]
    note: Callable[..., str]
    is_static: bool = False


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page: a template with its values, and what every page shows.

    `at`, where the page is asked for as it was at a time, is kept in its links. `again` gives the
    address of the page, or of another one, with what was asked here and what is given besides.
    """
    visitor: Visitor | None = getattr(request.state, "visitor", None)
    other = request.query_params.get("vault", "")
    if visitor and other:  # What is written goes to the vault that is served.
        visitor = visitor._replace(may_write=False)
    visit: Visit | None = getattr(request.state, "visit", None)
    # A script that loads a page again shows only a part of it, and may be quicker than the person.
    notices = visit.take_notices() if visit and follows_link(request) else []

    def again(place: str = request.url.path, /, **given: Any) -> str:
        return make_link(place, **{**request.query_params, "part": "", **given})

    shown = {
        "above": "/" if BELOW.get() else "",
        "again": again,
        "at": request.query_params.get("at", ""),
        "here": request.url.path,
        "notices": notices,
        "visitor": visitor,
        **values,
    }
    links = _link_within(other)
    return HTMLResponse(render_template(template, links, shown), status)


def render_template(template: str, links: Links, values: dict[str, Any]) -> str:
    """Return a template with its values, and what every page shows without being told."""
    given = {
        "above": "",
        "at": "",
        "moments": None,
        "notices": (),
        "query": "",
        "title": "",
        "vault": None,
        "version": vaultmem.__version__,
        "visitor": None,
    }
    return escape_bytes(_environment(links).get_template(template).render({**given, **values}))


def make_link(place: str, /, **given: Any) -> str:
    """Return a page's address with its parameters, those that are empty left out.

    `place` is the address as it reads: a name of a note in it may have any character.
    """
    place = BELOW.get() + quote(os.fsencode(place))
    said = {name.rstrip("_"): escape_bytes(str(value)) for name, value in given.items() if value}
    return f"{place}?{urlencode(said)}" if said else place


def link_note(path: str, heading: str = "", /, **given: Any) -> str:
    """Return the address of a note's page, at a heading."""
    place = make_link(f"/note/{path}", **given)
    return f"{place}#{quote(name_heading(heading))}" if heading else place


@lru_cache(maxsize=32)
def _link_within(vault: str) -> Links:
    """Return links to pages of a vault of the user's, of the one that is served for ""."""
    if not vault:
        return Links(make_link, link_note)

    def page(place: str, /, **given: Any) -> str:
        return make_link(place, **{"vault": "" if place.startswith("/static") else vault, **given})

    def note(path: str, heading: str = "", /, **given: Any) -> str:
        return link_note(path, heading, **{"vault": "" if vault == EVERY else vault, **given})

    return Links(page, note)


@cache
def _environment(links: Links) -> Environment:
    made = Environment(
        loader=PackageLoader("vaultmem.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"link": links.page, "note": links.note, "is_static": links.is_static}
    made.filters |= {
        "ago": tell_day if links.is_static else tell_ago,
        "clean": lambda value: clean_text(str(value)),
        "count": count_things,
        "day": tell_day,
        "diff": split_diff,
        "iso": lambda then: datetime.fromtimestamp(_read_time(then)).astimezone().isoformat(),
        "lines": lambda text: "\n".join(map(clean_text, text.split("\n"))),
        "minute": tell_minute,
        "number": lambda value: f"{value:,}",
        "short": lambda commit: commit[:7],
        "within": lambda hit: {"vault": hit.vault} if hit.vault else {},
    }
    return made


def tell_ago(then: str | float) -> str:
    """Say how long ago something was, in its largest unit; a date before the last month as it is.

    `then` is in seconds since the epoch, or as ISO 8601 has it.
    """
    at = _read_time(then)
    passed = datetime.now().timestamp() - at
    if passed < _MINUTE:
        return "just now"
    for size, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if passed >= size:
            count = int(passed // size)
            if count > 30 and size == _DAY:
                break
            return f"{count_things(count, name)} ago"
    return tell_day(at)


def tell_day(then: str | float) -> str:
    """Return the day of a time: 2026-10-01."""
    return datetime.fromtimestamp(_read_time(then)).strftime("%Y-%m-%d")


def tell_minute(then: str | float) -> str:
    """Return a time to the minute: 2026-10-01 14:05."""
    return datetime.fromtimestamp(_read_time(then)).strftime("%Y-%m-%d %H:%M")


def split_diff(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a unified diff, each with what it is: "add", "cut", "place" or "same"."""
    kinds = {"+": "add", "-": "cut", "@": "place"}
    for line in text.splitlines():
        yield kinds.get(line[:1], "same"), line[1:] if line[:1] in "+- " else line


def _read_time(then: str | float) -> float:
    if isinstance(then, str):
        return datetime.fromisoformat(then).timestamp()
    return then
