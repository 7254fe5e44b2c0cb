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
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.properties import Property, read_plain_block
from vaultmem.core.notes.yaml_block import MAX_EVENTS, UnreadableBlockError, read_yaml_block

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
#: Characters beyond ASCII that YAML takes for text, for a line's end, or not at all.
FOREIGN = ["ü", "漢字", "😀", "²", "a\xa0b", "\xa0", "\u3000", "x\u3000#y", "a\x85b", "a\u2028b"]
FOREIGN += ["\ufeffa", "a\ufffe", "a\ufffd", "\x9f"]
LISTS = [
    *("[]", "[ ]", "[a]", "[a, b]", "[ 'a' , \"b\" ]", '["a","b"]', "[a b/c.d-e]", "[a,]", "[,a]"),
    *("[null]", "['null']", "[~]", "[a, NULL]", "[Null x]", "[nulls]", "[1]", "[true]", "[yes, b]"),
    *(
        "[a: b]",
        "['a': b]",
        "[a:b]",
        "[a] b",
        "[a]b",
        "[[a]]",
        "[{a: b}]",
        "[a",
        "a]",
        "[a b,c  d]",
    ),
    *(
        "[a -b]",
        "[a- b]",
        "[a #b]",
        "[a#b]",
        "[a]# c",
        "[a] # c",
        "['it''s']",
        '["a\\n"]',
        "[ü, 漢]",
    ),
    *("[a ?]", "[a\tb]", "['a' 'b']", "[*a]", "[&a b]", "[!!str a]", "[a.]", "[é\u2028b]"),
]
TRICKY = [*TYPED, *MARKED, *FOREIGN, *LISTS]
SCALARS = st.one_of(
    st.sampled_from(TRICKY), st.text("ab01:#-'\" .~=<!&*[]{|>?%@,\t\\\x02üé\u2028", max_size=6)
)
LINES = st.one_of(
    st.tuples(
        st.sampled_from(
            ["a", "b", "c", "_d-1", "ms.date", "größe", "null", "yes", "1", "<<", "a b", "a."]
        ),
        st.sampled_from([": ", ":", ":  ", " : ", ": \t"]),
        SCALARS,
        st.sampled_from(["", " ", " # c", "# c"]),
    ).map("".join),
    st.tuples(st.sampled_from(["- ", "  - ", "-  ", "    - ", "     - ", "-"]), SCALARS).map(
        "".join
    ),
    st.sampled_from(["a:", "b:", "", "  ", "# c", "  # c", "#", "  x", "a: null", "b: ~"]),
)


def read_by_yaml(block: str) -> tuple[Property, ...] | str:
    """Return the properties as YAML gives them, or what is wrong with the block."""
    try:
        read = read_yaml_block(block)
    except UnreadableBlockError as error:
        return str(error)
    if read is None:
        return "no mapping" if block.strip() else ()
    properties, warnings = read
    return warnings[0] if warnings else properties


def assert_agreement(block: str) -> None:
    plain = read_plain_block(block)
    if plain is not None:
        assert plain == read_by_yaml(block), block


@pytest.mark.campaign
@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=5), st.sampled_from(["\n", "\r\n"]))
@example(["a: null", "- x"], "\n")
@example(["a:", "- null", "- x"], "\n")
@example(["a: x\x01"], "\n")
@example(["a" * 1100 + ": x"], "\n")
@example(["a: [" + "'b', " * 400 + "'b']"], "\n")
@example(["# only a comment"], "\n")
@example([], "\n")
@example(["a:", "# c", "  - x", "", "# c", "  - y # c", "", "b: x"], "\r\n")
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
        'title: "Größe: wie?"\ntags: [größe, "a b"]  # why\n# more\nms.date: 03/01/2024\n',
    ],
)
def test_what_vaultmem_and_obsidian_write_is_read_the_fast_way(block: str) -> None:
    assert read_plain_block(block) is not None


@pytest.mark.parametrize("line", ["a{}: [b, c]\n", "a{}: b\n", "a{}:\n- b\n", "b{}: [c]\n"])
def test_fast_way_keeps_to_the_limit_of_events(line: str) -> None:
    for count in range(950, MAX_EVENTS // 4, 30):
        assert_agreement("".join(line.format(number) for number in range(count)))
    assert_agreement("a: [" + "b, " * (MAX_EVENTS - 10) + "b]\n")


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


@pytest.mark.campaign
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
