"""Write commits by plumbing, so that a person's index and work tree stay theirs.

Blobs, trees and commits are made here and handed to git in one go; then the person's index
follows; then the branch moves, from where it was read and from nowhere else. Until that last
step nothing points to what was written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.errors import PendingError, VaultError
from vaultmem.storage.git.commit_draft import (
    EMPTY_TREE,
    Draft,
    RefMovedError,
    Settings,
    TreeEntry,
    format_commit,
)
from vaultmem.storage.git.head import find_pull
from vaultmem.storage.git.objects import ObjectPack
from vaultmem.storage.git.person_index import PersonIndex, StagedEntries
from vaultmem.storage.git.tree_builder import TreeBuilder

if TYPE_CHECKING:
    from vaultmem.storage.git.objects import ObjectReader
    from vaultmem.storage.git.runner import GitRunner

_ATTEMPTS = 5


class CommitChain(NamedTuple):
    """Commits that were written one upon the other and that no branch has yet.

    `old` and `new` are the trees before and behind it ("" for none); `paths`, from the
    repository's root, are all that may differ between them. `subject` is the last commit's.
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

    def write(self, drafts: Sequence[Draft], parent: str) -> CommitChain:
        """Store the objects of these commits, each upon the one before."""
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
        """Return the chain that leads from one commit to one that there is already."""
        old, new = self._trees.root(parent), self._trees.root(commit)
        paths = frozenset(self._find_differing(old, new))
        return CommitChain(parent, (commit,), old, new, paths, f"follow {commit}")

    def move_head(self, chain: CommitChain, settings: Settings) -> None:
        """Let the person's index follow, then the branch that is checked out.

        Raises:
            RefMovedError: HEAD is not the chain's parent any more.
            PendingError: another git holds the index or the branch.
        """
        paths = chain.paths | self._staged.read_staged().keys()
        before = self._trees.entries(chain.old, paths)
        self._index.follow(paths, before, self._trees.entries(chain.new, paths), settings)
        try:
            if pull := find_pull(self._git.work_tree):  # Begun since the commit was begun.
                raise PendingError(pull)
            self.move_branch(chain, "HEAD")
        except (VaultError, RefMovedError):
            with contextlib.suppress(VaultError):
                self.settle_index(settings)
            raise
        with contextlib.suppress(VaultError):  # The commit is made; closing the operation does it.
            self._staged.write_staged({})

    def move_branch(self, chain: CommitChain, ref: str) -> None:
        """Move a ref to the chain's end, if it still is at the chain's parent.

        Raises:
            RefMovedError: it is not.
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
            # Git has moved it, and failed at what comes after that.
        self._staged.made.append(new)

    def settle_index(self, settings: Settings) -> None:
        """Give the index what HEAD has, where a commit that did not come about left its own."""
        paths = self._staged.read_staged().keys()
        head = self._find("HEAD")
        for _ in range(_ATTEMPTS):
            held = self._trees.entries(self._trees.root(head), paths)
            self._index.follow(paths, held, held, settings)
            settled, head = head, self._find("HEAD")
            if head == settled:
                self._staged.write_staged({})
                return

    def _find(self, ref: str) -> str:
        return self._git.run("rev-parse", "-q", "--verify", ref, check=False)

    def _add_blobs(self, draft: Draft) -> dict[str, TreeEntry | None]:
        entries: dict[str, TreeEntry | None] = {}
        for path, file in draft.files.items():
            added = file and TreeEntry(file[0], self._pack.add("blob", file[1]))
            entries[self._prefix + path] = added
        return entries

    def _find_differing(self, old: str, new: str) -> set[str]:
        command = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff")
        out = self._git.run(*command, old or EMPTY_TREE, new)
        return set(filter(None, out.split("\0")))
