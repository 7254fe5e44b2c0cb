"""Read a session's note; write the first text of a new one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.links.link import find_links
from vaultmem.core.notes.edit_properties import PropertyValue, format_note, set_property
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter
from vaultmem.core.notes.values import PropertyReader
from vaultmem.core.projects import PROPERTY as PROJECT
from vaultmem.core.sessions.session import (
    Decision,
    Edge,
    Relation,
    Session,
    SessionFacts,
    Status,
    Window,
    parse_touched,
    parse_window,
    plain_id,
)
from vaultmem.core.sessions.told import read_told

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note

SUMMARY = "Summary"
DECISIONS = "Decisions"
DETAILS = "Details"
QUESTIONS = "Open questions"

_SECTIONS = (SUMMARY, DECISIONS, DETAILS, QUESTIONS)
_ITEM = re.compile(r"[-*+] +(?P<text>.*)|\d{1,4}[.)] +(?P<numbered>.*)")
_BOX = re.compile(r"\[(?P<mark>[ xX-])\] +")


def new_session_text(
    session: str,
    goal: str,
    agent: str,
    started: datetime,
    workspace: str,
    edges: tuple[Edge, ...] = (),
    project: str = "",
) -> str:
    """Return the note of a session that starts; its sections are empty."""
    links = {
        relation: tuple(f"[[{edge.session}]]" for edge in edges if edge.relation == relation)
        for relation in Relation
    }
    forked = links[Relation.FORKED_FROM]
    properties: dict[str, PropertyValue | None] = {
        "kind": "episodic_trace",
        "agent": agent or None,
        "status": Status.OPEN.value,
        "started": started.replace(microsecond=0),
        "goal": goal or None,
        "workspace": workspace or None,
        PROJECT: project or None,
        "continues": links[Relation.CONTINUES] or None,
        "forked_from": forked[0] if forked else None,
        "related": links[Relation.RELATED] or None,
    }
    body = "".join(f"\n## {heading}\n" for heading in _SECTIONS)
    return format_note(properties, f"# {_heading(goal or session)}\n{body}")


def name_session(text: str, session: str, goal: str) -> str:
    """Return a session note's text with a goal, and a heading for it, where it has none yet."""
    if read_frontmatter(text).get("goal") is None:
        text = set_property(text, "goal", goal)
    return re.sub(
        rf"(?m)^# {re.escape(session)}(?=[ \t]*\r?$)",
        lambda _: f"# {_heading(goal)}",
        text,
        count=1,
    )


def _heading(text: str) -> str:
    """Return text as a heading: of one line, without the marks that would close it."""
    line = " ".join(text.split()).rstrip("#").rstrip()
    return line if len(line) <= 120 else line[:120].rsplit(" ", 1)[0] + " ..."


def parse_session(note: Note) -> Session:
    """Return the session that a note tells of; what cannot be read is left out."""
    reader = PropertyReader(note.matter)
    decisions = tuple(_read_decisions(note, reader))
    questions, answered = _read_questions(note)
    windows = tuple(w for text in reader.texts("windows") if (w := parse_window(text)))
    if note.matter.get("windows") is None:
        windows = (Window(1, 0),)
    touched = tuple(map(parse_touched, reader.texts("touched")))
    last = max(windows, key=lambda window: window.number, default=Window(0, 0))
    facts = SessionFacts(
        id=note.path.stem,
        path=str(note.path),
        blob=note.blob,
        title=note.title,
        agent=note.agent,
        status=_read_status(reader),
        started=reader.timestamp("started") or note.created,
        ended=reader.timestamp("ended"),
        goal=reader.text("goal"),
        workspace=reader.text("workspace"),
        project=reader.text(PROJECT),
        edges=tuple(_read_edges(reader, note.path)),
        pending=reader.timestamp("pending_restore_at"),
        state=note.state.value,
        decisions=len(decisions),
        questions=len(questions),
        touched=len(touched),
        windows=len(windows),
        turns=max((window.turns[1] for window in windows if window.turns), default=0),
        tokens=last.start if last.end is None else last.end,
    )
    summary = section_text(note, SUMMARY)
    details = tuple(split_items(section_text(note, DETAILS)))
    return Session(
        facts=facts,
        windows=windows,
        touched=touched,
        decisions=decisions,
        summary=summary,
        details=details,
        questions=questions,
        answered=answered,
        told=read_told(note, lambda part: [*split_items(section_text(note, part))]),
    )


def section_text(note: Note, heading: str) -> str:
    """Return the text under a heading, that of the headings below it included."""
    wanted = heading.casefold()
    parts = [
        note.section_text(section)
        for section in note.sections
        if wanted in map(str.casefold, (section.heading, *section.parents))
    ]
    return "\n\n".join(filter(None, parts))


def split_items(text: str) -> Iterator[str]:
    """Yield the list items and paragraphs of a text, each in one line."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        item = _ITEM.fullmatch(line.rstrip()) if line[:1] not in " \t" else None
        if lines and (item or not bare):
            yield " ".join(lines)
            lines = []
        if item:
            bare = (item["text"] or item["numbered"] or "").strip()
        if bare:
            lines.append(bare)


def find_targets(text: str) -> list[str]:
    """Return what the links of a text lead to, without `.md`, headings and other names."""
    links = find_links(text, Frontmatter())
    return [link.path.strip().removesuffix(".md") for link in links if link.path.strip()]


def _read_status(reader: PropertyReader) -> str:
    """Return the status; a note that tells none is over when it has an end."""
    text = reader.text("status").lower()
    if text in set(Status):
        return text
    return Status.OK.value if reader.text("ended") else Status.OPEN.value


def _read_edges(reader: PropertyReader, path: PurePosixPath) -> Iterator[Edge]:
    seen = {path.stem}
    for relation in Relation:
        for text in reader.texts(relation.value):
            target = plain_id((find_targets(text) or [text])[0]).rpartition("/")[2]
            if target and target not in seen:
                seen.add(target)
                yield Edge(relation, target)


def _read_decisions(note: Note, reader: PropertyReader) -> Iterator[Decision]:
    """Yield what the section lists, then what the property links beyond it."""
    seen: set[str] = set()
    for item in split_items(section_text(note, DECISIONS)):
        target = next(iter(find_targets(item)), "")
        if not target or target not in seen:
            seen.add(target)
            yield Decision(target, item)
    for text in reader.texts("decisions"):
        target = (find_targets(text) or [text])[0].strip().removesuffix(".md")
        if target not in seen:
            seen.add(target)
            yield Decision(target, "")


def _read_questions(note: Note) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the questions that are open, and those that were ticked or struck out."""
    questions: list[str] = []
    answered: list[str] = []
    for item in split_items(section_text(note, QUESTIONS)):
        box = _BOX.match(item)
        text = item[box.end() :] if box else item
        struck = len(text) > 4 and text.startswith("~~") and text.endswith("~~")
        is_done = struck or (box is not None and box["mark"] != " ")
        (answered if is_done else questions).append(text)
    return tuple(questions), tuple(answered)
