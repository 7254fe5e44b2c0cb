"""Say what two sides changed differently, and who wrote it on each."""

from __future__ import annotations

from collections.abc import Iterable

from vaultmem.core.merging.text import Conflict
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.storage.git.blame import blame_file
from vaultmem.storage.git.log import Commit, read_commits
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault

_SHOWN = 400


def hide_secrets(conflict: Conflict, allows_secrets: bool) -> Conflict:
    """Return a conflict with texts to show: short ones, and none that may be a credential."""
    return conflict._replace(
        ours=show_text(conflict.ours, allows_secrets),
        theirs=show_text(conflict.theirs, allows_secrets),
    )


def name_authors(
    vault: Vault, conflicts: Iterable[Conflict], ours: str, theirs: str
) -> list[Conflict]:
    """Add who wrote what is in conflict; `ours` and `theirs` are commits (full ids)."""
    sides = (_Side(vault, ours), _Side(vault, theirs))
    return [
        each._replace(
            our_author=sides[0].author_of(each.path, each.what, each.ours),
            their_author=sides[1].author_of(each.path, each.what, each.theirs),
        )
        for each in conflicts
    ]


class _Side:
    """One side of a merge: who wrote which lines, each note read once."""

    def __init__(self, vault: Vault, commit: str) -> None:
        self._history = vault.history
        self._commit = commit
        self._lines: dict[str, list[tuple[str, Commit]]] = {}

    def author_of(self, path: str, what: str, text: str) -> str:
        """Return who wrote a property or lines last, else who changed the note last."""
        if path not in self._lines:
            self._lines[path] = self._blame(path)
        lines = self._lines[path]
        places = _find_lines([line for line, _ in lines], what, text)
        found = [lines[place][1] for place in places] if text else []
        newest = max(found, key=lambda commit: commit.at, default=None) or self._newest(path)
        return "" if newest is None else _name(newest)

    def _blame(self, path: str) -> list[tuple[str, Commit]]:
        if find_entry(self._history, self._commit, path) is None:
            return []
        origins = blame_file(self._history, self._commit, path)
        commits = read_commits(self._history, (origin.commit for origin in origins))
        return [(origin.text, commits[origin.commit]) for origin in origins]

    def _newest(self, path: str) -> Commit | None:
        where = self._history.prefix + path
        commit = self._history.git.run("rev-list", "-1", self._commit, "--", where)
        return read_commits(self._history, [commit])[commit] if commit else None


def _find_lines(lines: list[str], what: str, text: str) -> range:
    """Return the numbers of a property's lines, or of the lines that a conflict shows."""
    if what.startswith('property "'):
        whole = "\n".join(lines)
        matter = read_frontmatter(whole)
        prop = matter.get(what.partition('"')[2].removesuffix('"'))
        if prop is not None:
            first = whole.count("\n", 0, matter.start)
            return range(first + prop.first, min(first + prop.last, len(lines)))
    wanted = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    seen = [line.removesuffix("\r") for line in lines]
    for start in range(len(seen) - len(wanted) + 1):
        if seen[start : start + len(wanted)] == wanted:
            return range(start, start + len(wanted))
    return range(0)


def show_text(text: str, allows_secrets: bool) -> str:
    """Return a text to show: cut where it is long, hidden where it may be a credential."""
    if not allows_secrets and find_secrets(text):
        return "(looks like a credential)"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."


def _name(commit: Commit) -> str:
    return ", session ".join(filter(None, (commit.who, commit.session)))
