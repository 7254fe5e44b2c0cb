"""A JSON text is divided into its items, in whatever pieces it is read."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vaultmem.core.imports import export_formats
from vaultmem.core.imports.export_formats import split_objects

TEXTS = st.text('"\\{}[],: aä😀', max_size=8)
OBJECTS = st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS | st.none(), max_size=3), max_size=3)


@pytest.mark.campaign
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(OBJECTS, max_size=4), st.integers(1, 9), st.booleans(), st.booleans())
def test_items_come_whole_whatever_is_read_at_once(
    items: list[dict[str, Any]], chunk: int, ascii_only: bool, lines: bool
) -> None:
    texts = [json.dumps(each, ensure_ascii=ascii_only) for each in items]
    whole = "\n".join(texts) if lines else json.dumps(items, ensure_ascii=ascii_only, indent=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_formats, "_CHUNK", chunk)
        found = list(split_objects(io.StringIO(whole).read))
    assert [json.loads(each or "") for each in found] == items


def test_a_large_item_is_passed_over_and_what_is_cut_off_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export_formats, "_CHUNK", 16)
    large = {"a": "x" * 40, "b": [{"c": "y" * 40}]}
    text = json.dumps([{"n": 1}, large, {"n": 2}])
    assert list(split_objects(io.StringIO(text).read, 60)) == ['{"n": 1}', None, '{"n": 2}']
    assert list(split_objects(io.StringIO(text[:30]).read, 60)) == ['{"n": 1}', None]
    assert list(split_objects(io.StringIO('[{"n": "' + "z" * 500 + '"}]').read, 60)) == [None]
    assert not list(split_objects(io.StringIO("no JSON ] } at all").read))


def test_memory_goes_by_the_largest_item() -> None:
    item = json.dumps({"text": "word " * 20_000})
    parts = iter(["[", *([f"{item}, "] * 300), item, "]"])
    held: list[int] = []

    def read(_: int) -> str:
        return next(parts, "")

    for each in split_objects(read):
        held.append(len(each or ""))
    assert held == [len(item)] * 301
