"""Split a markdown document at its headings into notes that people can edit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.anchors import CITES
from vaultmem.core.notes.edit_properties import (
    PropertyValue,
    format_note,
    get_title,
    set_property,
)
from vaultmem.core.notes.frontmatter import PropertyReader, read_frontmatter
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.sections import find_fences
from vaultmem.core.text.paths import slugify

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
#: The start of a block that cannot be part of a setext heading's paragraph.
_BLOCK = re.compile(
    r" {0,3}(?:[-+*](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|>|#{1,6}(?:[ \t]|$)|<|\||"
    r"(?:[*_-][ \t]*){3,}$)"
)
_CODE = re.compile(r"(?: {4}| {0,3}\t)")


class DocumentPart(NamedTuple):
    """A heading with the text up to the next one; `line` is the 1-based line of the heading.

    `parents` are the headings above it, outermost first. `body` has no blank lines around it.
    """

    heading: str
    parents: tuple[str, ...]
    body: str
    line: int


class Document(NamedTuple):
    """A document's title, or "", and its parts with text."""

    title: str
    parts: tuple[DocumentPart, ...]


def split_document(text: str) -> Document:
    """Split a document into parts; of its properties, only the title is used.

    Text before the first heading is a part without a heading. Headings in code are text.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    frontmatter = read_frontmatter(text)
    title = frontmatter.get("title")
    lines = text.split("\n")
    first = text.count("\n", 0, frontmatter.body)
    headings = _find_headings(lines, first, _code_lines(text, frontmatter.body))
    parts: list[DocumentPart] = []
    stack: list[tuple[int, str]] = []
    spans = [(first, first, 0, ""), *headings]
    for index, (start, body, level, heading) in enumerate(spans):
        stack = [each for each in stack if each[0] < level]
        end = spans[index + 1][0] if index + 1 < len(spans) else len(lines)
        body_lines = _strip_blank(lines[body:end])
        if body_lines:
            parents = tuple(name for _, name in stack)
            parts.append(DocumentPart(heading, parents, "\n".join(body_lines), start + 1))
        if level:
            stack.append((level, heading))
    title_text = title.value if title is not None and isinstance(title.value, str) else ""
    return Document(title_text.strip() or (headings[0][3] if headings else ""), tuple(parts))


def _code_lines(text: str, body: int) -> set[int]:
    """Return the line numbers (from 0) of fenced code."""
    numbers: set[int] = set()
    for start, end in find_fences(text, body):
        first = text.count("\n", 0, start)
        numbers.update(range(first, first + text.count("\n", start, end) + 1))
    return numbers


def _find_headings(lines: list[str], first: int, code: set[int]) -> list[tuple[int, int, int, str]]:
    """Return (first line, line after, level, text) of each heading."""
    headings: list[tuple[int, int, int, str]] = []
    paragraph = -1
    for number in range(first, len(lines)):
        line = lines[number]
        if number in code or not line.strip():
            paragraph = -1
            continue
        underline = _UNDERLINE.match(line)
        if underline and paragraph >= 0:
            words = " ".join(each.strip() for each in lines[paragraph:number])
            headings.append((paragraph, number + 1, 1 if underline[1][0] == "=" else 2, words))
            paragraph = -1
        elif atx := _ATX.match(line):
            if words := (atx[2] or "").strip():
                headings.append((number, number + 1, len(atx[1]), words))
            paragraph = -1
        elif paragraph < 0 and not _BLOCK.match(line) and not _CODE.match(line):
            is_start = number == first or not lines[number - 1].strip() or number - 1 in code
            after_heading = bool(headings) and headings[-1][1] == number
            paragraph = number if is_start or after_heading else -1
    return headings


def _strip_blank(lines: list[str]) -> list[str]:
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]


FOLDER = "primed"

_PROPERTY = "primed"


class PrimedNote(NamedTuple):
    """A note to write for a document's part; `origin` is the document, `line` the part's line."""

    path: str
    title: str
    origin: str
    body: str
    line: int

    @property
    def digest(self) -> str:
        """The digest of title and text, stored in the note's property."""
        return digest_words(self.title, self.body)


class PrimePlan(NamedTuple):
    """The changes of an import: new texts by path (None to remove), and the unchanged notes.

    `kept_notes` maps paths that differ from the source to the reason why they stay.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    kept_notes: Mapping[str, str]
    texts: Mapping[str, str | None]


def digest_words(title: str, body: str) -> str:
    """Return a digest of a title and a text, ignoring outer white space and line ends."""
    words = f"{title.strip()}\n{body.replace(chr(13) + chr(10), chr(10)).strip()}"
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def choose_note_paths(
    source: str, file: str, document: Document, folder: str = ""
) -> list[PrimedNote]:
    """Return the notes for a document's parts, in `primed/<source>/<folder>`.

    The name comes from the heading; if used, from its parent and the heading, then with a number.
    So a part keeps its name as long as the headings before it stay.
    """
    place = PurePosixPath(FOLDER, source, folder)
    slugs: set[str] = set()
    notes = []
    for part in document.parts:
        title = part.heading or document.title or PurePosixPath(file).stem or source
        slug = _choose_slug(title, part.parents, slugs)
        slugs.add(slug)
        notes.append(
            PrimedNote(
                path=str(place / f"{slug}.md"),
                title=title,
                origin=file,
                body=part.body,
                line=part.line,
            )
        )
    return notes


def plan_priming(
    notes: Sequence[PrimedNote],
    existing: Mapping[str, Note],
    pin: bool = False,
    overwrite: bool = False,
) -> PrimePlan:
    """Compare the source's notes with the notes below `primed/<source>/`.

    Edited notes, and notes written there by hand, are kept. `overwrite` replaces edited notes, but
    never notes written by hand.
    """
    reasons: dict[str, str] = {}
    texts: dict[str, str | None] = {}
    for new in notes:
        old = existing.get(new.path)
        if old is None:
            texts[new.path] = _write_note(new, pin)
        elif not (old_digest := primed_digest(old)):
            reasons[new.path] = "written by hand"
        elif old_digest == new.digest and not (overwrite and is_edited(old)):
            text = _pinned(old.text) if pin and not old.pinned else old.text
            if text != old.text:
                texts[new.path] = text
        elif is_edited(old) and not overwrite:
            reasons[new.path] = "edited here, and changed in the source"
        else:
            texts[new.path] = _update_note(old, new, pin)
    for path in existing.keys() - {new.path for new in notes}:
        if primed_digest(existing[path]):
            if is_edited(existing[path]) and not overwrite:
                reasons[path] = "edited here, and gone from the source"
            else:
                texts[path] = None
    listed_paths = texts.keys() | reasons.keys()
    return PrimePlan(
        added=tuple(path for path in texts if path not in existing),
        changed=tuple(
            path for path, text in texts.items() if path in existing and text is not None
        ),
        removed=tuple(sorted(path for path, text in texts.items() if text is None)),
        unchanged=tuple(new.path for new in notes if new.path not in listed_paths),
        kept_notes=dict(sorted(reasons.items())),
        texts=texts,
    )


def primed_digest(note: Note) -> str:
    """Return the digest in a note's property, "" for a note written by hand."""
    return PropertyReader(note.frontmatter).text(_PROPERTY)


def is_edited(note: Note) -> bool:
    """Return whether a primed note's title or text was edited."""
    return primed_digest(note) != digest_words(note.title, note.body)


def _choose_slug(title: str, parents: tuple[str, ...], slugs: set[str]) -> str:
    slug = slugify(title)
    if slug in slugs and parents:
        slug = slugify(f"{parents[-1]} {title}")
    number, name = 1, slug
    while name in slugs:
        number += 1
        name = f"{slug}-{number}"
    return name


def _write_note(new: PrimedNote, pin: bool) -> str:
    properties: dict[str, PropertyValue | None] = {
        "pinned": True if pin else None,
        CITES: (new.origin,) if new.origin else None,
        _PROPERTY: new.digest,
    }
    text = format_note(properties, f"\n{new.body}\n")
    return get_title(text, PurePosixPath(new.path), new.title)


def _update_note(old: Note, new: PrimedNote, pin: bool) -> str:
    """Return a note with the source's title and text; its other properties stay."""
    text = old.text[: old.frontmatter.body] + f"\n{new.body}\n"
    text = get_title(text, old.path, new.title)
    text = set_property(text, _PROPERTY, new.digest)
    return _pinned(text) if pin and not old.pinned else text


def _pinned(text: str) -> str:
    return set_property(text, "pinned", True)
