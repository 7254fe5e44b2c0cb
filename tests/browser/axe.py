"""axe-core on a page: which faults would keep people out."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

_KEEPS_OUT = {"serious", "critical"}


def find_faults(page: Page) -> list[str]:
    """Return the serious and critical faults that axe finds, one line an element."""
    page.evaluate(_read_axe())
    found = page.evaluate("axe.run()")
    return [
        f"{fault['id']} ({fault['impact']}): {_tell(node)}"
        for fault in found["violations"]
        if fault["impact"] in _KEEPS_OUT
        for node in fault["nodes"]
    ]


def _tell(node: dict[str, Any]) -> str:
    told = " ".join(str(node["failureSummary"]).split())
    return f"{' '.join(map(str, node['target']))}: {told[:160]}"


@cache
def _read_axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
