"""Notes as HTML: what Obsidian shows, with the lines that it stands in; UPDATE_GOLDEN=1 writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from rendered_notes import GOLDEN, PATH, find_note_faults, render

from vaultmem.core.notes.link_syntax import LinkNames
from vaultmem.web.markdown.html import make_parser, render_note
from vaultmem.web.markdown.html_links import Addresses, Budget, LinkContext, Page

FEATURES = (GOLDEN / "note-features.md").read_text()


def test_a_note_of_all_features_is_rendered_as_agreed() -> None:
    rendered = render(FEATURES)
    golden = GOLDEN / "note-features.html"
    html = f"{rendered.properties}\n{rendered.html}"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(html)
    assert html == golden.read_text()
    assert find_note_faults(rendered) == []


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[[Other note]]", '<a class="internal" href="/note/sub/Other%20note.md">Other note</a>'),
        ("[[other NOTE|so]]", '<a class="internal" href="/note/sub/Other%20note.md">so</a>'),
        (
            "[[Other note#Part two!|x]]",
            '<a class="internal" href="/note/sub/Other%20note.md#note-part-two">x</a>',
        ),
        ("[[#A heading]]", '<a class="internal" href="#note-a-heading">A heading</a>'),
        (
            "[[report.pdf]]",
            '<a class="internal file" href="/file/report.pdf">report.pdf</a>',
        ),
        ("`[[Other note]]`", "<code>[[Other note]]</code>"),
        (r"\[[Other note]]", "[[Other note]]"),
        ("a ==b *c*== d", "a <mark>b <em>c</em></mark> d"),
        ("a == b", "a == b"),
        ("a%%b%%c", "ac"),
        ("x #tag/sub, y", 'x <a class="tag" href="/tag/tag/sub">#tag/sub</a>, y'),
        ("x#y #12 \\#z", "x#y #12 #z"),
        ("$a*b*c$ and 5$ or 6$", '<span class="math">$a*b*c$</span> and 5$ or 6$'),
        ("a<br/>b<b>c</b>", "a<br>\nb<b>c</b>"),
        ("x<sub>*2*</sub> <KBD>a</KBD>", "x<sub><em>2</em></sub> <kbd>a</kbd>"),
        ("<sub class=x>2</sub> <sub>", "&lt;sub class=x&gt;2&lt;/sub&gt; &lt;sub&gt;"),
        ('<a name="x.y"></a>b<a id="x-y"/>', '<a id="note-x-y"></a>b'),
        (
            "[![a](report.pdf) ![b](img/image.png)](#x)",
            '<a class="internal" href="#note-x"><span class="image">a</span> '
            '<img src="/file/img/image.png" alt="b" loading="lazy"></a>',
        ),
        ("one\ntwo", "one<br>\ntwo"),
        ("x ^name", "x"),
    ],
)
def test_what_stands_in_a_line(text: str, html: str) -> None:
    shown = render(text).html.partition(">")[2].removesuffix("</p>\n")
    assert shown == html


def test_links_and_the_index_agree_on_what_a_link_means() -> None:
    notes = {"b/Twin.md": "", "a/Twin.md": "", "a/From.md": "", "Long name (x).md": ""}
    html = render("[[Twin]] [t](../b/Twin.md) [l](Long%20name%20(x).md)", "a/From.md", notes).html
    assert [piece.partition('"')[0] for piece in html.split('href="')[1:]] == [
        "/note/a/Twin.md",
        "/note/b/Twin.md",
        "/note/Long%20name%20%28x%29.md",
    ]


def test_blocks_have_the_lines_of_the_file() -> None:
    text = "---\na: b\n---\n\n# H\r\n\r\ntext\rmore\r\n\n- one\n- two\n  more\n\n"
    html = render(text + "```\nx\n```\n%%\nh\n%%\nend\n").html
    pairs = [piece.split('"')[0:3:2] for piece in html.split('data-line="')[1:]]
    assert pairs == [["5", "5"], ["7", "7"], ["9", "9"], ["10", "11"], ["13", "15"], ["19", "19"]]


def test_headings_are_told_with_their_places() -> None:
    headings = render(
        "---\na: b\n---\n# One [[Other note|two]]\n\n## Same\n## Same\n# `!`\n"
    ).headings
    assert [(each.level, each.text, each.anchor, each.line) for each in headings] == [
        (1, "One two", "note-one-other-note-two", 4),
        (2, "Same", "note-same", 6),
        (2, "Same", "note-same-2", 7),
        (1, "!", "note-section", 8),
    ]


def test_a_note_that_embeds_itself_ends() -> None:
    ring = {f"{n}.md": f"![[{n + 1}]]\n\n![[{n - 1}]]" for n in range(1, 30)}
    html = render("![[1]]\n\n![[" + PATH + "]]", notes=ring).html
    assert "This note embeds itself" in html
    assert "Embeds are nested too deeply" in html


def test_a_page_has_so_many_embeds_and_no_more() -> None:
    html = render("![[many]]\n\n" * 100, notes={"many.md": "text of it"}).html
    assert html.count("text of it") == 50
    assert "This page has too many embeds" in html


def test_what_is_nested_too_deeply_or_too_large_is_shown_as_text() -> None:
    deep = render("> " * 200 + "bottom")
    assert "bottom" in deep.html
    assert not deep.html.startswith("<pre")
    large = render("---\na: b\n---\n" + "- <*b*>\n" * 30_000)
    assert large.html.startswith('<pre class="plain" data-line="4" data-end="30003"')
    assert "<th>a</th>" in large.properties


@pytest.mark.parametrize("link", ["[[two]]", "[two](two.md)"])
def test_a_property_that_is_one_link_is_a_link(link: str) -> None:
    shown = render(f'---\nsupersedes:\n  - "{link}"\n---\nText.\n', notes={"two.md": "Two."})
    assert 'class="internal"' in shown.properties
    assert ">two</a>" in shown.properties


def test_a_file_that_is_not_shown_is_no_link() -> None:
    names = LinkNames(["a.md", "report.pdf"])
    addresses = Addresses(file=lambda path: "")
    around = LinkContext(names.find, lambda path: None, addresses)
    text = "[[report.pdf]] ![[report.pdf]] [x](report.pdf) ![y](report.pdf)"
    html = render_note(text, "a.md", around).html
    assert html.count('<span class="file" title="This file type is not shown">') == 4
    assert "<a" not in html


def test_tags_in_properties_are_those_of_the_index() -> None:
    text = "---\ntags: one, two/three,\nTags: x\n---\n"
    hrefs = [piece.partition('"')[0] for piece in render(text).properties.split('href="')[1:]]
    assert hrefs == ["/tag/one", "/tag/two/three"]


def test_properties_that_cannot_be_read_are_shown_as_written() -> None:
    rendered = render("---\nstate: [active\n---\nbody")
    assert rendered.properties.endswith(">state: [active\n</pre>")
    assert "body" in rendered.html
    assert "<code>b: [1, {c: d}]" in render("---\na:\n  b: [1, {c: d}]\n---\n").properties


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_render_at_once_get_the_same() -> None:
    """The first ones found some of the rules: a heading was a paragraph for one in fifty."""
    page = Page("x.md", LinkContext(lambda link, path: None, lambda path: None), Budget(), 0)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(60):
            parser, barrier = make_parser(lambda token, page: ""), Barrier(4)

            def begin(_: int, parser=parser, barrier=barrier) -> int:  # type: ignore[no-untyped-def]
                barrier.wait()
                return len(parser.parse("# a\n\n- b", {"page": page}))

            assert set(pool.map(begin, range(4))) == {10}
