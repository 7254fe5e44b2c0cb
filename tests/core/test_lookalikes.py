"""Names that look alike are the same when they are folded, and no others."""

from __future__ import annotations

import pytest

from vaultmem.core.text.display import fold_lookalikes


@pytest.mark.parametrize(
    "name",
    [
        *("\u0410da Owner", "ada  owner", "ADA OWNER", "\uff21da Owner", "\U0001d6c2da Owner"),
        *("Ad\u0430 \u041ewn\u0435r", "\u0391da Owner", "\u13aada Owner", "'Ada Owner'"),
        *("A\u00adda\u200b Owner", "Ada\ufe0f Owner", "Ada-Owner."),
    ],
)
def test_name_that_looks_like_another_is_the_same(name: str) -> None:
    assert fold_lookalikes(name) == fold_lookalikes("Ada Owner")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("Jos\xe9", "Jose"), ("Zo\xeb", "Zoe"), ("scout-2", "scout-3"), ("Ada", "Adam")),
        *(("\u674e", "\u5b63"), ("\u0930\u093e\u092e", "\u0930\u092e")),
    ],
)
def test_other_name_stays_another(one: str, other: str) -> None:
    assert fold_lookalikes(one) != fold_lookalikes(other)


GREEK, RUSSIAN = "\u03a3\u03af\u03b3\u03bc\u03b1", "\u0422\u0430\u0440\u0430\u0441"


@pytest.mark.parametrize("name", [GREEK, RUSSIAN, "Stra\xdfe"])
def test_name_is_the_same_in_capitals(name: str) -> None:
    assert fold_lookalikes(name) == fold_lookalikes(name.upper()) == fold_lookalikes(name.lower())


def test_marks_alone_are_no_name() -> None:
    assert fold_lookalikes("... \u200b'") == ""
