"""List the steps that remove a note from git's history, without executing them."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.changes import ChangeOp, FileChange
from vaultmem.core.notes.renames import count_lines, is_telling
from vaultmem.core.text.display import format_names
from vaultmem.errors import RefusedError
from vaultmem.services.history.blame import trace_note
from vaultmem.services.packs.receipts import list_receipts
from vaultmem.storage.git.log import walk_refs
from vaultmem.storage.git.machine_refs import find_own
from vaultmem.storage.git.trees import FoundText, find_texts
from vaultmem.vault import Vault

# Find every path that a note ever had, by renames and by equal blobs. A move can be two commits:
# one adds the note under its new name, a later one removes the old name. So a removal and an
# addition of similar text count as a move if few commits are between them. A copy does not count,
# because the original file still exists, nor does a template that many notes started from.

#: Maximum commits between the two halves of a move.
_MAX_MOVE_COMMITS = 20
#: Minimum share of lines that a moved note keeps.
_MIN_SAME_LINE_SHARE = 0.8
#: Maximum additions to compare with one removal.
_MAX_ADDITIONS = 200
_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class PurgeStep(NamedTuple):
    """One step: its reason, and its commands, if commands can do it."""

    reason: str
    commands: tuple[str, ...] = ()


class Purge(NamedTuple):
    """The steps in order; `paths` are all names that the notes ever had.

    `commits` is the number of commits that contain them now. `others` are paths of other notes with
    the same bytes as a version; the steps keep them.
    """

    paths: tuple[str, ...]
    commits: int
    others: tuple[str, ...]
    steps: tuple[PurgeStep, ...] = ()


class _Event(NamedTuple):
    """The change of a file in a commit; the newest commit has number 0."""

    number: int
    change: FileChange


def find_scope(vault: Vault, addresses: Iterable[str]) -> Purge:
    """Return the paths and commits of these notes in all branches and tags, also of removed notes.

    Raises:
        NoteNotFoundError: no note has or had this name.
    """
    paths: dict[str, None] = {}
    commits: set[str] = set()
    for address in addresses:
        trace = trace_note(vault, address)
        paths[trace.path] = None
        for version in trace.versions:
            paths |= dict.fromkeys(filter(None, [version.operation.file.previous]))
            commits |= {version.commit.commit} if version.commit else set()
    names: list[str] = []
    events: dict[str, list[_Event]] = defaultdict(list)
    for number, (commit, changes) in enumerate(walk_refs(vault.history)):
        names.append(commit.commit)
        for change in changes:
            events[change.path].append(_Event(number, change))
    moves = _Moves(vault, events)
    queue = list(paths)
    while queue:
        new_paths = [each for each in moves.find(queue.pop()) if each not in paths]
        paths |= dict.fromkeys(new_paths)
        queue += new_paths
    commits |= {names[each.number] for path in paths for each in events[path]}
    blobs = {each.change.blob for path in paths for each in events[path]} - {"", _EMPTY_BLOB}
    others = {
        path
        for path, path_events in events.items()
        if path not in paths and any(each.change.blob in blobs for each in path_events)
    }
    return Purge(tuple(paths), len(commits), tuple(sorted(others)))


class _Moves:
    """The moves of notes between paths."""

    def __init__(self, vault: Vault, events: dict[str, list[_Event]]) -> None:
        self._vault, self._events = vault, events
        self._added: dict[int, list[FileChange]] = defaultdict(list)
        self._removed: dict[int, list[FileChange]] = defaultdict(list)
        for number, change in (each for path_events in events.values() for each in path_events):
            if change.is_regular and change.op is not ChangeOp.REPLACE:
                kind = self._added if change.op is ChangeOp.ADD else self._removed
                kind[number].append(change)

    def find(self, path: str) -> Iterator[str]:
        """Yield the paths that a file moved to, and those it came from."""
        for each in self._events[path]:
            if each.change.op is ChangeOp.REMOVE:
                yield from filter(None, [self._find_heir(each.number, each.change)])
            elif each.change.op is ChangeOp.ADD:
                for number in _near(each.number):
                    for removal in self._removed.get(number, ()):
                        if self._find_heir(number, removal) == path:
                            yield removal.path

    def _find_heir(self, number: int, removal: FileChange) -> str:
        """Return the path that a removed note moved to, or ""."""
        if not removal.is_regular or removal.old_blob == _EMPTY_BLOB:
            return ""
        groups = [
            [each for each in self._added.get(at, ()) if self._is_there(each.path, at, number)]
            for at in _near(number)
        ]
        later_changes = [each for group in groups[1:] for each in group]
        for group in (groups[0], later_changes):
            if copies := [each for each in group if each.blob == removal.old_blob]:
                return copies[0].path
            if path := self._find_alike(removal, group):
                return path
        return ""

    def _is_there(self, path: str, addition: int, number: int) -> bool:
        """Return whether a file that commit `addition` added exists after `number`, or later."""
        return not any(
            each.change.op is ChangeOp.REMOVE and number <= each.number < addition
            for each in self._events[path]
        )

    def _find_alike(self, removal: FileChange, additions: list[FileChange]) -> str:
        if not 0 < len(additions) <= _MAX_ADDITIONS:
            return ""
        blobs = [removal.old_blob, *(each.blob for each in additions)]
        counts = [count_lines(data) for _, data in self._vault.history.objects.read_all(blobs)]
        shares = [_share(counts[0], new) for new in counts[1:]]
        best = max(range(len(additions)), key=shares.__getitem__)
        return additions[best].path if shares[best] >= _MIN_SAME_LINE_SHARE else ""


def _near(number: int) -> list[int]:
    """Return the numbers of the commits around one, nearest first."""
    return sorted(
        range(number - _MAX_MOVE_COMMITS, number + _MAX_MOVE_COMMITS + 1),
        key=lambda at: abs(at - number),
    )


def _share(old: Counter[str], new: Counter[str]) -> float:
    common = old & new
    return common.total() / old.total() if any(map(is_telling, common)) else 0.0


def plan_purge(vault: Vault, paths: Sequence[str]) -> Purge:
    """Return the steps that remove every version of these notes from git.

    The vault must be in a git repository, and the index up to date.

    Raises:
        NoteNotFoundError: no note has or had this name.
    """
    scope = find_scope(vault, paths)
    return scope._replace(steps=tuple(_list_steps(vault, scope)))


def find_remains(vault: Vault, words: str) -> list[FoundText]:
    """Return the places in git that still contain one of these texts.

    `words` is a file for `git filter-repo`: one text on each line, and its replacement after `==>`.

    Raises:
        RefusedError: it contains no text, or a pattern instead of literal text.
    """
    texts: dict[int, str] = {}
    for number, line in enumerate(words.splitlines(), 1):
        text = line.rpartition("==>")[0] or line
        if text.startswith(("regex:", "glob:")):
            raise RefusedError(f"line {number}: a pattern; write the text itself, to look for it")
        if text.strip():
            texts[number] = text.removeprefix("literal:")
    if not texts:
        raise RefusedError(
            "the file of texts is empty; write each text that must be gone on a line"
        )
    numbers = list(texts)
    remains = find_texts(vault.history, list(texts.values()))
    return [each._replace(number=numbers[each.number]) for each in remains]


def _list_steps(vault: Vault, scope: Purge) -> Iterator[PurgeStep]:
    history, paths = vault.history, scope.paths
    repository_paths = [f"{history.prefix}{path}" for path in paths]
    options = " ".join(f"--path={shlex.quote(path)}" for path in repository_paths)
    yield PurgeStep(
        "If it was a key, password or token, change it now, where it is used. Each reader still "
        "has it; no rewriting takes it back. That alone may be enough."
    )
    if scope.others:
        yield PurgeStep(
            "These are other notes, and they stay: they have, or once had, the same bytes as one "
            f"of its versions: {format_names(scope.others)}. If one of them has to go too, begin "
            "again with its name too."
        )
    yield PurgeStep(
        "Keep a copy of the repository, until you know that the rewriting was right. The copy "
        "holds the note too: remove it in the end.",
        (f"git clone --mirror {shlex.quote(str(vault.root))} ../before-purge.git",),
    )
    yield PurgeStep(
        "Commit or put away everything, then rewrite every commit of every branch and tag (git "
        "filter-repo is a program of its own: `pip install git-filter-repo`). All later commits "
        "get new ids; receipts, links to commits and signatures of the old ones end. Which agent "
        "wrote what plain git committed is kept: the next vaultmem command carries it over.",
        (f"git filter-repo --force --invert-paths {options}",),
    )
    names = dict.fromkeys(PurePosixPath(path).stem for path in paths)
    yield PurgeStep(
        "Write each text that must be gone into ../words.txt: the key, a name, a sentence of the "
        "note, one a line as TEXT==>***. Messages of commits may still have it; they name the "
        "note, and those of a session have its goal and the start of its summary. List them, and "
        "rewrite them.",
        (
            *(f"git log --all -F --grep={shlex.quote(name)}" for name in names),
            "git filter-repo --force --replace-message ../words.txt",
        ),
    )
    yield PurgeStep(
        "Git keeps what nothing names for a while. Drop it.",
        ("git reflog expire --expire=now --expire-unreachable=now --all", "git gc --prune=now"),
    )
    yield PurgeStep(
        "See that the texts are nowhere in git: this prints nothing then, and else where they "
        "are. `git filter-repo --force --replace-text ../words.txt` takes them out of other files.",
        ("vaultmem forget --verify ../words.txt",),
    )
    yield from _list_remotes(vault)
    yield PurgeStep(
        "Every other clone, work tree, fork, backup and CI cache still has it, and one push from "
        "an old clone brings it back. Have each deleted and cloned again, not pulled."
    )
    yield from _list_own(vault, paths)


def _list_remotes(vault: Vault) -> Iterator[PurgeStep]:
    remotes = vault.history.git.run("remote", check=False).splitlines()
    if not remotes:
        yield PurgeStep("This repository has no remote, so nothing was pushed from here.")
        return
    commands = []
    for name in remotes:
        url = vault.history.git.run("remote", "get-url", name, check=False) or "URL"
        quoted = shlex.quote(name)
        commands += [
            f"git remote add {quoted} {shlex.quote(url)}",
            f"git push --force --all {quoted}",
            f"git push --force --tags {quoted}",
        ]
    yield PurgeStep(
        "filter-repo removes the remotes, so that nothing is pushed by accident. Add them again "
        "and overwrite what they have. A host such as GitHub keeps old commits reachable by their "
        "ids and in pull requests: ask its support to remove them.",
        tuple(commands),
    )


def _list_own(vault: Vault, paths: tuple[str, ...]) -> Iterator[PurgeStep]:
    """Yield the steps for data that vaultmem stores outside the repository."""
    receipt_ids = [
        receipt.id
        for receipt in list_receipts(vault)
        if {section.path for section in (*receipt.shown, *receipt.omitted_pins)} & set(paths)
    ]
    if receipt_ids:
        yield PurgeStep(
            "Packs that agents were given showed it, and their receipts say so. Remove these "
            f"files: {', '.join(f'{name}.json' for name in receipt_ids)}.",
        )
    yield from _list_evidence(vault)
    yield PurgeStep(
        "vaultmem's own index is made from the notes and made again without them.",
        (f"rm -r {shlex.quote(str(vault.state_folder))}", "vaultmem index"),
    )


def _list_evidence(vault: Vault) -> Iterator[PurgeStep]:
    """Yield the step for usage data, which names notes."""
    own = find_own(vault.history, vault.state)
    if own.commit:
        remotes = vault.history.git.run("remote", check=False).splitlines()
        push_commands = (f"git push {shlex.quote(name)} :{own.name}" for name in remotes)
        yield PurgeStep(
            "What this machine wrote of the vault's use names the note: remove it, here and where "
            "it was pushed. The next `vaultmem sync` writes what is left of it under a new name.",
            (f"git update-ref -d {own.name}", *push_commands),
        )
