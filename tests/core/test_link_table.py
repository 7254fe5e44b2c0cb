"""Which note a link means: sixty cases and more, written from Obsidian's documented rules.

Help pages: "Internal links", "Aliases", "Embed files", "Settings > Files and links", "Basic
formatting syntax". Where the pages leave something open, what was observed on Obsidian 1.13.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_note
from vaultmem.core.notes.link_syntax import Link, LinkNames, find_links, find_place

FILES = [
    "Root.md",
    "MEMORY.md",
    "notes/Three laws of motion.md",
    "notes/auth/tokens.md",
    "notes/deploy/tokens.md",
    "notes/deploy/rollback.md",
    "notes/deploy/v1.2 release.md",
    "notes/café.md",
    "notes/AI.md",
    "notes/source.md",
    "archive/rollback.md",
    "archive/old/Note.md",
    "zzzz/Note.md",
    "a/b/Note.md",
    "zzzz/deep/here.md",
    "x/y/z/Unique.md",
    "primed/api/errors.md",
    "media/Figure 1.png",
    "notes/board.canvas",
]
ALIASES = {
    "notes/Three laws of motion.md": ["Newton's laws", "F=ma"],
    "notes/auth/tokens.md": ["Root", "credentials"],
    "notes/deploy/tokens.md": ["shared alias"],
    "archive/rollback.md": ["shared alias"],
}
SOURCE = "notes/source.md"

#: (what is written, in which note, what it means). None: no such file.
TABLE: list[tuple[str, str, str | None]] = [
    # The formats, "Supported formats for internal links".
    ("[[Three laws of motion]]", SOURCE, "notes/Three laws of motion.md"),
    ("[[Three laws of motion.md]]", SOURCE, "notes/Three laws of motion.md"),
    ("[x](Three%20laws%20of%20motion.md)", SOURCE, "notes/Three laws of motion.md"),
    ("[x](Three%20laws%20of%20motion)", SOURCE, "notes/Three laws of motion.md"),
    ("[x](<Three laws of motion.md>)", SOURCE, "notes/Three laws of motion.md"),
    ("[x](Three laws of motion.md)", SOURCE, ""),  # A literal space: no link.
    ("[x](Unique.md 'A title')", SOURCE, "x/y/z/Unique.md"),
    ("![[Three laws of motion]]", SOURCE, "notes/Three laws of motion.md"),
    ("![x](Unique.md)", SOURCE, "x/y/z/Unique.md"),
    ("[[Figure 1.png]]", SOURCE, "media/Figure 1.png"),
    ("![[Figure 1.png|100x145]]", SOURCE, "media/Figure 1.png"),
    ("[[Figure 1]]", SOURCE, None),  # Other formats need their ending.
    ("[[board.canvas]]", SOURCE, "notes/board.canvas"),
    ("[[board]]", SOURCE, None),
    # Display text, headings and blocks do not change what is meant.
    ("[[Unique|custom text]]", SOURCE, "x/y/z/Unique.md"),
    ("[[Unique#Second law]]", SOURCE, "x/y/z/Unique.md"),
    ("[[Unique#A#B]]", SOURCE, "x/y/z/Unique.md"),
    ("[[Unique#^37066d]]", SOURCE, "x/y/z/Unique.md"),
    ("[[Unique#Second law|text]]", SOURCE, "x/y/z/Unique.md"),
    ("![[Unique#^37066d]]", SOURCE, "x/y/z/Unique.md"),
    ("[x](Unique.md#Second%20law)", SOURCE, "x/y/z/Unique.md"),
    ("| [[Unique\\|in a table]] |", SOURCE, "x/y/z/Unique.md"),
    ("[[#Own heading]]", SOURCE, SOURCE),
    ("[[#^block]]", SOURCE, SOURCE),
    ("[x](#own-heading)", SOURCE, SOURCE),
    ("[[]]", SOURCE, ""),
    ("[[|text]]", SOURCE, ""),
    # Folders: from the vault's root, with `/`.
    ("[[notes/deploy/rollback]]", SOURCE, "notes/deploy/rollback.md"),
    ("[[archive/rollback]]", SOURCE, "archive/rollback.md"),
    ("[[notes/deploy/rollback.md]]", SOURCE, "notes/deploy/rollback.md"),
    ("[x](archive/rollback.md)", "notes/deploy/other.md", "archive/rollback.md"),
    ("[[/archive/rollback]]", SOURCE, "archive/rollback.md"),
    ("[[/rollback]]", SOURCE, None),  # From the root, and nowhere else.
    ("[[deploy/rollback]]", SOURCE, "notes/deploy/rollback.md"),  # The end of a path.
    ("[[y/z/Unique]]", SOURCE, "x/y/z/Unique.md"),
    ("[[eploy/rollback]]", SOURCE, None),  # Of whole names, that is.
    ("[[other/rollback]]", SOURCE, None),
    # Relative paths.
    ("[[./Three laws of motion]]", SOURCE, "notes/Three laws of motion.md"),
    ("[[./tokens]]", SOURCE, None),
    ("[[./deploy/rollback]]", SOURCE, "notes/deploy/rollback.md"),
    ("[[../Root]]", SOURCE, "Root.md"),
    ("[[../archive/rollback]]", SOURCE, "archive/rollback.md"),
    ("[[../../Root]]", "notes/auth/tokens.md", "Root.md"),
    ("[[../../Root]]", SOURCE, None),  # Out of the vault.
    ("[x](../archive/rollback.md)", SOURCE, "archive/rollback.md"),
    ("[x](./deploy/rollback.md)", SOURCE, "notes/deploy/rollback.md"),
    # Markdown destinations are looked up in the whole vault, like wikilinks.
    ("[x](Unique.md)", SOURCE, "x/y/z/Unique.md"),
    ("[x](https://example.org/Unique.md)", SOURCE, ""),
    ("[x](mailto:a@b.c)", SOURCE, ""),
    ("[x](caf%C3%A9.md)", SOURCE, "notes/café.md"),
    # Case and Unicode form do not matter.
    ("[[root]]", SOURCE, "Root.md"),
    ("[[ROOT.MD]]", SOURCE, "Root.md"),
    ("[[NOTES/deploy/ROLLBACK]]", SOURCE, "notes/deploy/rollback.md"),
    ("[[cafe\u0301]]", SOURCE, "notes/café.md"),
    # Several of one name: an exact path, own folder, shortest path, alphabet.
    ("[[Root]]", "notes/auth/tokens.md", "Root.md"),
    ("[[rollback]]", SOURCE, "archive/rollback.md"),
    ("[[rollback]]", "notes/deploy/x.md", "notes/deploy/rollback.md"),
    ("[[tokens]]", SOURCE, "notes/auth/tokens.md"),
    ("[[tokens]]", "notes/deploy/x.md", "notes/deploy/tokens.md"),
    ("[[Note]]", SOURCE, "a/b/Note.md"),  # 11 characters, before zzzz/Note.md with 12.
    ("[[Note]]", "zzzz/x.md", "zzzz/Note.md"),
    ("[[Note]]", "zzzz/deep/here.md", "a/b/Note.md"),  # A folder above counts for nothing.
    ("[[old/Note]]", SOURCE, "archive/old/Note.md"),
    # Names with dots, and names that are only nearly there.
    ("[[v1.2 release]]", SOURCE, "notes/deploy/v1.2 release.md"),
    ("[[v1.2]]", SOURCE, None),
    ("[[Three laws]]", SOURCE, None),
    ("[[Sq]uare]]", SOURCE, None),  # One bracket does not end a link.
    # Aliases: ours (Obsidian offers them while one types); a name always counts more.
    ("[[Newton's laws]]", SOURCE, "notes/Three laws of motion.md"),
    ("[[f=MA]]", SOURCE, "notes/Three laws of motion.md"),
    ("[[Root]]", "notes/auth/other.md", "Root.md"),
    ("[[shared alias]]", SOURCE, "archive/rollback.md"),
    ("[[shared alias]]", "notes/deploy/x.md", "notes/deploy/tokens.md"),
    ("[[credentials#Rotation|c]]", SOURCE, "notes/auth/tokens.md"),
    # No links: code, comments, escaped brackets, links over two lines.
    ("`[[Unique]]`", SOURCE, ""),
    ("`` a ` [[Unique]] ``", SOURCE, ""),
    ("```\n[[Unique]]\n```", SOURCE, ""),
    ("~~~md\n[x](Unique.md)\n~~~", SOURCE, ""),
    ("text\n\n    [[Unique]]", SOURCE, ""),
    ("- item\n\n    [[Unique]]", SOURCE, "x/y/z/Unique.md"),  # In a list, it is no code.
    ("<!-- [[Unique]] -->", SOURCE, ""),
    ("\\[[Unique]]", SOURCE, ""),
    ("[[Uni\nque]]", SOURCE, ""),
    ("[[Nested [[Unique]] x]]", SOURCE, "x/y/z/Unique.md"),
    ("a ` b [[Unique]]", SOURCE, "x/y/z/Unique.md"),  # One backtick alone is text.
]


def links(text: str) -> list[Link]:
    note = make_note(text)
    return [link for link in find_links(note.text, note.frontmatter) if not link.is_hidden]


@pytest.mark.parametrize(("written", "source", "meant"), TABLE)
def test_link_means_what_obsidian_documents(written: str, source: str, meant: str | None) -> None:
    found = links(f"Before {written} behind.\n" if "\n" not in written else f"{written}\n")
    if meant == "":
        assert found == []
        return
    assert len(found) == 1
    assert LinkNames(FILES, ALIASES).find(found[0], source) == meant


def test_the_table_has_sixty_cases_at_least() -> None:
    assert len(TABLE) >= 60


def test_of_twins_that_differ_in_case_the_one_as_written_is_meant() -> None:
    names = LinkNames(["n/Note.md", "n/note.md"])
    assert names.resolve("n/note", "x.md") == "n/note.md"
    assert names.resolve("n/Note", "x.md") == "n/Note.md"


def test_link_in_a_percent_comment_is_hidden_and_one_behind_it_is_not() -> None:
    note = make_note("%%[[A]]%% [[B]] %%\n\n[[C]] `%%` [[D]]\n%% [[E]] 100%% [[F]]\n")
    found = find_links(note.text, note.frontmatter)
    assert [link.path for link in found if link.is_hidden] == ["A", "C", "D"]
    assert [link.path for link in found if not link.is_hidden] == ["B", "E", "F"]


def test_property_is_a_link_if_its_whole_value_is_one() -> None:
    text = (
        '---\nparents:\n  - "[[A|x]]"\n  - plain\nsupersedes: "[[B#H]]"\nabout: see [[C]]\n'
        "list: [[D]]\nrefs:\n  - notes/e.md\n  - https://example.org\n  - '[[F]]'\n---\n[[G]]\n"
    )
    note = make_note(text)
    found = find_links(note.text, note.frontmatter)
    assert [(link.property, link.kind.value, link.path) for link in found] == [
        ("parents", "wikilink", "A"),
        ("supersedes", "wikilink", "B"),
        ("refs", "path", "notes/e.md"),
        ("refs", "wikilink", "F"),
        ("", "wikilink", "G"),
    ]
    assert [text[link.start : link.end] for link in found] == ["A", "B", "notes/e.md", "F", "G"]
    assert [link.line for link in found] == [3, 5, 9, 11, 13]


@pytest.mark.parametrize(
    ("cited", "path", "subpath"),
    [
        ("notes/auth/tokens.md#Rotation", "notes/auth/tokens.md", "Rotation"),
        ("notes/auth/tokens.md", "notes/auth/tokens.md", ""),
        ("src/limit.py#L10-20", "src/limit.py", ""),
        ("[C# two](notes/C%23%20two.md)", "notes/C# two.md", ""),
        ("[[tokens#Rotation]]", "tokens", "Rotation"),
    ],
)
def test_a_source_is_a_path_with_a_heading_or_a_link(cited: str, path: str, subpath: str) -> None:
    note = make_note(f'---\ncites:\n  - "{cited}"\n---\nText.\n')
    links = [(each.path, each.subpath) for each in find_links(note.text, note.frontmatter)]
    assert links == [(path, subpath)]


def test_frontmatter_that_cannot_be_read_has_no_links_and_the_body_has() -> None:
    assert [link.path for link in links('---\nx: [\nparents: "[[A]]"\n---\n[[B]]\n')] == ["B"]


PLACES = (
    "intro ^first\n\n# One\n\ntext\n\n## Sub: part!\n\n- item ^it-1\n\n"
    "# Two\n\n## Sub part\n\nlast\n"
)


@pytest.mark.parametrize(
    ("subpath", "heading"),
    [
        ("", ""),
        ("One", "One"),
        ("one#sub part", "Sub: part!"),
        ("Two#Sub part", "Sub part"),
        ("Sub   PART", "Sub: part!"),
        ("Two", "Sub part"),  # No text of its own: the first section below it.
        ("^first", ""),
        ("^IT-1", "Sub: part!"),
        ("^nowhere", None),
        ("Three", None),
        ("Two#One", None),
    ],
)
def test_subpath_leads_to_its_section(subpath: str, heading: str | None) -> None:
    note = make_note(PLACES)
    place = find_place(note.sections, subpath, note.text)
    assert (place and place.heading) == heading


@pytest.mark.parametrize("gap", ["\n\n", "\n \t\n", "\r\n\r\n", "\n\n\n"])
def test_code_ends_with_its_paragraph(gap: str) -> None:
    assert [link.path for link in links(f"a ` b [[A]]{gap}[[B]] ` c{gap}`[[C]]`{gap}")] == [
        "A",
        "B",
    ]


PIECES = [
    *("`", "``", "\\`", "\n", "\n\n", "\n \n", "\r\n", "\r\n\r\n", "    ", "\t", "- ", "[[a]]"),
    *("[b](c.md)", "[`d`](e.md)", "[![f](g)](h)", "[", "]", "](i)", "\\", "x", "```\n", "~~~\n"),
]


@pytest.mark.campaign
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_a_mark_that_hides_nothing_changes_no_link(text: str) -> None:
    """A paragraph is read alone where the note has no comment: the links must be the same."""
    note, marked = make_note(text), make_note(f"%%\n\n{text}")
    found = find_links(note.text, note.frontmatter, note.fences)
    moved = [
        each._replace(start=each.start + 4, end=each.end + 4, line=each.line + 2) for each in found
    ]
    assert list(find_links(marked.text, marked.frontmatter)) == moved


def test_many_marks_are_read_at_once() -> None:
    for piece in (
        "[[",
        "](",
        "`",
        "%%",
        "<!--",
        "[a](",
        "[[a|",
        "``` ",
        "    [[a]]\n\n",
        "` [a](b) ",
    ):
        text = piece * (200_000 // len(piece))
        find_links(text, make_note("").frontmatter)
