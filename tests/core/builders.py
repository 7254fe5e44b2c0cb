"""What the tests of the core share: notes as text, generated notes, and hits without an index."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from hypothesis import strategies as st

from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.search.query import Hit, NoteKey
from vaultmem.core.text.blob import blob_id

#: Characters that may stand in YAML without an escape, line breaks left out.
PRINTABLE = st.characters(
    codec="utf-8",
    exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cn", "Co"],
    exclude_characters="\ufeff",
)
NAMES = ["title", "tags", "kind", "pinned", "my own", "größe", "a-b", "x_1", "refs", "note"]

_WORD = st.text("abcxyzÄé漢😀-_/.", min_size=1, max_size=6).map(lambda word: f"w{word}")
_WORDS = st.lists(_WORD, min_size=1, max_size=3).map(" ".join)
_ODD = st.sampled_from(
    ["010", "12:30:45", "1e3", "yes", "~", "2026-11-21", "0x1F", ".nan", "a:b", "x#y", "[[N]]"]
)
_DOUBLE = st.text(PRINTABLE, max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False))
_SINGLE = st.text(PRINTABLE, max_size=8).map(lambda text: "'" + text.replace("'", "''") + "'")
_SCALAR = st.one_of(_WORDS, _ODD.filter(lambda text: text[0] != "["), _DOUBLE, _SINGLE)
_COMMENT = st.one_of(st.just(""), st.text(PRINTABLE, max_size=6).map(lambda text: f"  # {text}"))


@dataclass(frozen=True)
class Generated:
    """A note's text in the parts that it was made of; `parts` are (name or "", lines)."""

    head: str
    parts: tuple[tuple[str, str], ...]
    tail: str

    @property
    def block(self) -> str:
        return "".join(part for _, part in self.parts)

    @property
    def text(self) -> str:
        return self.head + self.block + self.tail

    def around(self, name: str) -> tuple[str, str]:
        """Return all that stands before and behind the lines of a property."""
        index = [part for part, _ in self.parts].index(name)
        before = "".join(part for _, part in self.parts[:index])
        behind = "".join(part for _, part in self.parts[index + 1 :])
        return self.head + before, behind + self.tail


@st.composite
def _property_lines(draw: st.DrawFn, name: str) -> list[str]:
    key = draw(st.sampled_from([f"{name}:", f"{name} :", f'"{name}":', f"'{name}':"]))
    pad = " " * draw(st.integers(1, 3))
    end = draw(_COMMENT)
    shape = draw(st.sampled_from(["scalar", "null", "long", "block", "hyphens", "flow", "map"]))
    if shape == "scalar":
        return [f"{key}{pad}{draw(_SCALAR)}{end}"]
    if shape == "null":
        return [f"{key}{draw(st.sampled_from(['', ' ', '  # empty']))}"]
    if shape == "long":
        return [f"{key}{pad}{draw(_WORDS)}", f"  {draw(_WORDS)}"]
    if shape == "block":
        lines = draw(st.lists(st.one_of(_WORDS, st.just("---"), st.just("# x")), min_size=1))
        return [
            f"{key}{pad}{draw(st.sampled_from(['|', '>', '|-', '>+']))}",
            *(f"  {x}" for x in lines),
        ]
    if shape == "hyphens":
        return [f"{key}{end}", *draw(_hyphen_lines())]
    if shape == "flow":
        items = draw(st.lists(st.one_of(_WORD, _DOUBLE), max_size=3))
        between = draw(st.sampled_from([", ", ",", " ,\n    "]))
        return f"{key}{pad}[{between.join(items)}]{end}".split("\n")
    return [key, f"  {draw(_WORD)}: {draw(_SCALAR)}", "  deeper:", "    - {a: [b, c]}"]


@st.composite
def _hyphen_lines(draw: st.DrawFn) -> list[str]:
    lead = " " * draw(st.sampled_from([0, 2, 4])) + "-" + " " * draw(st.integers(1, 2))
    lines = []
    for item in draw(st.lists(_SCALAR, min_size=1, max_size=4)):
        if draw(st.integers(0, 4)) == 0:
            lines.append("  # between")
        lines.append(f"{lead}{item}{draw(_COMMENT)}")
    return lines if lines[0].lstrip().startswith("-") else lines[1:]


@st.composite
def _free_lines(draw: st.DrawFn, behind_block: bool) -> list[str]:
    """Return blank lines and comments; such as a block scalar before them would not swallow."""
    choices = ["# a comment: with a colon", "#"]
    if not behind_block:
        choices += ["", "  # indented"]
    return draw(st.lists(st.sampled_from(choices), max_size=2))


@st.composite
def generated_notes(draw: st.DrawFn) -> Generated:
    """Notes with a frontmatter that is valid, in every shape that people write."""
    eol = draw(st.sampled_from(["\n", "\r\n"]))
    parts: list[tuple[str, str]] = []
    seen_block = False
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True)):
        if free := draw(_free_lines(seen_block)):
            parts.append(("", "".join(line + eol for line in free)))
        lines = draw(_property_lines(name))
        seen_block = seen_block or lines[0].endswith(("|", ">", "|-", ">+"))
        parts.append((name, "".join(line + eol for line in lines)))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return Generated(
        f"{bom}---{draw(st.sampled_from(['', ' ']))}{eol}", tuple(parts), draw(_tails(eol))
    )


@st.composite
def _tails(draw: st.DrawFn, eol: str) -> str:
    """Return the closing line and a body; often without a final newline."""
    if draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(["---", f"---{eol}"]))
    line = st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
        st.sampled_from(["---", "# Heading", "title: not a property", "```", "", "- item"]),
    )
    return f"---{eol}{eol.join(draw(st.lists(line, max_size=6)))}"


def make_note(text: str, path: str = "notes/inbox/note.md") -> Note:
    """Return a note as a sync would read it."""
    return parse_note(PurePosixPath(path), text.encode())


def list_notes(hits: Iterable[Hit], documents: Collection[int]) -> frozenset[NoteKey]:
    """Return the notes of those hits that are of some documents."""
    return frozenset(hit.note for hit in hits if hit.record.document in documents)


def make_hit(
    text: str,
    title: str = "A note",
    path: str = "notes/inbox/a-note.md",
    document: int = 1,
    heading: str = "",
    **properties: object,
) -> Hit:
    """Return a section that was found; `properties` are those of its `NoteRecord`."""
    record: dict[str, object] = {
        "document": document,
        "path": path,
        "blob": blob_id(text.encode()),
        "title": title,
        "kind": "semantic_fact",
        "state": "active",
        "pinned": False,
        "context": "inbox",
        "tags": (),
        "created": "2026-11-03T09:00:00",
        "updated": "",
        "confidence": None,
        "source": "",
        "agent": "",
        "session": "",
        "tokens": 0,
        "body_digest": "",
        "warnings": (),
        "changed": 0.0,
    }
    section = SectionRecord(document, 0, heading, (), 0, len(text), 1)
    return Hit(NoteRecord(**{**record, **properties}), section, text, 1.0, (), 0.0, 1.0)  # type: ignore[arg-type]


def read_values(text: str) -> dict[str, str | tuple[str, ...]]:
    """Return the values of a block of properties, by name."""
    return {prop.name: prop.value for prop in read_frontmatter(text).properties}
