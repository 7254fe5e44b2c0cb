"""Anchors: how they are written, and whether the anchored text changed between two versions."""

from __future__ import annotations

import pytest

from vaultmem.core.anchored_text import compare_anchor, find_symbol, locate_anchor
from vaultmem.core.anchors import Anchor, AnchorCheck, AnchorStatus, describe_checks, parse_anchor

CODE = """\
import time

LIMIT = 3


def wait(seconds):
    time.sleep(seconds)


class Refund:
    @property
    def limit(self):
        return LIMIT

    async def pay(self, amount):
        if amount > self.limit:
            raise ValueError(amount)
        return amount
"""


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("src/limit.py", Anchor("src/limit.py")),
        ("src/limit.py#L10", Anchor("src/limit.py", 10, 10)),
        ("src/limit.py#L10-20", Anchor("src/limit.py", 10, 20)),
        ("src/limit.py#L10-L20", Anchor("src/limit.py", 10, 20)),
        ("src/limit.py:12", Anchor("src/limit.py", 12, 12)),
        ("src/limit.py:refund_limit", Anchor("src/limit.py", symbol="refund_limit")),
        ("limit.py:Refund.pay", Anchor("limit.py", symbol="Refund.pay")),
        ("Makefile@9f2c1ab", Anchor("Makefile", commit="9f2c1ab")),
        (
            "a b.c#L1-2@9f2c1ab4+3b18e512 (shop)",
            Anchor("a b.c", 1, 2, "", "9f2c1ab4", "3b18e512", "shop"),
        ),
        ("a.py:f@+3b18e512", Anchor("a.py", symbol="f", blob="3b18e512")),
        ("notes (old).md", Anchor("notes (old).md")),
    ],
)
def test_a_text_is_an_anchor(text: str, anchor: Anchor) -> None:
    assert parse_anchor(text) == anchor
    assert parse_anchor(str(anchor)) == anchor


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "https://example.org/a.py#L1", "mailto:maren", "doi:10", "[[limit]]"),
        *("/etc/passwd", "-x", "<b>", "C:\\x", "9f2c1ab", "a\nb"),
    ],
)
def test_other_texts_are_no_anchors(text: str) -> None:
    assert parse_anchor(text) is None


def _compare(place: str, new: str, old: str = CODE) -> AnchorCheck:
    anchor = parse_anchor(place)
    assert anchor is not None
    return compare_anchor(anchor, old.encode(), new.encode())


@pytest.mark.parametrize(
    "place", ["limit.py#L6-7", "limit.py:wait", "limit.py:Refund.pay", "limit.py:LIMIT"]
)
@pytest.mark.parametrize(
    "change",
    [
        lambda code: code,
        lambda code: f"# A line before.\n\n{code}",
        lambda code: f"{code}\n\ndef more():\n    return 1\n",
        lambda code: code.replace("\n", "\r\n"),
        lambda code: code.replace("return LIMIT", "return 2 * LIMIT"),
        lambda code: code.replace("import time", "import time\nimport os"),
    ],
)
def test_a_change_elsewhere_in_the_file_is_none(place: str, change: object) -> None:
    assert _compare(place, change(CODE)).status is AnchorStatus.HOLDS  # type: ignore[operator]


def test_lines_are_followed_where_they_move_in_the_file() -> None:
    lines = CODE.splitlines(keepends=True)
    moved = "".join([*lines[:5], *lines[9:], "\n\n", *lines[5:7]])
    assert _compare("limit.py#L6-7", moved).status is AnchorStatus.HOLDS
    assert _compare("limit.py:wait", moved).status is AnchorStatus.HOLDS


def test_changed_lines_are_counted() -> None:
    changed = CODE.replace("time.sleep(seconds)", "time.sleep(2 * seconds)")
    assert _compare("limit.py#L6-7", changed)[1:3] == (AnchorStatus.CHANGED, 1)
    assert _compare("limit.py:wait", changed)[1:3] == (AnchorStatus.CHANGED, 1)
    assert _compare("limit.py", changed)[1:3] == (AnchorStatus.CHANGED, 1)
    added = CODE.replace("    time.sleep", "    assert seconds\n    print(seconds)\n    time.sleep")
    assert _compare("limit.py#L6-7", added)[1:3] == (AnchorStatus.CHANGED, 2)
    assert _compare("limit.py:wait", added)[1:3] == (AnchorStatus.CHANGED, 2)


def test_lines_beside_the_anchored_ones_are_no_change() -> None:
    before = CODE.replace("def wait", "@cache\ndef wait")
    assert _compare("limit.py#L6-7", before).status is AnchorStatus.HOLDS
    assert _compare("limit.py:wait", before)[1:3] == (AnchorStatus.CHANGED, 1)  # A decorator is.


def test_what_was_removed_is_gone() -> None:
    lines = CODE.splitlines(keepends=True)
    removed = "".join([*lines[:5], *lines[9:]])
    assert _compare("limit.py#L6-7", removed).status is AnchorStatus.GONE
    assert _compare("limit.py:wait", removed).status is AnchorStatus.GONE
    assert _compare("limit.py:nothing", removed).status is AnchorStatus.UNKNOWN
    assert _compare("limit.py#L900", removed).status is AnchorStatus.UNKNOWN


def test_a_renamed_symbol_is_changed() -> None:
    renamed = CODE.replace("def wait", "def pause")
    assert _compare("limit.py:wait", renamed)[1:3] == (AnchorStatus.CHANGED, 1)


@pytest.mark.parametrize(
    ("symbol", "span"),
    [
        ("LIMIT", (2, 3)),
        ("wait", (5, 7)),
        ("Refund", (9, 18)),
        ("Refund.limit", (10, 13)),
        ("Refund.pay", (14, 18)),
        ("Refund.wait", None),
        ("pay", None),
    ],
)
def test_python_symbols_are_found_by_its_grammar(symbol: str, span: tuple[int, int] | None) -> None:
    assert find_symbol("limit.py", CODE.splitlines(), symbol) == span


@pytest.mark.parametrize(
    ("path", "text", "symbol", "shown"),
    [
        ("a.js", "x(limit);\nfunction limit(a) {\n  return a;\n}\nlimit();\n", "limit", 3),
        ("a.js", "exports.limit = function (a) {\n  return a;\n};\n", "limit", 3),
        ("a.go", "// Limit is\nfunc (s *Shop) Limit(a int) int {\n\treturn a\n}\n", "Limit", 3),
        ("a.rs", "use x::limit;\npub fn limit(a: u8) -> u8 {\n    a\n}\n", "limit", 3),
        ("a.c", "int limit(int a);\n\nint limit(int a)\n{\n    return a;\n}\n", "limit", 4),
        ("a.rb", "def limit(a)\n  a\nend\n\nlimit 1\n", "limit", 3),
        ("old.py", "def limit(a):\n    print a\n\nlimit(1)\n", "limit", 2),
    ],
)
def test_symbols_of_other_languages_are_found_by_layout(
    path: str, text: str, symbol: str, shown: int
) -> None:
    span = find_symbol(path, text.splitlines(), symbol)
    assert span is not None
    assert span[1] - span[0] == shown


def test_states_are_described_in_words() -> None:
    anchor = Anchor("src/limit.py", 10, 20, "", "9f2c1ab4d6", "3b18e512aa")
    holds = AnchorCheck(anchor, AnchorStatus.HOLDS)
    changed = AnchorCheck(anchor, AnchorStatus.CHANGED, 3)
    moved = AnchorCheck(anchor, AnchorStatus.MOVED, 0, "src/new.py")
    assert str(holds) == "src/limit.py#L10-20 holds"
    assert changed.verdict == "changed since 9f2c (3 lines)"
    assert changed._replace(anchor=Anchor("a.py"), lines=1).verdict == "changed (1 line)"
    assert moved.verdict == "moved to src/new.py"
    assert moved._replace(lines=2).verdict == "moved to src/new.py, changed (2 lines)"
    assert AnchorCheck(anchor, AnchorStatus.GONE).verdict == "gone"
    assert AnchorCheck(anchor, AnchorStatus.UNKNOWN).verdict == "cannot tell here"
    assert describe_checks([holds, changed]).startswith(str(changed))
    assert describe_checks([holds] * 5).endswith("; 2 more")
    assert describe_checks([]) == ""


@pytest.mark.parametrize(
    ("place", "new", "shown"),
    [
        ("limit.py", CODE, CODE.splitlines()),
        ("limit.py#L6-7", f"import os\n{CODE}", CODE.splitlines()[5:7]),
        ("limit.py:wait", f"import os\n{CODE}", CODE.splitlines()[5:7]),
        ("limit.py#L7", CODE.replace("sleep(", "pause("), ["    time.pause(seconds)"]),
        (
            "limit.py#L3-3",
            CODE.replace("LIMIT = 3", "LIMIT = 4\nMOST = 5"),
            ["LIMIT = 4", "MOST = 5"],
        ),
        ("limit.py#L3", CODE.replace("LIMIT = 3\n", "LIMIT = 3\nMOST = 5\n"), ["LIMIT = 3"]),
        ("limit.py#L3", CODE.replace("LIMIT = 3\n", "MOST = 5\nLIMIT = 3\n"), ["LIMIT = 3"]),
    ],
)
def test_the_place_of_an_anchor_in_a_new_version(place: str, new: str, shown: list[str]) -> None:
    anchor = parse_anchor(place)
    assert anchor is not None
    span = locate_anchor(anchor, CODE.encode(), new.encode())
    assert span is not None
    assert new.splitlines()[slice(*span)] == shown


def test_a_copy_of_removed_lines_is_not_where_they_moved() -> None:
    block = "    a = load()\n    assert a\n"
    old = f"def first():\n{block}\n\ndef second():\n{block}"
    new = f"def second():\n{block}"
    assert _compare("x.py#L2-3", new, old).is_different
    assert _compare("x.py#L7-8", new, old).status is AnchorStatus.HOLDS
