"""Postings of three fields become the same list a term, whether numpy merges them or not."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from vaultmem.storage.index.batch import COUNT_BITS, MAX_COUNT, _merge_few, _merge_many

_COUNTS = st.one_of(st.integers(1, 300), st.just(MAX_COUNT))
_LIST = st.dictionaries(st.integers(0, 40), _COUNTS).map(
    lambda found: array("Q", [(key << COUNT_BITS) + found[key] for key in sorted(found)])
)
_FIELD = st.dictionaries(st.sampled_from("abcdefgh"), _LIST)


@given(st.fixed_dictionaries({"body": _FIELD, "tags": _FIELD, "title": _FIELD}))
def test_merging_few_and_many_gives_the_same(fields: dict[str, dict[str, array[int]]]) -> None:
    terms = sorted({term for field in fields.values() for term, found in field.items() if found})
    if not terms:
        return
    few, many = _merge_few(terms, fields), _merge_many(terms, fields)
    assert list(few[0]) == list(many[0])
    assert few[1].tobytes() == many[1]
    assert few[2].tobytes() == many[2]
