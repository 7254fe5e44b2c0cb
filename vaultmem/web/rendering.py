"""Render pages from templates: values, links, browser sessions and reasons for a hit."""

from __future__ import annotations

import mimetypes
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

import vaultmem
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.packs.pack_item import PackItem, PackPart
from vaultmem.core.search.query import Hit
from vaultmem.core.text.display import clean_text, escape_bytes, pluralize
from vaultmem.services.vaults.companions import ALL_VAULTS
from vaultmem.vault import Vault
from vaultmem.web.markdown.html_links import Addresses, LinkContext, format_heading
from vaultmem.workers import HubPrincipal

# Visitors, and the browsers that are logged in.

#: The most browsers logged in at once; the oldest is logged out.
_MAX_VISITS = 64


class Visitor(NamedTuple):
    """The caller: the user in a browser, or a program with an agent's name; with permissions.

    `guest` is the hub's principal for the caller.
    """

    may_write: bool
    agent: str = ""
    guest: HubPrincipal | None = None


@dataclass
class BrowserVisit:
    """A browser session, with the notices for its next page and the commits that undo each."""

    notices: list[tuple[str, str]] = field(default_factory=list)

    def pop_notices(self) -> list[tuple[str, str]]:
        """Return the notices to show, and remove them."""
        notices, self.notices = self.notices, []
        return notices


class Visits:
    """The browser sessions since this process started, by their cookies."""

    def __init__(self) -> None:
        self._visits: OrderedDict[str, BrowserVisit] = OrderedDict()

    def begin(self) -> str:
        """Start a browser session; return its cookie's value."""
        name = secrets.token_urlsafe(32)
        self._visits[name] = BrowserVisit()
        if len(self._visits) > _MAX_VISITS:
            self._visits.popitem(last=False)
        return name

    def find(self, name: str) -> BrowserVisit | None:
        """Return the session of a cookie, None for an unknown one."""
        return self._visits.get(name)


def follows_link(request: Request) -> bool:
    """Return whether the user followed a link or sent a form, rather than a script or a tag."""
    return request.headers.get("sec-fetch-mode", "navigate") == "navigate"


# Settings of an app: its address, and the access to it.

#: The most bytes of a request's body: the largest note and a form's additions.
MAX_BODY = 2 * 1024 * 1024


#: The URL prefix of the pages whose links are made, "" for none.
BELOW: ContextVar[str] = ContextVar("below", default="")

_EMPTY_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})

#: Prefixes of the server's environment variables that apply to every visitor; the owner's name does
#: not.
_SHARED_VARIABLES = (
    *("VAULTMEM_EMBEDDING_", "VAULTMEM_RERANK_", "VAULTMEM_LLM_"),
    *("VAULTMEM_RECEIPTS", "VAULTMEM_TOKENIZER"),
)


def choose_shared(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that apply to every visitor."""
    return {
        name: value for name, value in environment.items() if name.startswith(_SHARED_VARIABLES)
    }


class Site(NamedTuple):
    """The address of a vault's server, and the allowed actions.

    `hosts` are the allowed host names with ports; `token` is for programs; `folder` is a private
    folder for one-time codes. The browser may write if `may_write`; programs may if
    `programs_write`. `ref` is the default branch to view. `environment` configures models, never an
    author. With `asks_others`, the user's other vaults can be queried. `scheme` is "https" for an
    HTTPS proxy.
    """

    root: Path
    hosts: frozenset[str]
    token: str
    folder: Path
    may_write: bool = False
    programs_write: bool = True
    ref: str = ""
    environment: Mapping[str, str] = _EMPTY_ENVIRONMENT
    asks_others: bool = False
    scheme: str = "http"

    @property
    def origins(self) -> frozenset[str]:
        """The values of the Origin header in requests from this site's pages."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie, with the port, since cookies ignore ports."""
        port = min(self.hosts, default="").rpartition(":")[2]
        return f"vaultmem-{port}"


class FileLinks(NamedTuple):
    """The exported files of pages, and the time of the export (seconds since the epoch).

    `find` returns the file of a page by its path and parameters, "" for a missing one; `root_path`
    is the relative path from the current page to the export folder.
    """

    find: Callable[[str, dict[str, str]], str]
    root_path: str
    exported: float


#: The exported pages that links lead to; None if a server answers.
FILES: ContextVar[FileLinks | None] = ContextVar("files", default=None)

#: The second day of year 1 and the last but one of year 9999, in any zone.
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -62_135_510_400, 253_402_128_000

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


class Links(NamedTuple):
    """Functions that return the URL of a page by path and parameters, and of a note by path.

    The URL is "" if there is no such page. Exported pages (`is_static`) have no search forms and no
    relative times.
    """

    page: Callable[..., str]
    note: Callable[..., str]
    is_static: bool = False


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page from a template, its values, and the values that all pages show.

    Links keep `at`, the time for which the page is requested. `again` returns the address of this
    page, or another one, with the current and the given parameters.
    """
    visitor: Visitor | None = getattr(request.state, "visitor", None)
    other = request.query_params.get("vault", "")
    if visitor and other:  # Writes would go to the served vault.
        visitor = visitor._replace(may_write=False)
    visit: BrowserVisit | None = getattr(request.state, "visit", None)
    # A script that reloads part of a page must not use up the notices.
    notices = visit.pop_notices() if visit and follows_link(request) else []

    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    current_path = os.fsdecode(unquote_to_bytes(raw.partition(b"?")[0]))

    def again(path: str = current_path, /, **params: Any) -> str:
        return make_link(path, **{**request.query_params, "part": "", **params})

    template_values = {
        "above": "/" if BELOW.get() else "",
        "again": again,
        "at": request.query_params.get("at", ""),
        "here": request.url.path,
        "notices": notices,
        "moments": None,
        "query": "",
        "title": "",
        "vault": None,
        "version": vaultmem.__version__,
        "visitor": visitor,
        **values,
    }
    files = FILES.get()
    links = _link_within(other)
    if files is not None:
        links, template_values["exported"] = links._replace(is_static=True), files.exported
    return HTMLResponse(
        escape_bytes(_environment(links).get_template(template).render(template_values)), status
    )


def make_link(path: str, /, **params: Any) -> str:
    """Return a page's address with its parameters, without empty ones.

    `path` is the unquoted path: a note's name in it can contain any character. For exported pages,
    return the file's path, "" for a missing one, without `at`.
    """
    query = {name.rstrip("_"): escape_bytes(str(value)) for name, value in params.items() if value}
    if (files := FILES.get()) is not None:
        query.pop("at", None)
        file = files.find(path, query)
        return f"{files.root_path}{file}" if file else ""
    path = BELOW.get() + quote(os.fsencode(path))
    return f"{path}?{urlencode(query)}" if query else path


def link_note(path: str, heading: str = "", /, **params: Any) -> str:
    """Return the address of a note's page, at a heading."""
    address = make_link(f"/note/{path}", **params)
    return f"{address}#{quote(format_heading(heading))}" if heading and address else address


@lru_cache(maxsize=32)
def _link_within(vault: str) -> Links:
    """Return links to pages of another vault of the user, or of the served vault for ""."""
    if not vault:
        return Links(make_link, link_note)

    def page(path: str, /, **params: Any) -> str:
        return make_link(path, **{"vault": "" if path.startswith("/static") else vault, **params})

    def note(path: str, heading: str = "", /, **params: Any) -> str:
        return link_note(path, heading, **{"vault": "" if vault == ALL_VAULTS else vault, **params})

    return Links(page, note)


@cache
def _environment(links: Links) -> Environment:
    environment = Environment(
        loader=PackageLoader("vaultmem.web"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"link": links.page, "note": links.note, "is_static": links.is_static}
    environment.filters |= {
        "ago": format_day if links.is_static else format_age,
        "clean": lambda value: clean_text(str(value)),
        "count": pluralize,
        "day": format_day,
        "diff": split_diff,
        "iso": lambda timestamp: (
            datetime.fromtimestamp(read_time(timestamp)).astimezone().isoformat()
        ),
        "long_day": format_long_day,
        "lines": lambda text: "\n".join(map(clean_text, text.split("\n"))),
        "minute": format_minute,
        "number": lambda value: f"{value:,}",
        "short": lambda commit: commit[:7],
        "within": lambda hit: {"vault": hit.vault} if hit.vault else {},
    }
    return environment


def format_age(timestamp: str | float) -> str:
    """Return the age of a time in its largest unit, or its date if older than 30 days.

    `timestamp` is in seconds since the epoch, or in ISO 8601.
    """
    seconds = read_time(timestamp)
    age = datetime.now().timestamp() - seconds
    if age < _MINUTE:
        return "just now"
    for size, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if age >= size:
            count = int(age // size)
            if count > 30 and size == _DAY:
                break
            return f"{pluralize(count, name)} ago"
    return format_day(seconds)


def format_day(timestamp: str | float) -> str:
    """Return the day of a time: 2026-10-01."""
    return datetime.fromtimestamp(read_time(timestamp)).strftime("%Y-%m-%d")


def format_long_day(timestamp: str | float) -> str:
    """Return the day of a time in words: 1 October 2026."""
    return datetime.fromtimestamp(read_time(timestamp)).strftime("%d %B %Y").removeprefix("0")


def format_minute(timestamp: str | float) -> str:
    """Return a time to the minute: 2026-10-01 14:05."""
    return datetime.fromtimestamp(read_time(timestamp)).strftime("%Y-%m-%d %H:%M")


def split_diff(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a unified diff, each with its kind: "add", "cut", "place" or "same"."""
    kinds = {"+": "add", "-": "cut", "@": "place"}
    for line in text.splitlines():
        yield kinds.get(line[:1], "same"), line[1:] if line[:1] in "+- " else line


def read_time(timestamp: str | float) -> float:
    """Return a time in seconds since the epoch, within the years that can be shown."""
    seconds = (
        datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else timestamp
    )
    return min(max(seconds, _MIN_TIMESTAMP), _MAX_TIMESTAMP)


# Why a section is in a pack, in words.

#: The parts of a score besides query words, with their descriptions.
_PARTS = {
    "closeness": "words of the query are close together",
    "passage": "one passage matches most of the query",
    "named": "the query names its title or speaker",
    "neighbours": "neighbouring sections match",
    "semantic": "similar meaning",
    "recency": "recency",
}

#: The lowest score that is displayed.
_MIN_SHOWN_SCORE = 0.005


class Reason(NamedTuple):
    """A reason, and its part of the score; None for a reason without a score."""

    words: str
    score: float | None = None


def describe_reasons(item: PackItem, is_asked: bool) -> list[Reason]:
    """Return the reasons why a section is in the pack, with or without a query."""
    return [*_describe_preferences(item, is_asked), *describe_score(item.hit)]


def describe_score(hit: Hit) -> list[Reason]:
    """Return the parts of a hit's score besides its words, and the weight of its state."""
    reasons = [
        Reason(words, score)
        for name, words in _PARTS.items()
        if abs(score := getattr(hit, name)) >= _MIN_SHOWN_SCORE
    ]
    if hit.rerank is not None:
        reasons.append(Reason("reranking model", hit.rerank))
    if hit.state_weight != 1:
        reasons.append(Reason(f"weight of the state {hit.record.state}: {hit.state_weight:g}"))
    return reasons


def _describe_preferences(item: PackItem, is_asked: bool) -> Iterator[Reason]:
    hit = item.hit
    if item.pinned:
        yield Reason("pinned")
    elif item.part is PackPart.PREFERENCES:
        yield Reason("preference of the owner")
    elif not is_asked:
        yield Reason("among the newest")
    if hit.linked_from:
        yield Reason(f"linked from {hit.linked_from}")
    if hit.answered_note:
        yield Reason(f"follows {hit.answered_note}")
    if hit.refs:
        yield Reason(f"on {', '.join(hit.refs)}")


# Targets of the links in a note's text, and the URLs of their pages.

#: Media types that a page may show; browsers run no scripts in these.
PICTURES = frozenset(
    {
        *("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"),
        "image/svg+xml",
    }
)


def build_link_context(at: str, vault: Vault, embeds: bool = True) -> LinkContext:
    """Return the targets of links and, with `embeds`, the texts of notes that may be embedded.

    Links lead to pages of the vault at `at`.
    """
    from vaultmem.services.search.link_walk import open_names
    from vaultmem.services.views.read_notes import find_note

    def read_text(path: str) -> str | None:
        note = find_note(vault, path) if embeds and link_note(path) else None
        return note.text if note is not None and note.state != NoteState.QUARANTINED else None

    addresses = Addresses(
        note=lambda path: link_note(path, at=at),
        file=partial(_link_picture, at),
        tag=lambda tag: make_link("/notes", tag=tag, at=at) or make_link("/notes"),
    )
    return LinkContext(open_names(vault).find, read_text, addresses)


def _link_picture(at: str, path: str) -> str:
    """Return the address of a file, "" unless it is an image; only images are shown."""
    is_shown = mimetypes.guess_type(path)[0] in PICTURES
    return make_link(f"/file/{path}", at=at) if is_shown else ""
