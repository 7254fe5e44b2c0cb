"""A pattern that is compiled on first use does what one of `re.compile` does."""

from __future__ import annotations

import re

import pytest

from vaultmem.core.text.patterns import compile_later


def test_a_pattern_has_methods_attributes_and_flags() -> None:
    pattern = compile_later(r"(?P<word>b\w+)", re.IGNORECASE)
    found = pattern.search("a Berth")
    assert found is not None
    assert found["word"] == "Berth"
    assert pattern.sub("x", "a berth, B1") == "a x, x"
    assert pattern.findall("Bay bay") == ["Bay", "bay"]
    assert pattern.pattern == r"(?P<word>b\w+)"
    assert pattern.groupindex == {"word": 1}


def test_a_pattern_is_compiled_on_first_use() -> None:
    pattern = compile_later("(")
    with pytest.raises(re.error):
        pattern.match("(")
    with pytest.raises(AttributeError):
        compile_later("a").no_method  # type: ignore[attr-defined]  # noqa: B018
