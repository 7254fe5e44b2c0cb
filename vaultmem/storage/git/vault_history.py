"""What a repository holds: commits, trees, dates and events of the vault."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType

from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import FaultError, VaultError
from vaultmem.storage.git.commit_draft import REGULAR, Draft, Settings, TreeEntry, read_settings
from vaultmem.storage.git.commit_writer import CommitChain, CommitWriter
from vaultmem.storage.git.head import (
    Head,
    common_folder,
    find_broken_git,
    find_git_folder,
    find_obstacle,
    find_pull,
    read_head,
)
from vaultmem.storage.git.identity import Person, find_person
from vaultmem.storage.git.locks import describe_lock, free_lock
from vaultmem.storage.git.objects import ObjectReader
from vaultmem.storage.git.person_index import PersonIndex, StagedEntries
from vaultmem.storage.git.refs import Refs
from vaultmem.storage.git.repository import check_repository, find_checkout, refuse_bare
from vaultmem.storage.git.runner import GitRunner, make_repository
from vaultmem.storage.git.times import read_time
from vaultmem.storage.git.unmerged import read_unmerged

#: How often a commit is written where what it needs is taken away meanwhile.
_ATTEMPTS = 2


class History:
    """The repository that a vault lives in; `prefix` is the vault's folder inside it.

    `environment` is where a person may have said who they are; `staged` remembers what was put
    into git's index for a commit that no branch has yet.
    """

    def __init__(
        self,
        root: Path,
        scratch: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
        staged: StagedEntries | None = None,
    ) -> None:
        refuse_bare(root)
        found = find_git_folder(root)
        if found is None:
            _refuse_broken(root)
            raise VaultError(f"{root}: not in a git repository; run `vaultmem init` there")
        work_tree, self.git_folder = found
        check_repository(work_tree, self.git_folder)
        inside = root.relative_to(work_tree).as_posix()
        self.prefix = "" if inside == "." else inside + "/"
        self.git = GitRunner(work_tree, self.git_folder, scratch)
        self.refs = Refs(self.git)
        self.objects = ObjectReader(self.git)
        self.staged = staged or StagedEntries()
        self.environment = environment

    def seen_by(self, environment: Mapping[str, str]) -> History:
        """Return the same repository, as open, for a person of whom another environment tells."""
        other = copy.copy(self)
        other.environment = environment
        return other

    def head(self) -> Head:
        """Return the checked-out branch and commit."""
        head = read_head(self.git_folder)
        if head is not None:
            return head
        branch = self.git.run("symbolic-ref", "--short", "-q", "HEAD", check=False)
        return Head(branch, self.git.run("rev-parse", "-q", "--verify", "HEAD", check=False))

    def close(self) -> None:
        """End git's process, if one is running."""
        self.objects.close()

    def obstacle(self, may_be_detached: bool = False, patience: float = 0.0) -> str:
        """Return why no commit can be made right now, empty if one can.

        Another git's lock is waited for until it is `patience` seconds old.
        """
        if told := find_obstacle(self.git_folder, may_be_detached, self.prefix):
            return told
        if told := find_pull(self.git.work_tree):
            return told
        head = read_head(self.git_folder)
        branch = common_folder(self.git_folder) / "refs/heads" / (head.branch if head else "")
        names = (self.git_folder / "index", self.git_folder / "HEAD", branch)
        locks = (name.with_name(f"{name.name}.lock") for name in names)
        held = (lock for lock in locks if not free_lock(lock, self.git.place, patience))
        return next(map(describe_lock, held), "")

    def unmerged(self) -> frozenset[str]:
        """Return the vault's files that a merge or `git stash pop` left in conflict."""
        found = read_unmerged(self.git_folder)
        return frozenset(path.removeprefix(self.prefix) for path in found)

    def exclude_file(self) -> Path:
        """Return the repository's own list of ignored files, which is in no commit."""
        return Path(self.git.run("rev-parse", "--git-path", "info/exclude"))

    def commit_time(self, commit: str) -> int:
        """Return a commit's time in seconds since the epoch."""
        return read_time(self.git.run("show", "-s", "--no-notes", "--format=%ct", commit, "--"))

    def person(self, settings: Settings | None = None) -> Person:
        """Return who git takes the person for, by these settings, or asked anew."""
        return find_person(self.git, self.environment, settings or self.settings())

    def settings(self) -> Settings:
        """Return what git's settings say of its user and of filters, asked anew."""
        return read_settings(self.git)

    def find_roots(self) -> tuple[str, ...]:
        """Return the first commits of all that HEAD and the branches hold, that of HEAD first.

        None in a shallow clone, which does not have them.
        """
        if (common_folder(self.git_folder) / "shallow").exists():
            return ()
        walks = (("--first-parent", "HEAD"), ("HEAD", "--branches"))
        command = ("rev-list", "--max-parents=0")
        found = [self.git.run(*command, *walk, "--", check=False) for walk in walks]
        return tuple(dict.fromkeys("\n".join(found).split()))

    def find_names(self) -> tuple[str, ...]:
        """Return how the vault is known wherever its repository is: by these, and its folder."""
        return tuple(f"{root} {escape_bytes(self.prefix)}" for root in self.find_roots())

    def tree(self, commit: str) -> dict[str, TreeEntry]:
        """Return the vault's files in a commit by path; links and submodules are left out.

        Names are what git has, text or not (see `core.paths.is_text`).
        """
        if not commit:
            return {}
        where = ["--", self.prefix] if self.prefix else []
        out = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit, *where)
        entries: dict[str, TreeEntry] = {}
        for line in filter(None, out.split("\0")):
            meta, _, path = line.partition("\t")
            mode, kind, blob = meta.split()
            if kind == "blob" and mode in REGULAR:
                entries[path.removeprefix(self.prefix)] = TreeEntry(mode, blob)
        return entries

    def differing(self, commit: str) -> set[str]:
        """Return the vault's files that differ from a commit, as git tells it."""
        where = ["--", self.prefix] if self.prefix else []
        command = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z")
        out = self.git.run(*command, commit, *where)
        return {path.removeprefix(self.prefix) for path in out.split("\0") if path}

    def ignored(self, paths: list[str]) -> set[str]:
        """Return those of the paths that git ignores."""
        if not paths:
            return set()
        # check-ignore refuses --literal-pathspecs; `./` keeps `:(top)x` from being read as magic.
        lead = f"./{self.prefix}"
        asked = os.fsencode("".join(f"{lead}{path}\0" for path in paths))
        command = ("--no-literal-pathspecs", "check-ignore", "-z", "--stdin", "--no-index")
        out = self.git.run(*command, stdin=asked, fine=(0, 1))
        return {path.removeprefix(lead) for path in out.split("\0") if path}

    def write_commits(
        self, drafts: Sequence[Draft], parent: str, settings: Settings | None = None
    ) -> list[str]:
        """Make a chain of commits upon `parent` what is checked out: all of them, or none.

        The ids are returned, oldest first. The person's index follows but for what they staged;
        the work tree is not touched.

        Raises:
            RefMovedError: HEAD is not `parent` any more.
            PendingError: another git holds the index or the branch.
        """
        known = settings or self.settings()
        return self._write(drafts, parent, lambda writer, chain: writer.move_head(chain, known))

    def write_branch_commits(self, ref: str, drafts: Sequence[Draft], parent: str) -> list[str]:
        """Make a chain of commits upon `parent` the end of a branch that is not checked out.

        `ref` starts with "refs/heads/"; with an empty `parent` the branch is new. Neither index
        nor work tree is touched.

        Raises:
            RefMovedError: the branch is not at `parent` any more.
            PendingError: another git holds the branch.
            VaultError: it is no branch, or is checked out somewhere.
        """
        if not ref.startswith("refs/heads/"):
            raise VaultError(f"{ref}: not a local branch; nothing can be committed there")
        if folder := find_checkout(self.git_folder, ref):
            name = ref.removeprefix("refs/heads/")
            raise VaultError(f"{name}: checked out in {folder}; commit there, or switch it away")
        return self._write(drafts, parent, lambda writer, chain: writer.move_branch(chain, ref))

    def follow(self, parent: str, commit: str, ref: str = "") -> None:
        """Move what is checked out, else a branch that is not, on from one commit to another.

        Raises:
            RefMovedError, PendingError, VaultError: as for `write_commits`.
        """
        writer = self._writer()
        chain = writer.chain_to(parent, commit)
        if ref:
            writer.move_branch(chain, ref)
        else:
            writer.move_head(chain, self.settings())

    def _write(
        self,
        drafts: Sequence[Draft],
        parent: str,
        move: Callable[[CommitWriter, CommitChain], None],
    ) -> list[str]:
        """Write a chain and move a ref to it.

        `git gc --prune=now` throws away what no ref names yet, and the folders that it was to go
        to: then all of it is written once more.
        """

        def write() -> list[str]:
            writer = self._writer()
            chain = writer.write(drafts, parent)
            move(writer, chain)
            return list(chain.commits)

        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FaultError):
                return write()
        return write()

    def person_index(self) -> PersonIndex:
        """Return git's index of the work tree."""
        return PersonIndex(self.git, self.staged)

    def settle_index(self) -> None:
        """Take out of the person's index what a commit left there that did not come about."""
        if self.staged.read_staged():
            self._writer().settle_index(self.settings())

    def find_skipped(self, paths: Set[str]) -> set[str]:
        """Return those of the paths that a sparse checkout leaves out of the work tree."""
        named = {self.prefix + path for path in paths}
        found = self.person_index().find_skipped(named)
        return {path.removeprefix(self.prefix) for path in found}

    def _writer(self) -> CommitWriter:
        return CommitWriter(self.git, self.objects, self.prefix, self.staged)


def init_repository(root: Path, is_resumed: bool = False) -> None:
    """Make an empty repository in a folder, or make one to its end whose making was killed."""
    refuse_bare(root)
    _refuse_broken(root)
    if is_resumed and find_git_folder(root) is None:
        (root / ".git/HEAD.lock").unlink(missing_ok=True)
    make_repository(root)


def _refuse_broken(root: Path) -> None:
    if broken := find_broken_git(root):
        raise VaultError(
            f"{broken}: leads to no repository; mend it, or move it away and run `vaultmem init`"
        )
