"""Links follow a renamed note by position: all other characters stay, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_note
from vaultmem.core.notes.link_syntax import LinkKind, LinkNames, find_links
from vaultmem.core.notes.rewrite_links import apply_edits, plan_edits

FILES = [
    "a/old.md",
    "a/other.md",
    "b/old.md",
    "b/c/x y.md",
    "deep/er/src.md",
    "media/p.png",
    "src.md",
]
MOVED = "a/old.md"
ALIASES = {"a/old.md": ["Alias"], "b/c/x y.md": ["Other alias"]}

LINKS = [
    *("[[old]]", "[[a/old]]", "[[a/old.md|text]]", "![[old#H|t]]", "[[/a/old]]", "[[Alias]]"),
    *(
        "[[OLD#^b]]",
        "[[../a/old]]",
        "[[./old]]",
        "[x](a/old.md)",
        "[x](../a/old.md#H)",
        "[[b/old]]",
    ),
    *(
        "[x](<a/old.md>)",
        '[x](old.md "t")',
        "[[x y]]",
        "[x](b/c/x%20y.md)",
        "[[other]]",
        "[[gone]]",
    ),
    *(
        "`[[a/old]]`",
        "%%[[a/old]]%%",
        "<!-- [[a/old]] -->",
        "![[p.png]]",
        "[[#own]]",
        "[[a/old\\|t]]",
    ),
]
WORDS = [
    "word",
    "é漢😀",
    "\t",
    "  ",
    "`",
    "[[",
    "]]",
    "](",
    "%%",
    "\n",
    "\r\n",
    "- ",
    "# H\n",
    "|",
    "\\",
]
HEADS = [
    "",
    "\ufeff",
    '---\nparents: "[[a/old]]"\n---\n',
    "---\r\nsupersedes:\r\n  - '[[old|x]]'\r\nrefs:\r\n  - a/old.md\r\n---\r\n",
    "---\nx: [\n---\n",
    "\ufeff---\ntitle: '[[a/old]]'\nmine: keep  # [[old]]\n---\n",
]
BODIES = st.lists(st.sampled_from([*LINKS, *WORDS]), max_size=14).map("".join)
TARGETS = st.sampled_from(
    [
        "a/new.md",
        "new.md",
        "b/c/new.md",
        "deep/er/old.md",
        "z/it's (new) é.md",
        "a/Old.md",
        "b/x y.md",
    ]
)


def names_of(files: list[str], moved: dict[str, str] | None = None) -> LinkNames:
    moved = moved or {}
    aliases = {moved.get(path, path): names for path, names in ALIASES.items()}
    return LinkNames([moved.get(path, path) for path in files], aliases)


@pytest.mark.campaign
@settings(max_examples=400, deadline=None)
@given(st.sampled_from(HEADS), BODIES, st.sampled_from(FILES[:5] + FILES[6:]), TARGETS)
def test_only_paths_of_links_change_and_each_link_means_what_it_meant(
    head: str, body: str, source: str, new: str
) -> None:
    text = head + body
    place = (source, new if source == MOVED else source)
    before, after = names_of(FILES), names_of(FILES, {MOVED: new})
    edits = plan_edits(text, place, before, after, (MOVED, new))
    changed = apply_edits(text, edits)

    old_links = find_links(text, make_note(text).frontmatter)
    new_links = find_links(changed, make_note(changed).frontmatter)
    assert len(old_links) == len(new_links)
    for old, fresh in zip(old_links, new_links, strict=True):
        meant = before.find(old, place[0])
        if meant is not None and old.start >= 0:
            assert after.find(fresh, place[1]) == (new if meant == MOVED else meant), old
        if "[" not in old.text:  # A link's text may hold another link.
            assert fresh.text == old.text
        assert (fresh.kind, fresh.subpath, fresh.line, fresh.property) == (
            (old.kind, old.subpath, old.line, old.property)
        )
    assert cut(text, [(e.link.start, e.link.end) for e in edits]) == cut(
        changed,
        [
            (link.start, link.end)
            for link, old in zip(new_links, old_links, strict=True)
            if old in {e.link for e in edits}
        ],
    )
    assert plan_edits(changed, (place[1], place[1]), after, after, (MOVED, MOVED)) == []


def cut(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text without these spans."""
    for start, end in reversed(spans):
        text = text[:start] + "\0" + text[end:]
    return text.replace("''", "'")


@pytest.mark.parametrize(
    ("written", "source", "new", "wanted"),
    [
        ("[[old]]", "a/other.md", "a/new.md", "[[new]]"),
        ("[[a/old|t]]", "src.md", "b/new.md", "[[b/new|t]]"),
        ("[[a/old.md#H]]", "src.md", "a/new.md", "[[a/new.md#H]]"),
        ("[[../../a/old]]", "deep/er/src.md", "a/new.md", "[[../../a/new]]"),
        ("[x](../../a/old.md)", "deep/er/src.md", "a/n w.md", "[x](../../a/n%20w.md)"),
        ("[x](a/old.md#s)", "src.md", "a/new.md", "[x](a/new.md#s)"),
        ("[x](<a/old.md>)", "src.md", "a/n w.md", "[x](<a/n%20w.md>)"),
        ("[[/a/old]]", "src.md", "c/new.md", "[[/c/new]]"),
        ("[[OLD]]", "a/other.md", "a/new.md", "[[new]]"),
        ("[[Alias]]", "src.md", "a/new.md", "[[Alias]]"),
        ("[[old]]", "a/other.md", "c/old.md", "[[c/old]]"),  # `old` alone would be b/old.md.
        ("[[old]]", "b/x.md", "a/new.md", "[[old]]"),  # b/old.md was meant all along.
        ("[[x y]]", "src.md", "b/x y.md", "[[b/c/x y]]"),  # The new name comes in between.
        ("[x](x%20y.md)", "src.md", "x y.md", "[x](b/c/x%20y.md)"),
    ],
)
def test_link_is_written_anew_in_its_own_way(
    written: str, source: str, new: str, wanted: str
) -> None:
    before, after = names_of(FILES), names_of(FILES, {MOVED: new})
    edits = plan_edits(written, (source, source), before, after, (MOVED, new))
    assert apply_edits(written, edits) == wanted


def test_moved_note_keeps_its_own_relative_links() -> None:
    text = "[[./other]] [x](../b/old.md) [[other]] [[#H]]\n"
    before, after = names_of(FILES), names_of(FILES, {MOVED: "deep/er/new.md"})
    edits = plan_edits(text, (MOVED, "deep/er/new.md"), before, after, (MOVED, "deep/er/new.md"))
    assert apply_edits(text, edits) == ("[[../../a/other]] [x](../../b/old.md) [[other]] [[#H]]\n")


def test_kinds_are_what_json_says() -> None:
    assert {kind.value for kind in LinkKind} == {"wikilink", "markdown", "path"}
