"""Rows of the past as an agent reads them: a line each, with quotes where notes speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.core.packs.pack_item import quote
from vaultmem.core.safe_text import one_line
from vaultmem.mcp_server.tool import cut_text

if TYPE_CHECKING:
    from vaultmem.services.history.blame import BlamedLine
    from vaultmem.storage.git.log import Commit

#: Tokens that are quoted of each of several notes.
_QUOTED = 300


def describe_item(row: dict[str, Any]) -> str:
    """Show what waits: what is asked, what shows it, and the notes, as evidence."""
    notes = [
        f"{note['path']}  [{note['state']} | {note['agent'] or 'a person'} | {note['written']}]\n"
        + quote_some(note["text"])
        for note in row["notes"]
    ]
    told = f"{row['id']}  {row['action']}  {row['reason']}: {row['question']}"
    return "\n".join([one_line(told), *map(quote, row["evidence"]), *notes])


def quote_some(text: str) -> str:
    """Quote the beginning of a text; read_note shows the rest."""
    shown, following = cut_text(text, 0, _QUOTED)
    return quote(shown) + ("\n> ..." if following is not None else "")


def describe_commit(commit: Commit) -> str:
    """Name a commit: its beginning, when, who, what."""
    who, what = one_line(commit.shown), one_line(commit.subject)
    return f"{commit.commit[:7]}  {commit.time[:16]}  {who}  {what}"


def describe_ground(row: dict[str, Any]) -> str:
    """Show a fact that mentions something, and on whose word it stands."""
    steps = [f"{each['who']} {(each['time'] or 'not committed')[:10]}" for each in row["steps"]]
    told = f"{row['path']}  [{row['kind']} | {row['state']}]  {'; '.join(steps)}"
    return f"{told}\n{quote_some(row['text'])}"


def describe_branch(row: dict[str, Any]) -> str:
    """Name a branch: where it is, and how far from the one checked out."""
    mark = "*" if row["is_current"] else " "
    counts = f"+{row['ahead']} -{row['behind']}"
    return one_line(f"{mark} {row['name']}  {row['commit'][:7]}  {counts}  {row['subject']}")


def describe_operation(row: dict[str, Any]) -> str:
    """Say what was done to a note; its words are in the data."""
    changes = ", ".join(
        f"{each['name']}: {each['old']} -> {each['new']}" for each in row["properties"]
    )
    body = row["body"]
    counts = f"+{body['added']} -{body['removed']} lines" if body else row["remark"] or ""
    return one_line(f"{row['op']}  {row['path']}  {'; '.join(filter(None, (changes, counts)))}")


def describe_line(line: BlamedLine) -> str:
    """Show a line of a note, and who brought it."""
    commit = line.commit
    origin = f"{commit.commit[:7]} {commit.time[:10]}" if commit else "not committed"
    return one_line(f"{origin}  {line.who}  {line.number}: {line.text}")
