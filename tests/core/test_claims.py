"""Claims that something does not work, exist or support something, told from other sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaultmem.core.packs.warnings import find_claim

_LINES = (Path(__file__).parent / "data" / "claims.txt").read_text(encoding="utf-8")
SENTENCES = [line.split(" ", 1) for line in _LINES.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("sign", "sentence"), SENTENCES)
def test_a_sentence_is_a_claim_by_its_form(sign: str, sentence: str) -> None:
    assert find_claim(sentence) == (sentence if sign == "+" else "")


def test_the_first_claim_of_a_text_is_named() -> None:
    talk = "Joanna and Nate talked on 23 January 2022. I can't wait!\n- The API has no webhooks."
    assert find_claim(talk) == "- The API has no webhooks."
    assert find_claim("A fail-safe list of wines. The expert's role is not clear.") == ""
    assert find_claim("") == ""
