"""Who wrote what somebody else committed: git's notes, under a ref of ours.

A note has a line of JSON for each file in which its commit has an agent's words: `path` inside the
repository, `lines` as in "1-12,14" ("" for all that the commit did to the file), `agent`,
`session` and `tool_call`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import History

NOTES_REF = "refs/notes/vaultmem"

#: Whose name the commits of notes bear, which nobody reads.
_WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "vaultmem"), ("EMAIL", "vaultmem@localhost"))
}

_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class Wrote(NamedTuple):
    """What an agent wrote of a file that somebody else committed; no lines are all of it."""

    path: str
    lines: str
    agent: str
    session: str
    tool_call: str

    def has_line(self, number: int) -> bool:
        """Tell whether a line (1-based) of the file, as that commit has it, is among these."""
        spans = map(_SPAN.fullmatch, self.lines.split(","))
        return not self.lines or any(
            int(span[1]) <= number <= int(span[2] or span[1]) for span in spans if span
        )


def write_attribution(history: History, commit: str, wrote: Sequence[Wrote]) -> None:
    """Keep who wrote what a commit has; what was kept of it before is replaced.

    Git takes the note along where the commit is amended or rebased.

    Raises:
        PendingError: another git writes notes just now.
    """
    text = "".join(f"{json.dumps(each._asdict(), ensure_ascii=False)}\n" for each in wrote)
    command = ("notes", f"--ref={NOTES_REF}", "add", "--force", "--file=-", commit)
    history.git.run(*command, stdin=text.encode("utf-8", "surrogateescape"), env=_WHO)
    known = history.git.run("config", "--local", "--get-all", "notes.rewriteRef", check=False)
    if NOTES_REF not in known.splitlines():
        history.git.run("config", "--local", "--add", "notes.rewriteRef", NOTES_REF)


def parse_attribution(text: str) -> tuple[Wrote, ...]:
    """Return what a note says; a line that says nothing that can be understood is left out."""
    found = []
    for line in text.splitlines():
        try:
            values = json.loads(line)
            wrote = Wrote(*(values[name] for name in Wrote._fields))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if all(isinstance(value, str) for value in wrote) and wrote.agent:
            found.append(wrote)
    return tuple(found)
