"""A context pack as text: labels that notes cannot forge, quotes that they cannot leave.

Note text is shown as a block quote, each line of it behind `> `. Whatever a note contains, it
cannot begin a line of the pack, so it can neither close its quote nor open a group.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from vaultmem.core.hit import Hit
from vaultmem.core.lifecycle import INSTRUCTION_KINDS, State


@dataclass(frozen=True, slots=True)
class PackSource:
    """Where a pack comes from: branch, commit ("" before the first) and its time in seconds."""

    branch: str
    commit: str
    at: int


@dataclass(frozen=True, slots=True)
class PackItem:
    """A section in a pack; `text` is what is shown of it, `shortened` that it is not all."""

    hit: Hit
    text: str
    pinned: bool
    trusted: bool
    shortened: bool

    @property
    def is_instruction(self) -> bool:
        """Only an active policy or skill whose promotion is on record instructs."""
        record = self.hit.record
        return self.trusted and record.kind in INSTRUCTION_KINDS and record.state == State.ACTIVE


@dataclass(frozen=True, slots=True)
class Account:
    """What a pack cost: sections by reason, tokens sent, the budget, and the whole vault."""

    pinned: int
    relevant: int
    sent: int
    budget: int
    flat: int

    @property
    def ratio(self) -> float:
        """How many times larger the whole vault is."""
        return self.flat / self.sent if self.sent else 0.0


def render_pack(
    items: Sequence[PackItem], unshown: Sequence[Hit], source: PackSource, account: Account
) -> str:
    """Return the pack in markdown, with its account in the last line."""
    blocks = [f"# Context  ({_describe_source(source)})"]
    for name, wanted in (("Instructions", True), ("Evidence", False)):
        group = [item for item in items if item.is_instruction is wanted]
        if group:
            blocks.append(f"## {name}")
            blocks.extend(render_item(item) for item in group)
    if unshown:
        blocks.append("\n".join(["## Pinned, not shown", *map(render_link, unshown)]))
    if not items and not unshown:
        blocks.append("Nothing in this vault answers that.")
    blocks.append(_describe_account(account))
    return "\n\n".join(blocks) + "\n"


def render_item(item: PackItem) -> str:
    """Return a section's label line and its quoted text."""
    record = item.hit.record
    facts = [record.kind, record.state]
    if item.pinned:
        facts.append("pinned")
    if record.kind in INSTRUCTION_KINDS:
        facts.append("trusted" if item.trusted else "not trusted")
    if record.confidence is not None:
        facts.append(f"confidence {record.confidence:g}")
    if who := _describe_author(item.hit):
        facts.append(who)
    facts.append(changed_day(item.hit))
    facts.append(f"{one_line(item.hit.address)}@{record.blob[:7]}")
    if item.shortened:
        facts.append("shortened")
    label = " | ".join(_plain(fact) for fact in facts)
    return f"### {_plain(one_line(item.hit.name))[:120]}   [{label}]\n{quote(item.text)}"


def render_link(hit: Hit) -> str:
    """Return the line that stands for a section that is not shown."""
    return f"- {_plain(one_line(hit.name))[:120]}: {_plain(one_line(hit.address))}"


def quote(text: str) -> str:
    """Return text as a block quote, control characters and blank outer lines left out."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(f"> {clean_text(line)}".rstrip() for line in lines)


def clean_text(text: str) -> str:
    """Return text without control and bidirectional characters, tabs kept."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        mark for mark in text if mark == "\t" or unicodedata.category(mark) not in _UNSEEN
    )


def one_line(text: str) -> str:
    """Return text in one line, with what cannot be seen shown as an escape."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )


def changed_day(hit: Hit) -> str:
    """Return the day (UTC) that the note's own date names, else git's or the file's."""
    written = hit.record.updated or hit.record.created
    if written:
        return written[:10]
    return datetime.fromtimestamp(hit.record.changed, UTC).date().isoformat()


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def _plain(text: str) -> str:
    """Return text that cannot be taken for the marks of a label."""
    return re.sub(r"\s+", " ", text.translate(_LABEL_MARKS)).strip().lstrip("#> ")


_LABEL_MARKS = str.maketrans({"[": "(", "]": ")", "|": "/"})


def _describe_author(hit: Hit) -> str:
    record = hit.record
    session = f"session {record.session}" if record.session else ""
    if record.agent:
        return ", ".join(filter(None, (f"agent {record.agent}", session)))
    return ", ".join(filter(None, (record.source, session)))


def _describe_source(source: PackSource) -> str:
    if not source.commit:
        return f"vault {source.branch or 'without git'}, no commit yet"
    moment = datetime.fromtimestamp(source.at, UTC).strftime("%Y-%m-%dT%H:%MZ")
    return f"vault {source.branch or 'detached'}@{source.commit[:7]}, {moment}"


def _describe_account(account: Account) -> str:
    return (
        f"<!-- vaultmem: {account.pinned} pinned + {account.relevant} relevant, "
        f"{account.sent} of {account.budget} tokens, flat memory {account.flat}, "
        f"{account.ratio:.1f}x -->"
    )
