"""Read commits from their bytes, and write new ones.

Git's own programs read a commit with two authors differently: some the first, some the last. So
only the form that git writes is accepted. Source: `git help fsck`, and `commit.c` in git.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import PendingError, VaultError
from vaultmem.storage.git.commit_draft import (
    EMPTY_TREE,
    CommitDraft,
    CommitSettings,
    RefMovedError,
    TreeEntry,
    format_commit,
)
from vaultmem.storage.git.head import find_pull
from vaultmem.storage.git.objects import ObjectPack, TreeBuilder
from vaultmem.storage.git.person_index import PersonIndex, StagedEntries

if TYPE_CHECKING:
    from vaultmem.storage.git.objects import ObjectReader
    from vaultmem.storage.git.runner import GitRunner


#: Most parents of a commit. Vaultmem merges two; git's old limit was 16, and each costs time.
MAX_PARENTS = 8

#: Headers after the committer, and how often each can occur: one `mergetag` for each parent.
_HEADERS = {
    "encoding": 1,
    "mergetag": MAX_PARENTS,
    "gpgsig": 1,
    "gpgsig-sha256": 1,
    "change-id": 1,  # Written by jj and GitButler.
}

#: ASCII-compatible encodings.
_ENCODING = compile_later(
    r"(?i)utf-?8|us-ascii|iso-?8859-?\d+|latin-?1|(windows-|cp)125\d|koi8-[ru]"
)

_OBJECT = compile_later("[0-9a-f]{40}")
#: Control characters, Unicode line breaks, and marks that reverse a text's direction.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
_SIGNATURE = compile_later(
    rf"([^<>\ufffd{_UNSAFE}]*) <([^<>\ufffd{_UNSAFE}]*)> ([0-9]{{1,20}} [+-][0-9]{{4}})"
)
_UNREADABLE = compile_later(rf"[\ufffd{_UNSAFE}]")
_CONTINUED = compile_later(r"\n +")
_AGENT = compile_later(r"(?im)^Agent-Id[ \t]*:[ \t]*(.*(?:\n[ \t]+\S.*)*)$")

_REWRITE_REMEDY = "make it again with git (`git rebase --force-rebase`)"
_REWORD = "reword it (`git rebase -i`)"
_UTF_8 = "set `git config i18n.commitEncoding utf-8`, and commit again"


class MalformedCommitError(ValueError):
    """A commit that is not as git writes it: the text is the reason, `remedy` the fix."""

    def __init__(self, reason: str, remedy: str = _REWRITE_REMEDY) -> None:
        super().__init__(reason)
        self.remedy = remedy


class Signature(NamedTuple):
    """An author or committer; `date` is seconds since the epoch and a zone (`1794000000 +0200`)."""

    name: str
    email: str
    date: str


class CommitObject(NamedTuple):
    """A commit's parts; `agents` are the names in the `Agent-Id` lines of its message.

    `text` is the whole commit, and `message` its end.
    """

    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    agents: tuple[str, ...]
    message: str
    text: str


def parse_commit(data: bytes) -> CommitObject:
    """Parse a commit: one tree, its parents, one author, one committer, known headers, a message.

    Raises:
        MalformedCommitError: the commit has another form.
    """
    head, divided, _ = data.partition(b"\n\n")
    if b"\0" in data:
        raise MalformedCommitError("has a NUL byte, and programs differ in what they read after it")
    text = _decode(data, _find_encoding(head))
    lines = _CONTINUED.sub(" ", text.partition("\n\n")[0]).split("\n")
    rows = [(name, value) for name, _, value in (line.partition(" ") for line in lines)]
    if not divided or rows[0][0] != "tree" or not _OBJECT.fullmatch(rows[0][1]):
        raise MalformedCommitError("does not begin with one tree, or has no end of its headers")
    count = 1
    while count < len(rows) and rows[count][0] == "parent":
        count += 1
    parents = tuple(value for _, value in rows[1:count])
    if not all(map(_OBJECT.fullmatch, parents)):
        raise MalformedCommitError("has a parent that is not the name of a commit")
    if len(parents) > MAX_PARENTS or len(set(parents)) < len(parents):
        reason = f"has {len(parents)} parents; {MAX_PARENTS} different ones are the most here"
        raise MalformedCommitError(reason, "merge them one after another")
    author, committer = (
        _read_signature(role, rows[index : index + 1])
        for index, role in enumerate(("author", "committer"), count)
    )
    _check_headers([name for name, _ in rows[count + 2 :]])
    message = text.partition("\n\n")[2]
    return CommitObject(parents, author, committer, _find_agents(message), message, text)


def _find_agents(message: str) -> tuple[str, ...]:
    """Return the agents in a message, including those before its trailers.

    Programs differ in which paragraph they read as trailers.
    """
    agents = [" ".join(match.split()) for match in _AGENT.findall(message)]
    if any(map(_UNREADABLE.search, agents)):
        raise MalformedCommitError("names an agent in characters that cannot be read", _REWORD)
    return tuple(dict.fromkeys(filter(None, agents)))


def _find_encoding(head: bytes) -> str:
    """Return the encoding in the headers, "utf-8" if there is none.

    Raises:
        MalformedCommitError: the encoding could hide text.
    """
    match = re.search(rb"\nencoding ?(.*)", head)
    if match is None:
        return "utf-8"
    name = match[1].decode("ascii", "replace")
    if _ENCODING.fullmatch(name):
        try:
            return codecs.lookup(name).name
        except LookupError:
            pass
    raise MalformedCommitError(f'declares that its text is in the encoding "{name[:40]}"', _UTF_8)


def _decode(data: bytes, encoding: str) -> str:
    """Return the text of a commit; reject a declared encoding if the bytes are UTF-8."""
    if encoding in {"utf-8", "ascii"} or data.isascii():
        return data.decode("utf-8", "replace")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(encoding, "replace")
    raise MalformedCommitError(f"declares that its text is {encoding}, and it is UTF-8", _UTF_8)


def _read_signature(role: str, row: list[tuple[str, str]]) -> Signature:
    if not row or row[0][0] != role:
        raise MalformedCommitError(f"has no {role} where git writes it")
    match = _SIGNATURE.fullmatch(row[0][1])
    if match is None:
        raise MalformedCommitError(f"has an {role} that cannot be read".replace("an c", "a c"))
    return Signature(match[1], match[2], match[3])


def _check_headers(names: list[str]) -> None:
    for name in names:
        if name in {"tree", "parent", "author", "committer"}:
            reason = f"has a second {name}, and programs differ in which they read"
            raise MalformedCommitError(reason)
        if name not in _HEADERS:
            raise MalformedCommitError(f'has the header "{name[:40]}", which git does not write')
        if names.count(name) > _HEADERS[name]:
            raise MalformedCommitError(f'has the header "{name}" more than once')


# Write commits with git's plumbing, so that the person's index and work tree stay unchanged.
#
# Blobs, trees and commits are made here and passed to git at once. Then the person's index is
# updated. Then the branch moves, only from the commit where it was read. Until this last step, no
# ref points to the new objects.

_ATTEMPTS = 5


class CommitChain(NamedTuple):
    """Commits written one after another that no branch has yet.

    `old` and `new` are the trees before and after the chain ("" for none). `paths`, from the
    repository's root, include all differences. `subject` is the last commit's.
    """

    parent: str
    commits: tuple[str, ...]
    old: str
    new: str
    paths: frozenset[str]
    subject: str


class CommitWriter:
    """Writes one chain: `write`, then `move_head` or `move_branch`."""

    def __init__(
        self, git: GitRunner, objects: ObjectReader, prefix: str, staged: StagedEntries
    ) -> None:
        self._git = git
        self._prefix = prefix
        self._pack = ObjectPack()
        self._trees = TreeBuilder(objects, self._pack)
        self._index, self._staged = PersonIndex(git, staged), staged

    def write(self, drafts: Sequence[CommitDraft], parent: str) -> CommitChain:
        """Store the objects of these commits, each on top of the one before."""
        old = tree = self._trees.root(parent)
        commits: list[str] = []
        paths: set[str] = set()
        for draft in drafts:
            base = self._trees.root(draft.base) if draft.base else tree
            changes = self._add_blobs(draft)
            tree = self._trees.change(base, changes)
            paths |= changes.keys()
            first = commits[-1] if commits else parent
            parents = [each for each in (first, *draft.extra_parents) if each]
            data = format_commit(tree, parents, draft.author, draft.at, draft.message)
            commits.append(self._pack.add("commit", data))
        self._pack.write(self._git)
        if any(draft.base for draft in drafts):
            paths |= self._find_differing(old, tree)
        subject = drafts[-1].message.partition("\n")[0]
        return CommitChain(parent, tuple(commits), old, tree, frozenset(paths), subject)

    def chain_to(self, parent: str, commit: str) -> CommitChain:
        """Return the chain from one commit to another existing commit."""
        old, new = self._trees.root(parent), self._trees.root(commit)
        paths = frozenset(self._find_differing(old, new))
        return CommitChain(parent, (commit,), old, new, paths, f"follow {commit}")

    def move_head(self, chain: CommitChain, settings: CommitSettings) -> None:
        """Update the person's index, then the checked-out branch.

        Raises:
            RefMovedError: HEAD is no longer the chain's parent.
            PendingError: another git holds the index or the branch.
        """
        paths = chain.paths | self._staged.read_staged().keys()
        before = self._trees.entries(chain.old, paths)
        self._index.follow(paths, before, self._trees.entries(chain.new, paths), settings)
        try:
            if pull := find_pull(self._git.work_tree):  # Started after this commit.
                raise PendingError(pull)
            self.move_branch(chain, "HEAD")
        except (VaultError, RefMovedError):
            with contextlib.suppress(VaultError):
                self.update_git_index(settings)
            raise
        with contextlib.suppress(VaultError):  # Closing the operation also clears it.
            self._staged.write_staged({})

    def move_branch(self, chain: CommitChain, ref: str) -> None:
        """Move a ref from the chain's parent to its end.

        Raises:
            RefMovedError: the ref is no longer at the chain's parent.
            PendingError: another git holds the ref.
        """
        command = ("update-ref", "--create-reflog", "-m", f"vaultmem: {chain.subject}")
        old, new = chain.parent or "0" * 40, chain.commits[-1]
        try:
            self._git.run(*command, ref, new, old)
        except VaultError as error:
            now = self._find(ref)
            if now == chain.parent:
                raise
            if now != new or "cannot lock ref" in str(error):
                raise RefMovedError from error
            # Git moved the ref and failed in a later step.
        self._staged.made.append(new)

    def update_git_index(self, settings: CommitSettings) -> None:
        """Reset index entries to HEAD that an unfinished commit left there."""
        paths = self._staged.read_staged().keys()
        head = self._find("HEAD")
        for _ in range(_ATTEMPTS):
            entries = self._trees.entries(self._trees.root(head), paths)
            self._index.follow(paths, entries, entries, settings)
            previous_head, head = head, self._find("HEAD")
            if head == previous_head:
                self._staged.write_staged({})
                return

    def _find(self, ref: str) -> str:
        return self._git.run("rev-parse", "-q", "--verify", ref, check=False)

    def _add_blobs(self, draft: CommitDraft) -> dict[str, TreeEntry | None]:
        entries: dict[str, TreeEntry | None] = {}
        for path, file in draft.files.items():
            entry = file and TreeEntry(file[0], self._pack.add("blob", file[1]))
            entries[self._prefix + path] = entry
        return entries

    def _find_differing(self, old: str, new: str) -> set[str]:
        command = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff")
        out = self._git.run(*command, old or EMPTY_TREE, new)
        return set(filter(None, out.split("\0")))
