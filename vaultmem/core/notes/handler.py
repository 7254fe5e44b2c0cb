"""python-frontmatter's handler for a note: what nobody changed is dumped byte for byte."""

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

#: What `Post` takes for arguments of its own: properties of these names stay in the text alone.
_TAKEN = frozenset(["self", "content", "handler"])


class NoteHandler(BaseHandler):
    """Loads and dumps the note of one text; `text` is the file, decoded, with its own line ends.

        post = frontmatter.loads(text, handler=NoteHandler(text))

    The handler is given the text because python-frontmatter strips what it loads, and makes its
    line ends plain, before it asks a handler. Values are those of vaultmem's JSON: text, an int or
    float that is written as Python writes it, True or False, a list of texts, and None for a map
    or nothing. All else is text as it is written (`010`, dates); no tag is followed.

    Dumping writes the lines of the properties that have another value or type than was loaded,
    and the content if it is another; so a block that cannot be read stays as it is.
    """

    FM_BOUNDARY = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = "---"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def detect(self, text: str) -> bool:
        """Tell whether a text begins with properties."""
        return read_frontmatter(text).body > 0

    def split(self, text: str) -> tuple[str, str]:
        """Return the note's block and its content; both empty where it has none.

        Raises:
            RefusedError: `text` is of another note than the handler.
        """
        if _find_words(text) != _find_words(self.text):
            raise RefusedError("the handler has another note's text; make one for each note")
        matter = read_frontmatter(self.text)
        return self.text[matter.start : matter.end], _read_content(self.text)

    def load(self, fm: str) -> dict[str, JsonValue]:
        """Return the values of a block, none if it cannot be read."""
        properties = read_frontmatter("---\n" + fm.removesuffix("\n") + "\n---\n").properties
        return {prop.name: as_json(prop) for prop in properties if prop.name not in _TAKEN}

    def export(self, metadata: dict[str, object], **_: object) -> str:
        """Return the note's block with these values.

        Raises:
            RefusedError: it cannot be read, or has no place for a value.
        """
        text = self._with_values(metadata)
        matter = read_frontmatter(text)
        return text[matter.start : matter.end]

    def format(self, post: Post, **_: object) -> str:
        """Return the note's text with the values and the content of a post.

        Raises:
            RefusedError: as for `export`.
        """
        text = self._with_values(post.metadata)
        content = _plain(post.content)
        return text if content == _read_content(self.text) else _with_content(text, content)

    def _with_values(self, metadata: dict[str, object]) -> str:
        matter = read_frontmatter(self.text)
        loaded = self.load(self.text[matter.start : matter.end])
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
    """Return a content as python-frontmatter has it, which makes line ends plain twice."""
    return re.sub(r"(?<!\r)\r+\n", "\n", text).strip()


def _read_content(text: str) -> str:
    return _plain(text[_find_body(text) :])


def _with_content(text: str, content: str) -> str:
    """Return the text with another content between the white space that stands round the old."""
    eol = find_eol(text)
    start = _find_body(text)
    old = text[start:].strip()
    lead, _, tail = text[start:].partition(old) if old else (text[start:], "", eol)
    if content.partition("\n")[0] != old.partition("\n")[0].rstrip("\r"):
        lead = lead[: lead.rfind("\n") + 1]  # Without the indent of a line that is not there.
    gap = "" if not start or text[:start].endswith(("\n", "\ufeff")) else eol
    return text[:start] + gap + lead + content.replace("\n", eol) + tail
