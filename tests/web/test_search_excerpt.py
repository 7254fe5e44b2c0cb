"""What of a hit's text is shown on the page of a search."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vaultmem.web.pages.search_page import show_hit


def _show(text: str) -> str:
    hit = cast(Any, SimpleNamespace(text=text, matches=(), shown_line=""))
    return "".join(part for part, _ in show_hit(hit).excerpt)


def test_marks_of_markdown_are_left_out() -> None:
    told = _show("- [ ] see [[a/b|Bee]] and [[c]], [this](http://x) **bold** ==x==")
    assert told == "see Bee and c, this bold x"
    told = _show("## *Admin* -> _Rates_ of `max_rate` <b>a*b</b> \\*, 2 * 3")
    assert told == "Admin -> Rates of max_rate a*b *, 2 * 3"


@pytest.mark.parametrize("mark", ["[", "\n", "[[a|", "[x](", "<a", "*a"])
def test_a_note_of_marks_takes_no_time(mark: str) -> None:
    began = time.process_time()
    _show(mark * (20_000 // len(mark)))
    assert time.process_time() - began < 0.5
