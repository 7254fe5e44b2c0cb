"""The fast way to read a block gives exactly what YAML gives, or nothing."""

from __future__ import annotations

import re

import frontmatter
import pytest
import yaml
from frontmatter.default_handlers import YAMLHandler
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.builders import Generated, generated_notes
from vaultmem.core.notes.frontmatter import (
    _compose,
    _read_mapping,
    _UnreadableError,
    read_frontmatter,
)
from vaultmem.core.notes.properties import Property, read_plain_block

#: Plain texts that YAML 1.1 gives a meaning of its own, or refuses.
TYPED = [
    *("010", "12:30:45", "1e3", "1.5e+3", "0x1F", "0b1", "1_000", ".nan", ".inf", "-1", "+1", ".5"),
    *("yes", "No", "true", "on", "y", "~", "null", "Null", "NULL", "=", "<<", "2026-11-21", "1."),
    *("2026-11-21T10:30:00", "-", "-x", "--", "---", "...", "?", "|", ">", "#", ":", ":a", "a:"),
    *("a:b", "x#y", "a]", "a,b", "a%", "$x"),
]
MARKED = [
    *("key : v", "a: b", "a :b", "x #y", "x  ", "x\t", "\tx", "2026-11-21 10:30", "- x", "? x", ""),
    *("'q'", '"q"', "'it''s'", '"a\\n"', '"a" b', "'", '"', "!t", "&a", "*a", "[a]", "{a}", "@a"),
    *("`a", "%a", "<% t %>", "{{date}}", "# c", "\x01", "a\x0bb", "\x7f", "a\x00", "a\r"),
]
TRICKY = [*TYPED, *MARKED]
SCALARS = st.one_of(
    st.sampled_from(TRICKY), st.text("ab01:#-'\" .~=<!&*[{|>?%@,\t\\\x02", max_size=6)
)
LINES = st.one_of(
    st.tuples(
        st.sampled_from(["a", "b", "c", "_d-1", "null", "yes", "1", "<<", "a b"]),
        st.sampled_from([": ", ":", ":  ", " : ", ": \t"]),
        SCALARS,
    ).map("".join),
    st.tuples(st.sampled_from(["- ", "  - ", "-  ", "    - ", "     - ", "-"]), SCALARS).map(
        "".join
    ),
    st.sampled_from(["a:", "b:", "", "  ", "# c", "  x", "a: null", "b: ~"]),
)


def read_by_yaml(block: str) -> tuple[Property, ...] | str:
    """Return the properties as YAML gives them, or what is wrong with the block."""
    try:
        node = _compose(block)
    except _UnreadableError as error:
        return str(error)
    if node is None:
        return ()
    if node.id != "mapping":
        return node.id
    properties, warnings = _read_mapping(node, block)
    return warnings[0] if warnings else properties


def without_list_spans(properties: tuple[Property, ...]) -> list[Property]:
    """The span of a hyphen list is the one thing that the fast way leaves out."""
    return [item._replace(span=(0, 0)) if item.items else item for item in properties]


def assert_agreement(block: str) -> None:
    plain = read_plain_block(block)
    if plain is not None:
        slow = read_by_yaml(block)
        assert not isinstance(slow, str), f"{block!r}: YAML says: {slow}"
        assert without_list_spans(plain) == without_list_spans(slow)


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=5), st.sampled_from(["\n", "\r\n"]))
@example(["a: null", "- x"], "\n")
@example(["a:", "- null", "- x"], "\n")
@example(["a: x\x01"], "\n")
@example(["a" * 1100 + ": x"], "\n")
def test_fast_way_agrees_with_yaml(lines: list[str], eol: str) -> None:
    assert_agreement("".join(line + eol for line in lines))


@pytest.mark.parametrize("frame", ["a: {}\n", "a:\n  - {}\n  - z\n", "a: {}\nb: z\n", "a:\n- {}\n"])
def test_fast_way_agrees_with_yaml_on_tricky_scalars(frame: str) -> None:
    for scalar in TRICKY:
        assert_agreement(frame.replace("{}", scalar))


@pytest.mark.parametrize(
    "block",
    [
        "title: Auth tokens are RS256\nkind: decision\ncreated: 2026-11-03T09:00:00\n",
        'tags:\n  - auth\n  - "x y"\npinned: true\nconfidence: 0.9\n',
        "source: agent\r\nrefs:\r\n- https://example.org/a#b\r\n- src/auth.py:12\r\n",
        "aliases:\nupdated: ~\n\nagent: claude\n",
    ],
)
def test_what_vaultmem_and_obsidian_write_is_read_the_fast_way(block: str) -> None:
    assert read_plain_block(block) is not None


class _TextHandler(YAMLHandler):
    """python-frontmatter with every value as the text that stands there."""

    def load(self, fm: str, **_: object) -> dict[str, object]:
        return yaml.load(fm, Loader=yaml.BaseLoader)


def flatten(value: object) -> str | tuple[str, ...]:
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


def without_nulls(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Leave out what may be an empty item: YAML drops those, its BaseLoader knows none."""
    if isinstance(value, str):
        return value
    return tuple(item for item in value if item not in {"~", "null", ""})


@settings(max_examples=60, deadline=None)
@given(generated_notes())
def test_reading_agrees_with_python_frontmatter(note: Generated) -> None:
    text = note.text.removeprefix("\ufeff")
    boundary = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
    post = frontmatter.loads(text, handler=_TextHandler(boundary))
    matter = read_frontmatter(text)
    found = {prop.name: without_nulls(prop.value) for prop in matter.properties}
    wanted = {name: without_nulls(flatten(value)) for name, value in post.metadata.items()}
    assert found == wanted
    # The library makes line ends plain more than once, so that \r\r\n is \n to it.
    assert _with_plain_ends(text[matter.body :]).strip() == _with_plain_ends(post.content)


def _with_plain_ends(text: str) -> str:
    return re.sub(r"\r+\n", "\n", text)
