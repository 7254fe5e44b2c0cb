"""Texts that are no UTF-8: read as what they most likely are, and named so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaultmem.core.notes.encoding import MIXED, UTF_16, WINDOWS, decode_text

WORDS = "Größe – „naïve“ café"


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (WORDS.encode(), WORDS, ""),
        (b"\xef\xbb\xbfplain", "\ufeffplain", ""),
        (WORDS.encode("utf-16"), WORDS, UTF_16),
        (b"\xfe\xff" + WORDS.encode("utf-16-be"), WORDS, UTF_16),
        (WORDS.encode("cp1252"), WORDS, WINDOWS),
        (b"\xff\xfe odd!", "ÿþ odd!", WINDOWS),
        (b"\x81\x8d", "\x81\x8d", WINDOWS),
        (f"{WORDS}\n".encode() + b"J\xfcrgen", f"{WORDS}\nJürgen", MIXED),
        (f"{WORDS} 🙂".encode()[:-1], f"{WORDS} ðŸ™", MIXED),
    ],
)
def test_a_text_is_read_as_what_it_is_and_named_so(data: bytes, text: str, encoding: str) -> None:
    assert decode_text(data) == (text, encoding)


@given(st.binary())
def test_any_bytes_are_a_text_that_can_be_written_as_utf8(data: bytes) -> None:
    decode_text(data).text.encode("utf-8")
