"""A handler for python-frontmatter that dumps unchanged parts of a note byte for byte."""

from __future__ import annotations

import re
from datetime import date

from frontmatter import Post
from frontmatter.default_handlers import BaseHandler

from vaultmem.core.notes.edit_properties import (
    PropertyValue,
    find_eol,
    remove_property,
    set_property,
)
from vaultmem.core.notes.frontmatter import JsonValue, as_json, read_frontmatter
from vaultmem.errors import RefusedError

#: Names of `Post`'s own arguments; properties with these names are not loaded.
_POST_ARGUMENTS = frozenset(["self", "content", "handler"])


class NoteHandler(BaseHandler):
    """Load and dump one note; `text` is the decoded file with its own line ends.

        post = frontmatter.loads(text, handler=NoteHandler(text))

    The handler needs the text because python-frontmatter strips it and changes its line ends before
    it calls a handler. Values are those of vaultmem's JSON: text, bool, a list of texts, an int or
    float written as in Python, and None for a map or an empty value. Other values are text as
    written (`010`, dates); tags are not followed.

    Dumping writes only the properties with a changed value or type, and changed content. A block
    that cannot be read stays unchanged.
    """

    FM_BOUNDARY = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = "---"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def detect(self, text: str) -> bool:
        """Return whether a text begins with frontmatter."""
        return read_frontmatter(text).body > 0

    def split(self, text: str) -> tuple[str, str]:
        """Return the note's block and its content; the block is "" without frontmatter.

        Raises:
            RefusedError: `text` is not the text of this handler's note.
        """
        if _find_words(text) != _find_words(self.text):
            raise RefusedError("the handler has another note's text; make one for each note")
        frontmatter = read_frontmatter(self.text)
        return self.text[frontmatter.start : frontmatter.end], _read_content(self.text)

    def load(self, fm: str) -> dict[str, JsonValue]:
        """Return the values of a block; empty if it cannot be read."""
        properties = read_frontmatter("---\n" + fm.removesuffix("\n") + "\n---\n").properties
        return {prop.name: as_json(prop) for prop in properties if prop.name not in _POST_ARGUMENTS}

    def export(self, metadata: dict[str, object], **_: object) -> str:
        """Return the note's block with these values.

        Raises:
            RefusedError: the block cannot be read, or cannot contain a value.
        """
        text = self._with_values(metadata)
        frontmatter = read_frontmatter(text)
        return text[frontmatter.start : frontmatter.end]

    def format(self, post: Post, **_: object) -> str:
        """Return the note's text with the values and the content of a post.

        Raises:
            RefusedError: as for `export`.
        """
        text = self._with_values(post.metadata)
        content = _plain(post.content)
        return text if content == _read_content(self.text) else _with_content(text, content)

    def _with_values(self, metadata: dict[str, object]) -> str:
        frontmatter = read_frontmatter(self.text)
        loaded = self.load(self.text[frontmatter.start : frontmatter.end])
        text = self.text
        for name in loaded:
            text = text if name in metadata else remove_property(text, name)
        for name, value in metadata.items():
            is_known = name in loaded and type(value) is type(loaded[name])
            if not is_known or value != loaded[name]:
                text = set_property(text, name, _check_value(name, value))
        return text


def _check_value(name: str, value: object) -> PropertyValue:
    if isinstance(value, (str, bool, int, float, date)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise RefusedError(
        f'"{name}" cannot be of type {type(value).__name__}; use text, a number, True or False, '
        "a date, or a list of texts"
    )


def _find_words(text: str) -> list[str]:
    return text.replace("\ufeff", "").split()


def _find_body(text: str) -> int:
    return read_frontmatter(text).body or int(text.startswith("\ufeff"))


def _plain(text: str) -> str:
    """Return content as python-frontmatter does, which normalizes line ends twice."""
    return re.sub(r"(?<!\r)\r+\n", "\n", text).strip()


def _read_content(text: str) -> str:
    return _plain(text[_find_body(text) :])


def _with_content(text: str, content: str) -> str:
    """Return the text with the content replaced; the white space around it stays."""
    eol = find_eol(text)
    start = _find_body(text)
    old = text[start:].strip()
    lead, _, tail = text[start:].partition(old) if old else (text[start:], "", eol)
    if content.partition("\n")[0] != old.partition("\n")[0].rstrip("\r"):
        lead = lead[: lead.rfind("\n") + 1]  # Without the old line's indent.
    gap = "" if not start or text[:start].endswith(("\n", "\ufeff")) else eol
    return text[:start] + gap + lead + content.replace("\n", eol) + tail
