"""Commits as values: author, time and trailers, as git itself parses them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from vaultmem.core.commit_message import SHOWN_NOTES, ShownNote, parse_shown
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.encoding import read_escapes
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.git.commit_draft import EMPTY_TREE
from vaultmem.storage.git.head import read_shallow
from vaultmem.storage.git.runner import parse_export_time, read_time
from vaultmem.storage.git.trees import RAW, Words, parse_changes
from vaultmem.storage.git.vault_history import (
    CLAIMS_REF,
    NOTES_REF,
    AgentLines,
    VaultHistory,
    parse_attribution,
)

_FIELDS = ("%H", "%P", "%T", "%cI", "%ct", "%an", "%ae", "%s", "%b", "%N")

#: Name and value of each trailer, separated by a newline, which git removes from both.
_TRAILERS = "%(trailers:only,unfold,separator=%x00,key_value_separator=%x0A)"

_LOG = (
    *(
        "log",
        "-z",
        "--no-show-signature",
        "--no-notes",
        f"--notes={NOTES_REF}",
        f"--notes={CLAIMS_REF}",
        "--no-decorate",
        "--no-color",
        "--encoding=UTF-8",
    ),
    *("--no-ext-diff", "--no-textconv", f"--format={'%x00'.join(_FIELDS)}%x00{_TRAILERS}"),
)

_BLOCK = 64 * 1024


class Writer(NamedTuple):
    """The writer of a text: shown name, agent and session ("" for a person).

    `claimed_by` is the other machine that reports it, "" if this one knows it.
    """

    who: str
    agent: str
    session: str
    claimed_by: str = ""


class Commit(NamedTuple):
    """A commit: `time` is ISO 8601 with the committer's time zone, `at` seconds since the epoch.

    `body` is the message without its subject, with trailers. Missing trailers are "". If a trailer
    is repeated, the last one counts. `wrote` lists text by agents that another author committed;
    `agent` and `session` are then theirs if there is only one. `shown_lines` are the trailers that
    `shown_notes` parses.
    """

    commit: str
    parents: tuple[str, ...]
    tree: str
    time: str
    at: int
    author: str
    email: str
    subject: str
    body: str
    event: str
    agent: str
    session: str
    intent: str
    confidence: str
    tool_call: str
    has_trailers: bool
    wrote: tuple[AgentLines, ...] = ()
    shown_lines: tuple[str, ...] = ()

    @property
    def shown_notes(self) -> list[ShownNote]:
        """The notes shown to its session between its last commit and this one."""
        return [note for line in self.shown_lines for note in parse_shown(line)]

    @property
    def who(self) -> str:
        """The agent or agents, or the author if there is no agent."""
        agents = dict.fromkeys(each.agent for each in self.wrote)
        return self.agent or ", ".join(agents) or self.author

    @property
    def claimed_by(self) -> str:
        """The other machines that name the agents, "" if this machine knows them."""
        return ", ".join(dict.fromkeys(each.claimed_by for each in self.wrote if each.claimed_by))

    @property
    def shown(self) -> str:
        """The name for a list of commits: the agents in `wrote`, or the author."""
        return self.who if self.wrote else self.author

    def find_writer(self, path: str, line: int = 0) -> Writer:
        """Return the writer of a file (path in the repository), or of a line in it (1-based)."""
        for each in self.wrote:
            if each.path == path and (not line or each.has_line(line)):
                return Writer(each.agent, each.agent, each.session, each.claimed_by)
        if self.wrote:
            return Writer(self.author, "", "")
        return Writer(self.who, self.agent, self.session)

    @property
    def prose(self) -> str:
        """The body without the paragraph of trailers."""
        return self.body.rpartition("\n\n")[0].strip() if self.has_trailers else self.body


def walk_log(history: VaultHistory, commit: str, path: str = "") -> Generator[Commit]:
    """Yield the vault's commits from `commit` back, newest first; the caller can stop at any time.

    Only commits that change the vault (or `path`, a note or folder) are included. Merges are
    compared with their first parent. Without `path`, empty commits with an event are also included:
    a checkpoint can be empty.
    """
    full_path = history.prefix + path
    # `--full-history --sparse` keeps every commit, whatever it changes.
    options = (
        ("--full-history", "--sparse", "--no-renames", "--root", "--diff-merges=first-parent")
        if full_path
        else ()
    )
    pathspec = ("--", full_path) if full_path else ("--",)
    log_options = (*RAW, *options) if full_path else ()
    for entry, changes in _walk(history, *log_options, commit, *pathspec):
        if not full_path or changes or (not path and entry.event and _is_empty(history, entry)):
            yield entry


def walk_changes(history: VaultHistory, commit: str) -> Iterator[tuple[Commit, list[FileChange]]]:
    """Yield the commits from `commit` back with their changes in the vault; merges have none."""
    pathspec = ("--", history.prefix) if history.prefix else ("--",)
    yield from _walk(history, *RAW, "--no-renames", "--root", commit, *pathspec)


def walk_versions(history: VaultHistory, commit: str) -> Iterator[tuple[Commit, list[FileChange]]]:
    """Yield the commits from `commit` back with their changes in the vault, with renames.

    A merge is compared with its first parent.
    """
    options = ("-M", "--root", "--diff-merges=first-parent")
    arguments = ("--full-history", "--sparse", commit, "--", history.prefix)
    yield from _walk(history, *RAW, *options, *(arguments if history.prefix else (commit, "--")))


def walk_refs(history: VaultHistory) -> Iterator[tuple[Commit, list[FileChange]]]:
    """Yield the commits of all branches, tags and stashes with their changes in the vault.

    A merge is compared with its first parent. Vaultmem's refs and git's notes are left out.
    """
    options = ("--no-renames", "--root", "--diff-merges=first-parent")
    refs = ("--exclude=refs/notes/*", "--exclude=refs/vaultmem/*", "--all")
    arguments = ("--full-history", "--sparse", *refs, "--", history.prefix)
    yield from _walk(history, *RAW, *options, *(arguments if history.prefix else (*refs, "--")))


def walk_renames(history: VaultHistory, commits: str) -> Iterator[FileChange]:
    """Yield each file that a commit renamed, newest first.

    `commits` is one commit with its history, or `OLD..NEW`.
    """
    pathspec = ("--", history.prefix) if history.prefix else ("--",)
    for _, changes in _walk(history, *RAW, "-M", "--diff-filter=R", commits, *pathspec):
        yield from (each for each in changes if each.previous)


def find_removal(history: VaultHistory, start: str, end: str, path: str) -> str:
    """Return the first commit in `start..end` that removed a file, "" if none did."""
    options = ("--format=%H", "--no-renames", "--diff-filter=D")
    out = history.git.run("log", *options, f"{start}..{end}", "--", history.prefix + path)
    return next(iter(out.split()[::-1]), "")


def follow_path(history: VaultHistory, commit: str, path: str) -> list[tuple[Commit, FileChange]]:
    """Return the commits that changed a file, newest first, through renames.

    A merge is included if its version differs from that of each parent.
    """
    options = ("--follow", "-M", "--root", "-c")
    entries = _walk(history, *RAW, *options, commit, "--", history.prefix + path)
    return [(each, changes[0]) for each, changes in entries if changes]


def find_past_paths(history: VaultHistory, commit: str, name: str) -> list[str]:
    """Return the paths that any commit up to `commit` added for a note's name, without case."""
    prefix, suffix = (re.sub(r"([\\*?\[])", r"\\\1", text) for text in (history.prefix, name))
    options = ("-z", "--format=", "--name-only", "--no-renames", "--diff-filter=A", "--root")
    pattern = f":(glob,icase){prefix}**/{suffix}.md"
    out = history.git.run("--no-literal-pathspecs", "log", *options, commit, "--", pattern)
    return sorted({path.removeprefix(history.prefix) for path in out.split("\0") if path})


def read_commit(history: VaultHistory, commit: str) -> Commit:
    """Return a commit by its full id."""
    return read_commits(history, [commit])[commit]


def read_commits(history: VaultHistory, commits: Iterable[str]) -> dict[str, Commit]:
    """Return commits by their full ids."""
    return {name: commit for name, (commit, _) in _read(history, commits).items()}


def read_changes(
    history: VaultHistory, commits: Iterable[str]
) -> dict[str, tuple[Commit, list[FileChange]]]:
    """Return commits by their full ids, with the vault's files that they changed or removed.

    A merge is compared with its first parent. A commit without parents changes nothing.
    """
    options = ("--no-renames", "--diff-filter=MD", "--diff-merges=first-parent")
    return _read(history, commits, *RAW, *options)


def _read(
    history: VaultHistory, commits: Iterable[str], *options: str
) -> dict[str, tuple[Commit, list[FileChange]]]:
    names = "".join(f"{commit}\n" for commit in dict.fromkeys(commits))
    if not names:
        return {}
    out = history.git.run(*_LOG, *options, "--no-walk", "--stdin", stdin=names.encode())
    entries = _parse_commits(out.split("\0"), history.prefix)
    return {commit.commit: (commit, changes) for commit, changes in entries}


def sort_commits(history: VaultHistory, commits: Iterable[Commit]) -> list[Commit]:
    """Return commits oldest first; within one second, parents before children."""
    commits_by_id = {commit.commit: commit for commit in commits}
    seconds = Counter(commit.at for commit in commits_by_id.values())
    ties = [commit for commit in commits_by_id.values() if seconds[commit.at] > 1]
    places: dict[str, int] = {}
    if ties:
        oldest = min(commit.at for commit in ties)
        command = ("rev-list", "--topo-order", "--reverse", f"--max-age={oldest}", "--stdin")
        stdin = "".join(f"{commit.commit}\n" for commit in ties)
        out = history.git.run(*command, stdin=stdin.encode())
        places = {commit: position for position, commit in enumerate(out.split())}
    return sorted(commits_by_id.values(), key=lambda each: (each.at, places.get(each.commit, -1)))


def find_ends(history: VaultHistory) -> frozenset[str]:
    """Return the commits at which a shallow clone's history ends."""
    return read_shallow(history.git_folder)


def _walk(history: VaultHistory, *arguments: str) -> Iterator[tuple[Commit, list[FileChange]]]:
    yield from _parse_commits(_stream(history, *_LOG, *arguments), history.prefix)


def _parse_commits(output: Iterable[str], prefix: str) -> Iterator[tuple[Commit, list[FileChange]]]:
    words = Words(output)
    while words.next:
        commit = _parse_commit(words)
        if words.next == "":
            words.take()  # Before a merge's changes, and at the end.
        yield commit, list(parse_changes(words, prefix))


def _parse_commit(words: Words) -> Commit:
    commit, parents, tree, time, at, author, email, subject, body, note = (
        read_escapes(words.take().strip()) for _ in _FIELDS
    )
    seconds = read_time(at)
    trailers: dict[str, str] = {}
    shown_notes: list[str] = []
    if words.next == "":
        words.take()  # No trailers.
    while words.next and "\n" in words.next and not words.next.startswith("\n"):
        name, _, value = read_escapes(words.take()).partition("\n")
        if name == SHOWN_NOTES:
            shown_notes.append(value)
        trailers[name.strip().lower()] = value.strip()
    attributions = () if trailers.get("agent-id") else parse_attribution(note)
    sole_author = attributions[0] if len({each[2:4] for each in attributions}) == 1 else None
    return Commit(
        *(commit, tuple(parents.split()), tree, parse_export_time(time, seconds), seconds),
        *(author, email, subject, body),
        event=trailers.get("vault-event", ""),
        agent=trailers.get("agent-id", sole_author.agent if sole_author else ""),
        session=trailers.get("session-id", sole_author.session if sole_author else ""),
        intent=trailers.get("intent", ""),
        confidence=trailers.get("confidence", ""),
        tool_call=trailers.get("tool-call", ""),
        has_trailers=bool(trailers),
        wrote=attributions,
        shown_lines=tuple(shown_notes),
    )


def _is_empty(history: VaultHistory, commit: Commit) -> bool:
    """Return whether a commit has the same tree as its first parent."""
    if not commit.parents:
        return commit.tree == EMPTY_TREE
    try:
        kind, data = history.objects.read(commit.parents[0])
    except NoteNotFoundError:
        return False
    return kind == "commit" and data.startswith(f"tree {commit.tree}\n".encode())


def _stream(history: VaultHistory, *arguments: str) -> Iterator[str]:
    """Yield the words that git prints as they arrive; git ends when the caller stops reading."""
    process = history.git.start(*arguments)
    process.stdin.close()
    rest = b""
    while block := process.stdout.read1(_BLOCK):
        *words, rest = (rest + block).split(b"\0")
        for word in words:
            yield word.decode("utf-8", "surrogateescape")
    complaint = process.stderr.read().decode("utf-8", "replace")
    if process.proc.wait():  # The last line: git first reports missing notes.
        raise VaultError(f"git log failed: {next(iter(complaint.splitlines()[::-1]), 'no reason')}")
