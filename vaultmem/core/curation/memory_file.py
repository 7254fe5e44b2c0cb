"""MEMORY.md: add bullets for promoted notes, and propose lines to remove."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.notes.link_syntax import decode_destination
from vaultmem.core.notes.note import Note
from vaultmem.core.sessions.session_note import append_to_section
from vaultmem.core.text.token_count import count_tokens

MEMORY = PurePosixPath("MEMORY.md")

#: The heading for notes of each kind; others use `PROJECT`.
PROJECT = "Project"
HEADINGS = {
    NoteKind.DECISION: "Conventions",
    NoteKind.POLICY_RULE: "Conventions",
    NoteKind.PROCEDURAL_SKILL: "Conventions",
    NoteKind.PREFERENCE: "Conventions",
    NoteKind.REFLECTION: "Gotchas",
    NoteKind.DEAD_END: "Gotchas",
    NoteKind.EPISODIC_TRACE: "Gotchas",
    NoteKind.EVAL_RESULT: "Gotchas",
}

#: Most characters of a bullet's sentence; longer sentences are not added.
_MAX_FACT = 280

#: Markup characters; not numbers such as `< 200` or `[0]`.
_MARKS = re.compile(
    r"\[\[+|\]\]+|(?<=\])\(|\[(?=\^|.\])|<(?=[A-Za-z/!?])|[`\x00-\x1f\x7f]+|%%+|(?<!\S)#(?=[^\W\d])"
)
_BULLET = re.compile(r"[-*+] +\S")
_LINK_LAST = re.compile(r"[-*+] +\S.*(?:\[\[([^\[\]|#]+)\]\]|\[[^\[\]]*\]\(([^()\s]+)\.md\))\s*")
_TRUNCATION_MARK = " ..."


class MemoryFileLimit(NamedTuple):
    """The maximum size of MEMORY.md, in lines and tokens."""

    lines: int
    tokens: int

    def lacks(self, text: str) -> bool:
        """Return whether a text exceeds the maximum."""
        return text.count("\n") > self.lines or count_tokens(text) > self.tokens


class MemoryMove(NamedTuple):
    """A line of MEMORY.md (1-based) that can be removed, with the reason.

    `note` is the path of the note with the content, "" if one must be written first. `score` is the
    note's strength.
    """

    line: int
    text: str
    reason: str
    note: str
    score: float
    tokens: int


def choose_fact(note: Note) -> str:
    """Return the sentence for a note's bullet: its own title, else its whole first sentence.

    A title made from the text can end in the middle of a sentence, and a file's name in one word
    states nothing. "" if the sentence is too long.
    """
    from vaultmem.core.similarity.statement import split_sentences

    text = next(filter(None, map(note.section_text, note.sections)), "")
    plain = " ".join(text.split()).lstrip("#>-* ")
    title = " ".join(note.title.split())
    fact = title
    is_bare_name = title == note.path.stem and " " not in title
    if is_bare_name or title.endswith(_TRUNCATION_MARK) or plain.startswith(title):
        fact = next(iter(split_sentences(text)), title).lstrip("#>-* ")
    fact = re.sub(r" +(?=[,;.])", "", " ".join(_MARKS.sub(" ", fact).split()))
    return fact if len(fact) <= _MAX_FACT else ""


#: Characters that change the display order of a text.
_BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def format_bullet(fact: str, link: str) -> str:
    """Return the bullet line with a fact and the link to its note."""
    fact = _BIDI_CONTROLS.sub("", fact)
    end = "" if fact.endswith((".", "!", "?", ":")) else ":"
    return f"- {fact}{end} {link}"


def find_bullets(text: str, path: str) -> dict[int, str]:
    """Return the lines (0-based) that a consolidation might have added for a note, with links."""
    names = {path.removesuffix(".md"), PurePosixPath(path).stem}
    matches = ((n, _LINK_LAST.fullmatch(line)) for n, line in enumerate(text.splitlines()))
    links = {n: match[1] or decode_destination(match[2]) for n, match in matches if match}
    return {n: link for n, link in links.items() if link in names}


def format_heading(kind: str) -> str:
    """Return the heading for notes of this kind."""
    return HEADINGS.get(NoteKind(kind), PROJECT)


def add_bullets(text: str, bullets: Iterable[tuple[str, str]]) -> str:
    """Return MEMORY.md's text with bullets (heading, line) at the ends of their sections."""
    by_heading: dict[str, list[str]] = {}
    for heading, line in bullets:
        by_heading.setdefault(heading, []).append(line)
    for heading, lines in by_heading.items():
        text = append_to_section(text, heading, "\n".join(lines))
    return text


def propose_moves(
    note: Note,
    linked: Mapping[int, str],
    scores: Mapping[str, float],
    hidden: Mapping[str, str],
    room: MemoryFileLimit,
    new_text: str = "",
) -> list[MemoryMove]:
    """Return lines to remove from MEMORY.md: bullets of hidden notes, and the weakest for space.

    `linked` maps line numbers to the notes that the bullets link, `hidden` notes that no pack
    contains to their states. `new_text` is the text that needs space.
    """
    moves = []
    rest: list[tuple[int, str, str]] = []
    for number, line in enumerate(note.text.splitlines(), 1):
        path = linked.get(number, "")
        if path in hidden and _BULLET.match(line):
            moves.append(_move(number, line, path, scores, f"its note is {hidden[path]}"))
        elif _BULLET.match(line):
            rest.append((number, line, path))
    text = note.text + new_text
    over_lines = text.count("\n") - room.lines - len(moves)
    over_tokens = count_tokens(text) - room.tokens - sum(move.tokens for move in moves)
    for number, line, path in sorted(rest, key=lambda x: (not x[2], scores.get(x[2], 0.0), x[0])):
        if over_lines <= 0 and over_tokens <= 0:
            break
        reason = "no room" if path else "no room; write it into a note first"
        moves.append(_move(number, line, path, scores, reason))
        over_lines -= 1
        over_tokens -= moves[-1].tokens
    return moves


def _move(
    number: int, line: str, path: str, scores: Mapping[str, float], reason: str
) -> MemoryMove:
    return MemoryMove(
        line=number,
        text=line,
        reason=reason,
        note=path,
        score=scores.get(path, 0.0),
        tokens=count_tokens(f"{line}\n"),
    )
