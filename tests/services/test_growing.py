"""A vault as the benchmarks ask it: as it was when the question was asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make, Open

from vaultmem.core.search.query import parse_query
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

QUESTION = "which gangway opens first"


def write_turn(number: int) -> str:
    text = "opens first of all, before noon" if number > 3 else f"{number} is open"
    return f"---\nsession: s-1\ncreated: 2026-05-01T10:{number:02}:00\n---\nThe gangway {text}.\n"


def score(vault: Vault) -> dict[str, float]:
    return {hit.record.path: round(hit.score, 5) for hit in recall(vault, parse_query(QUESTION))}


def test_later_notes_lend_nothing_to_those_that_were_there(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from growing import grow

    notes = {f"n{number}.md": write_turn(number) for number in range(8)}
    there = dict(list(notes.items())[:4])
    whole, small = opened(make_vault(notes, "whole")), opened(make_vault(there, "small"))
    for vault in (whole, small):
        sync_vault(vault)

    order = {path.stem: 0 for path in whole.root.rglob("*.md")}
    order |= {f"n{number}": number for number in range(8)}
    assert score(grow(whole, order, 4)) == score(small)
    assert {path: score(whole)[path] for path in there} != score(small)
