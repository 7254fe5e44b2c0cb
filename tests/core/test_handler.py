"""python-frontmatter with our handler: what nobody changed is dumped byte for byte."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import frontmatter
import pytest
from frontmatter.default_handlers import BaseHandler
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import Generated, generated_notes
from vaultmem import NoteHandler, RefusedError
from vaultmem.core.notes.frontmatter import as_json, read_frontmatter

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(
    path for path in (ROOT / "sample-vault").rglob("*.md") if path.read_bytes().startswith(b"---")
)
ODD = [
    "",
    "\n",
    "body",
    "\n\n  body  \n\n",
    "\ufeff",
    "\ufeffbody\n",
    "\ufeff---\ntitle: a\n---\nbody\n",
    "---\ntitle: a\n---",
    "---\ntitle: a\n---\n",
    "---\ntitle: a\n---\n\n\n",
    "---\ntitle: a\n---\n\n    code\n\n",
    "---\r\ntitle: a\r\ntags:\r\n- b\r\n---\r\n\r\nbody\r\n\r\n",
    "--- \ntitle: a\n---\t\nbody\n",
    "---\n---\nbody\n",
    "---\n\n---\n",
    "---\n# nothing yet\n---\nbody\n",
    "---\n\nhello\n\n---\n\nmore\n",
    "----\ntitle: x\n----\n",
    "\n---\ntitle: x\n---\n",
    "---\ntitle: x\n\nnever closed",
    "---\ntitle: x\n...\nbody\n",
    "---\na: 1\n...\n---\nbody\n",
    "---\na: 1\na: 2\n---\nbody\n",
    "---\n# why\na: 010 # really\n\n# more\n---\nbody\n",
    "---\ncreated: {{date}} {{time}}\n---\nbody\n",
    "---\na: [1\n---\nbody\n",
    "---\na: &x 1\nb: *x\nc: !!python/name:os.system\n---\nbody\n",
    "---\na: |+\n  text\n\n---\nbody\n",
    "---\ntitle: a  \n---\nbody  \none\rtwo\r\nthree\r\r\n\x0b\x85\n",
    "---\ncontent: a\nhandler: b\nself: c\ntitle: d\n---\nbody\n",
    "\ufeff---\n\r\r\n\ufeffprose\x85\n---\n  body\n\n",
    "\r" * 500_000 + "x",
    "---\n? [a, b]\n: c\n'': d\n---\nbody\n",
]


def load(text: str) -> frontmatter.Post:
    return frontmatter.loads(text, handler=NoteHandler(text))


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:20])
def test_note_that_was_not_changed_is_dumped_as_it_was(text: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source.md", tmp_path / "target.md"
    source.write_bytes(text.encode())
    for place in (source, str(source), source.open(newline=""), source.open("rb")):
        post = frontmatter.load(place, handler=NoteHandler(text))  # type: ignore[arg-type]
        frontmatter.dump(post, target)
        assert target.read_bytes() == text.encode()
        if not isinstance(place, (str, Path)):
            place.close()


@pytest.mark.campaign
@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(),
        st.text("-\n\r: a[]#'\"\ufeff\x85 ", max_size=30).map("---\n".__add__),
        generated_notes().map(lambda note: note.text),
        st.lists(st.sampled_from(["---\n", "---", "a: b", "\r\n", "\n", " ", "\ufeff", "x"])).map(
            "".join
        ),
    )
)
def test_any_text_is_dumped_as_it_was(text: str) -> None:
    assert frontmatter.dumps(load(text)) == text


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_new_title_changes_the_line_of_the_title_alone(path: Path) -> None:
    text = path.read_bytes().decode()
    post = load(text)
    assert frontmatter.dumps(post) == text
    post["title"] = "x"
    old, new = text.splitlines(keepends=True), frontmatter.dumps(post).splitlines(keepends=True)
    assert "title: x\n" in new
    assert [line for line in new if line != "title: x\n"] == [
        line for line in old if not line.startswith("title: ")
    ]


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(generated_notes(), st.sampled_from(["x", "a: b", True, 3, date(2026, 11, 21), ["y", "z"]]))
def test_change_of_one_property_keeps_the_lines_of_all_others(
    note: Generated, value: object
) -> None:
    for name in (name for name, _ in note.parts if name):
        post = load(note.text)
        post[name] = value
        before, behind = note.around(name)
        after = frontmatter.dumps(post)
        assert after.startswith(before)
        assert after.endswith(behind)
        written = value.isoformat() if isinstance(value, date) else value
        assert load(after)[name] == written
        del post[name]
        assert frontmatter.dumps(post) == before + behind


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(generated_notes())
def test_values_are_those_of_our_json(note: Generated) -> None:
    properties = read_frontmatter(note.text).properties
    assert load(note.text).metadata == {prop.name: as_json(prop) for prop in properties}


def test_value_has_the_type_that_was_written() -> None:
    block = "a: 010\nb: 12\nc: 0.5\nd: yes\ne: 2026-11-21\nf: [x, '1']\ng:\nh: {i: j}\nk: '12'\n"
    post = load(f"---\n{block}---\n")
    assert list(post.values()) == ["010", 12, 0.5, True, "2026-11-21", ["x", "1"], None, None, "12"]
    post["b"], post["d"], post["k"] = 12, True, 12
    post["f"].append("z")  # type: ignore[attr-defined]
    changed = block.replace("k: '12'", "k: 12").replace("'1']", '"1", z]')
    assert frontmatter.dumps(post) == f"---\n{changed}---\n"


@pytest.mark.parametrize(
    ("text", "content", "expected"),
    [
        ("---\na: 1 # b\n---\n\nold\n\n", "new\n", "---\na: 1 # b\n---\n\nnew\n\n"),
        ("---\r\na: 1\r\n---\r\nold\r\n", "new\nlines", "---\r\na: 1\r\n---\r\nnew\r\nlines\r\n"),
        ("---\na: 1\n---", "new", "---\na: 1\n---\nnew\n"),
        ("---\na: 1\n---\n", "new", "---\na: 1\n---\nnew\n"),
        ("---\na: [1\n---\nold\n", "new", "---\na: [1\n---\nnew\n"),
        ("\ufeffold", "new", "\ufeffnew"),
        ("", "new", "new\n"),
        ("---\na: 1\n---\nold\n", "", "---\na: 1\n---\n\n"),
        ("\n\n    code\ntext\n", "code\nmore", "\n\n    code\nmore\n"),
        ("\n\n    code\ntext\n", "text", "\n\ntext\n"),
    ],
)
def test_new_content_stands_where_the_old_stood(text: str, content: str, expected: str) -> None:
    post = load(text)
    post.content = content
    assert frontmatter.dumps(post) == expected


def test_properties_and_content_change_together() -> None:
    post = load("\ufeffold\r\nlines\r\n")
    post.metadata.update(title="T", tags=["a"])
    post.content = "new"
    assert frontmatter.dumps(post) == ("\ufeff---\r\ntitle: T\r\ntags:\r\n  - a\r\n---\r\nnew\r\n")
    made = frontmatter.Post("body", handler=NoteHandler(""), title="x")
    assert frontmatter.dumps(made) == "---\ntitle: x\n---\nbody\n"


def test_names_that_the_library_takes_for_itself_stay_in_the_text() -> None:
    text = "---\ncontent: a\nhandler: b\nself: c\ntitle: d\n---\nbody\n"
    post = load(text)
    assert post.metadata == {"title": "d"}
    post["content"] = "x"
    del post["title"]
    assert frontmatter.dumps(post) == "---\ncontent: x\nhandler: b\nself: c\n---\nbody\n"


@pytest.mark.parametrize("text", ["---\na: [1\n---\nb\n", "---\na: 1\na: 2\n---\n", "---\na: x\nb"])
def test_block_that_cannot_be_read_is_never_rewritten(text: str) -> None:
    post = load(text)
    post["title"] = "x"
    with pytest.raises(RefusedError, match="fix it in an editor"):
        frontmatter.dumps(post)


@pytest.mark.parametrize("value", [None, {"a": 1}, [1], [["a"]], object()])
def test_value_that_is_no_property_is_refused(value: object) -> None:
    post = load("---\na: x\n---\n")
    post["a"] = value
    with pytest.raises(RefusedError, match='"a" cannot be of type'):
        frontmatter.dumps(post)


def test_handler_is_of_one_note() -> None:
    with pytest.raises(RefusedError, match="make one for each note"):
        frontmatter.loads("---\na: 1\n---\n", handler=NoteHandler("---\na: 2\n---\n"))


def test_methods_are_those_of_a_handler() -> None:
    text = "---\r\na: 1\r\n---\r\nbody\r\n"
    handler = NoteHandler(text)
    assert isinstance(handler, BaseHandler)
    assert handler.detect(text)
    assert not handler.detect("---\nprose\n---\n")
    assert handler.split(text) == ("a: 1\r\n", "body")
    assert handler.load("a: 1\r\n") == {"a": 1}
    assert handler.export({"a": 1, "b": ["c"]}) == "a: 1\r\nb:\r\n  - c\r\n"
