"""Who wrote what somebody else committed: git's notes, under refs of ours.

A note has a line of JSON for each file in which its commit has an agent's words: `path` inside the
repository, `lines` as in "1-12,14" ("" for all that the commit did to the file), `agent`,
`session` and `tool_call`. What other machines say of their commits is under a ref of its own, with
`claimed_by`. A note that was carried over a rewriting of history has the `first_commit` it was of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.storage.git.commit_draft import Identity, TreeEntry, format_commit

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import History

NOTES_REF = "refs/notes/vaultmem"
CLAIMS_REF = "refs/notes/vaultmem-claims"

#: The folder of a machine's ref in which it shares its notes.
ATTRIBUTION = "attribution"

#: Whose name the commits of notes bear, which nobody reads.
_US = Identity("vaultmem", "vaultmem@localhost")
_WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", _US.name), ("EMAIL", _US.email))
}

_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


_FIRST = re.compile(r'"first_commit": "([0-9a-f]{40})"')


class Wrote(NamedTuple):
    """What an agent wrote of a file that somebody else committed; no lines are all of it.

    `claimed_by` is the other machine that says so, "" for this one.
    """

    path: str
    lines: str
    agent: str
    session: str
    tool_call: str
    claimed_by: str = ""

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
    command = ("notes", f"--ref={NOTES_REF}", "add", "--force", "--file=-", commit)
    history.git.run(*command, stdin=format_attribution(wrote), env=_WHO)
    known = history.git.run("config", "--local", "--get-all", "notes.rewriteRef", check=False)
    if NOTES_REF not in known.splitlines():
        history.git.run("config", "--local", "--add", "notes.rewriteRef", NOTES_REF)


def format_attribution(wrote: Iterable[Wrote], **more: str) -> bytes:
    """Return a note; `more` is added to each of its lines."""
    rows = ({**each._asdict(), **more} for each in wrote)
    filled = ({k: v for k, v in row.items() if v or k != "claimed_by"} for row in rows)
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in filled)
    return text.encode("utf-8", "surrogateescape")


def parse_attribution(text: str) -> tuple[Wrote, ...]:
    """Return what notes on a commit say; a line that cannot be understood is left out.

    What this machine knows counts; only where it knows nothing of the commit, claims do.
    """
    found = []
    for line in text.splitlines():
        try:
            values = json.loads(line)
            named = {name: values[name] for name in Wrote._fields if name != "claimed_by"}
            wrote = Wrote(**named, claimed_by=values.get("claimed_by", ""))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
        if all(isinstance(value, str) for value in wrote) and wrote.agent:
            found.append(wrote)
    own = [each for each in found if not each.claimed_by]
    return tuple(own or found)


def read_first_commit(text: str) -> str:
    """Return the commit that a note was of before it was first carried over, "" if it was not."""
    found = _FIRST.search(text)
    return found[1] if found else ""


def read_attribution(history: History) -> dict[str, str]:
    """Return all notes of this machine, by the full id of their commit."""
    out = history.git.run("notes", f"--ref={NOTES_REF}", "list", check=False)
    rows = (line.split(" ") for line in out.splitlines())
    blobs = {row[1]: row[0] for row in rows if len(row) == 2}
    texts = history.objects.read_all(blobs.values())
    return {
        commit: data.decode("utf-8", "surrogateescape")
        for commit, (_, data) in zip(blobs, texts, strict=True)
    }


def replace_attribution(history: History, ref: str, notes: Mapping[str, bytes], at: int) -> None:
    """Make these all the notes that a ref has, by the full id of their commit, at once.

    Raises:
        VaultError: another git moved the ref meanwhile, or git cannot write.
    """
    from vaultmem.storage.git.objects import ObjectPack  # Who only looks has no need of these.
    from vaultmem.storage.git.tree_builder import TreeBuilder

    old = history.git.run("show-ref", "--verify", "--hash", "--", ref, check=False)
    if not notes:
        if old:
            history.git.run("update-ref", "-d", ref, old)
        return
    pack = ObjectPack()
    trees = TreeBuilder(history.objects, pack)
    entries = {
        f"{commit[:2]}/{commit[2:]}": TreeEntry("100644", pack.add("blob", data))
        for commit, data in notes.items()
    }
    tree = trees.change("", entries)
    if old and trees.root(old) == tree:
        return
    made = pack.add("commit", format_commit(tree, [], _US, at, "vaultmem: who wrote what\n"))
    pack.write(history.git)
    history.git.run("update-ref", ref, made, old or "0" * 40)
