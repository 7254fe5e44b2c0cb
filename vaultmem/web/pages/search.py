"""Search: what answers a question, and why; the list alone is asked for as somebody types."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.services.finding.ask import Answer, Ask
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read
from vaultmem.web.rendering import render_page

#: Notes on a page.
_LIMIT = 20


class Found(NamedTuple):
    """An answer, and what is to be said of how sure it is."""

    answer: Answer | None
    doubts: list[str]


def gather_answer(question: str, offset: int, vault: Vault) -> Found:
    """Return what answers a question, nothing for an empty one; nobody is counted as shown it."""
    from vaultmem.services.finding.ask import ask, tell_how_sure

    if not question.strip():
        return Found(None, [])
    asked = Ask(question, _LIMIT, offset, suggests=True, waits=False, counts=False)
    answer = ask(vault, asked)
    return Found(answer, tell_how_sure(answer))


@answers
async def show_search(request: Request) -> Response:
    """Show what answers a question."""
    query = request.query_params.get("q", "")[:1_000]
    offset = _read_offset(request.query_params.get("offset", ""))
    frame, found = await read(request, partial(gather_answer, query, offset))
    template = "results.html" if "part" in request.query_params else "search.html"
    return render_page(
        request, template, vault=frame, query=query, offset=offset, limit=_LIMIT, found=found
    )


def _read_offset(text: str) -> int:
    return min(int(text), 1_000) if text.isdigit() else 0
