"""The repository of a vault: commits, trees, events and attributions."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.text.display import escape_bytes
from vaultmem.errors import SystemFailureError, VaultError
from vaultmem.storage.git.commit_draft import (
    REGULAR,
    CommitDraft,
    CommitSettings,
    Identity,
    TreeEntry,
    format_commit,
    parse_tree,
    read_settings,
)
from vaultmem.storage.git.commit_writer import CommitChain, CommitWriter
from vaultmem.storage.git.git_locks import describe_lock, free_lock
from vaultmem.storage.git.head import (
    GitHead,
    common_folder,
    find_broken_git,
    find_commit_blocker,
    find_git_folder,
    find_pull,
    read_head,
    read_unmerged,
)
from vaultmem.storage.git.objects import ObjectReader
from vaultmem.storage.git.person_index import PersonIndex, StagedEntries
from vaultmem.storage.git.refs import Refs
from vaultmem.storage.git.repository import (
    Person,
    check_not_bare,
    check_repository,
    find_checkout,
    find_person,
)
from vaultmem.storage.git.runner import GitRunner, make_repository, read_time

#: Retries of a commit if git removes its objects meanwhile.
_ATTEMPTS = 2


class VaultHistory:
    """The repository of a vault; `prefix` is the vault's folder inside it.

    `environment` can name the person. `staged` holds entries put into git's index for a commit that
    no branch has yet.
    """

    def __init__(
        self,
        root: Path,
        scratch: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
        staged: StagedEntries | None = None,
    ) -> None:
        check_not_bare(root)
        folders = find_git_folder(root)
        if folders is None:
            _reject_broken(root)
            raise VaultError(f"{root}: not in a git repository; run `vaultmem init` there")
        work_tree, self.git_folder = folders
        check_repository(work_tree, self.git_folder)
        relative_path = root.relative_to(work_tree).as_posix()
        self.prefix = "" if relative_path == "." else relative_path + "/"
        self.git = GitRunner(work_tree, self.git_folder, scratch)
        self.refs = Refs(self.git)
        self.objects = ObjectReader(self.git)
        self.staged = staged or StagedEntries()
        self.environment = environment

    def seen_by(self, environment: Mapping[str, str]) -> VaultHistory:
        """Return the same open repository with another environment, for another person."""
        other = copy.copy(self)
        other.environment = environment
        return other

    def head(self) -> GitHead:
        """Return the checked-out branch and commit."""
        head = read_head(self.git_folder)
        if head is not None:
            return head
        branch = self.git.run("symbolic-ref", "--short", "-q", "HEAD", check=False)
        return GitHead(branch, self.git.run("rev-parse", "-q", "--verify", "HEAD", check=False))

    def close(self) -> None:
        """End git's process, if one is running."""
        self.objects.close()

    def obstacle(self, may_be_detached: bool = False, patience: float = 0.0) -> str:
        """Return why no commit can be made now, "" if one can.

        Another git's lock is waited for until it is `patience` seconds old.
        """
        if reason := find_commit_blocker(self.git_folder, may_be_detached, self.prefix):
            return reason
        if reason := find_pull(self.git.work_tree):
            return reason
        head = read_head(self.git_folder)
        branch = common_folder(self.git_folder) / "refs/heads" / (head.branch if head else "")
        names = (self.git_folder / "index", self.git_folder / "HEAD", branch)
        locks = (name.with_name(f"{name.name}.lock") for name in names)
        held_locks = (lock for lock in locks if not free_lock(lock, self.git.place, patience))
        return next(map(describe_lock, held_locks), "")

    def unmerged(self) -> frozenset[str]:
        """Return the vault's files that a merge or `git stash pop` left in conflict."""
        paths = read_unmerged(self.git_folder)
        return frozenset(path.removeprefix(self.prefix) for path in paths)

    def exclude_file(self) -> Path:
        """Return the path of the repository's own exclude file, which is in no commit."""
        return Path(self.git.run("rev-parse", "--git-path", "info/exclude"))

    def commit_time(self, commit: str) -> int:
        """Return a commit's time in seconds since the epoch."""
        return read_time(self.git.run("show", "-s", "--no-notes", "--format=%ct", commit, "--"))

    def person(self, settings: CommitSettings | None = None) -> Person:
        """Return git's identity of the person, by these settings or freshly read ones."""
        return find_person(self.git, self.environment, settings or self.settings())

    def settings(self) -> CommitSettings:
        """Return git's current settings of the user's name and of filters."""
        return read_settings(self.git)

    def find_roots(self) -> tuple[str, ...]:
        """Return the root commits of HEAD and all branches, HEAD's first.

        The result is empty in a shallow clone, which lacks them.
        """
        if self.refs.is_shallow():
            return ()
        walks = (("--first-parent", "HEAD"), ("HEAD", "--branches"))
        command = ("rev-list", "--max-parents=0")
        outputs = [self.git.run(*command, *walk, "--", check=False) for walk in walks]
        return tuple(dict.fromkeys("\n".join(outputs).split()))

    def find_names(self) -> tuple[str, ...]:
        """Return the vault's ids in any clone of its repository: root commit and folder."""
        return tuple(f"{root} {escape_bytes(self.prefix)}" for root in self.find_roots())

    def tree(self, commit: str) -> dict[str, TreeEntry]:
        """Return the vault's files in a commit by path; links and submodules are left out.

        Names are git's, UTF-8 or not (see `core.paths.is_text`).
        """
        if not commit:
            return {}
        pathspec = ["--", self.prefix] if self.prefix else []
        out = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit, *pathspec)
        return {
            path.removeprefix(self.prefix): entry
            for path, entry in parse_tree(out)
            if entry.mode in REGULAR
        }

    def differing(self, commit: str) -> set[str]:
        """Return the vault's files that differ from a commit, according to git."""
        pathspec = ["--", self.prefix] if self.prefix else []
        command = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z")
        out = self.git.run(*command, commit, *pathspec)
        return {path.removeprefix(self.prefix) for path in out.split("\0") if path}

    def ignored(self, paths: list[str]) -> set[str]:
        """Return those of the paths that git ignores."""
        if not paths:
            return set()
        # check-ignore rejects --literal-pathspecs; `./` keeps `:(top)x` from being read as magic.
        lead = f"./{self.prefix}"
        stdin = os.fsencode("".join(f"{lead}{path}\0" for path in paths))
        command = ("--no-literal-pathspecs", "check-ignore", "-z", "--stdin", "--no-index")
        out = self.git.run(*command, stdin=stdin, fine=(0, 1))
        return {path.removeprefix(lead) for path in out.split("\0") if path}

    def write_commits(
        self, drafts: Sequence[CommitDraft], parent: str, settings: CommitSettings | None = None
    ) -> list[str]:
        """Write a chain of commits on top of `parent` and check it out: all of them, or none.

        Return their ids, oldest first. The person's index follows, except for staged changes. The
        work tree is not touched.

        Raises:
            RefMovedError: HEAD is no longer `parent`.
            PendingError: another git holds the index or the branch.
        """
        commit_settings = settings or self.settings()
        return self._write(
            drafts, parent, lambda writer, chain: writer.move_head(chain, commit_settings)
        )

    def write_branch_commits(
        self, ref: str, drafts: Sequence[CommitDraft], parent: str
    ) -> list[str]:
        """Write a chain of commits on top of `parent` to a branch that is not checked out.

        `ref` starts with "refs/heads/"; with an empty `parent` the branch is new. Neither index nor
        work tree is touched.

        Raises:
            RefMovedError: the branch is no longer at `parent`.
            PendingError: another git holds the branch.
            VaultError: it is not a local branch, or is checked out.
        """
        if not ref.startswith("refs/heads/"):
            raise VaultError(f"{ref}: not a local branch; nothing can be committed there")
        if folder := find_checkout(self.git_folder, ref):
            name = ref.removeprefix("refs/heads/")
            raise VaultError(f"{name}: checked out in {folder}; commit there, or switch it away")
        return self._write(drafts, parent, lambda writer, chain: writer.move_branch(chain, ref))

    def follow(self, parent: str, commit: str, ref: str = "") -> None:
        """Move HEAD, or the branch `ref`, from one commit to another.

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
        drafts: Sequence[CommitDraft],
        parent: str,
        move: Callable[[CommitWriter, CommitChain], None],
    ) -> list[str]:
        """Write a chain and move a ref to it.

        `git gc --prune=now` can remove objects that no ref names yet, and their folders. Then the
        whole chain is written again.
        """

        def write() -> list[str]:
            writer = self._writer()
            chain = writer.write(drafts, parent)
            move(writer, chain)
            return list(chain.commits)

        for _ in range(_ATTEMPTS):
            with contextlib.suppress(SystemFailureError):
                return write()
        return write()

    def person_index(self) -> PersonIndex:
        """Return git's index of the work tree."""
        return PersonIndex(self.git, self.staged)

    def update_git_index(self) -> None:
        """Remove from the person's index what an unfinished commit left there."""
        if self.staged.read_staged():
            self._writer().update_git_index(self.settings())

    def find_skipped(self, paths: Set[str]) -> set[str]:
        """Return those of the paths that a sparse checkout leaves out of the work tree."""
        full_paths = {self.prefix + path for path in paths}
        skipped_paths = self.person_index().find_skipped(full_paths)
        return {path.removeprefix(self.prefix) for path in skipped_paths}

    def _writer(self) -> CommitWriter:
        return CommitWriter(self.git, self.objects, self.prefix, self.staged)


def init_repository(root: Path, is_resumed: bool = False) -> None:
    """Create an empty repository in a folder, or complete an interrupted creation."""
    check_not_bare(root)
    _reject_broken(root)
    if is_resumed and find_git_folder(root) is None:
        (root / ".git/HEAD.lock").unlink(missing_ok=True)
    make_repository(root)


def _reject_broken(root: Path) -> None:
    if git_file := find_broken_git(root):
        raise VaultError(
            f"{git_file}: leads to no repository; fix it, or move it away and run `vaultmem init`"
        )


# Attribution of text that another author committed: git notes, under vaultmem's refs.
#
# A note has a line of JSON for each file in which its commit has an agent's text: `path` inside the
# repository, `lines` as in "1-12,14" ("" for all of the commit's changes to the file), `agent`,
# `session` and `tool_call`. Claims of other machines are under a ref of their own, with
# `claimed_by`. A note that was carried over a rewritten history has its original commit in
# `first_commit`.

NOTES_REF = "refs/notes/vaultmem"
CLAIMS_REF = "refs/notes/vaultmem-claims"

#: The folder of a machine's ref that contains its notes.
ATTRIBUTION = "attribution"

#: The author of the notes' commits, which are not shown.
_NOTES_AUTHOR = Identity("vaultmem", "vaultmem@localhost")
_NOTES_AUTHOR_VARIABLES = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", _NOTES_AUTHOR.name), ("EMAIL", _NOTES_AUTHOR.email))
}

_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


_FIRST_COMMIT_FIELD = re.compile(r'"first_commit": "([0-9a-f]{40})"')


class AgentLines(NamedTuple):
    """The part of another author's commit that an agent wrote; no `lines` means the whole file.

    `claimed_by` is the other machine that reports it, "" for this one.
    """

    path: str
    lines: str
    agent: str
    session: str
    tool_call: str
    claimed_by: str = ""

    def has_line(self, number: int) -> bool:
        """Return whether `lines` contains a line (1-based) of the file in that commit."""
        spans = map(_SPAN.fullmatch, self.lines.split(","))
        return not self.lines or any(
            int(span[1]) <= number <= int(span[2] or span[1]) for span in spans if span
        )


def write_attribution(
    history: VaultHistory, commit: str, attributions: Sequence[AgentLines]
) -> None:
    """Record who wrote the content of a commit, replacing an earlier record.

    Git copies the note if the commit is amended or rebased.

    Raises:
        PendingError: another git is writing notes.
    """
    command = ("notes", f"--ref={NOTES_REF}", "add", "--force", "--file=-", commit)
    history.git.run(*command, stdin=format_attribution(attributions), env=_NOTES_AUTHOR_VARIABLES)
    refs = history.git.run("config", "--local", "--get-all", "notes.rewriteRef", check=False)
    if NOTES_REF not in refs.splitlines():
        history.git.run("config", "--local", "--add", "notes.rewriteRef", NOTES_REF)


def format_attribution(attributions: Iterable[AgentLines], **fields: str) -> bytes:
    """Return a note; `fields` are added to each of its lines."""
    rows = ({**each._asdict(), **fields} for each in attributions)
    compact_rows = ({k: v for k, v in row.items() if v or k != "claimed_by"} for row in rows)
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in compact_rows)
    return text.encode("utf-8", "surrogateescape")


def parse_attribution(text: str) -> tuple[AgentLines, ...]:
    """Return the content of a commit's notes; lines that cannot be parsed are left out.

    Claims of other machines count only if this one recorded nothing for the commit.
    """
    attributions = []
    for line in text.splitlines():
        try:
            values = json.loads(line)
            fields = {name: values[name] for name in AgentLines._fields if name != "claimed_by"}
            attribution = AgentLines(**fields, claimed_by=values.get("claimed_by", ""))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
        if all(isinstance(value, str) for value in attribution) and attribution.agent:
            attributions.append(attribution)
    own = [each for each in attributions if not each.claimed_by]
    return tuple(own or attributions)


def read_first_commit(text: str) -> str:
    """Return the original commit of a note that was carried over, "" if it was not."""
    match = _FIRST_COMMIT_FIELD.search(text)
    return match[1] if match else ""


def read_attribution(history: VaultHistory) -> dict[str, str]:
    """Return all notes of this machine, by the full id of their commit."""
    out = history.git.run("notes", f"--ref={NOTES_REF}", "list", check=False)
    rows = (line.split(" ") for line in out.splitlines())
    blobs = {row[1]: row[0] for row in rows if len(row) == 2}
    texts = history.objects.read_all(blobs.values())
    return {
        commit: data.decode("utf-8", "surrogateescape")
        for commit, (_, data) in zip(blobs, texts, strict=True)
    }


def replace_attribution(
    history: VaultHistory, ref: str, notes: Mapping[str, bytes], at: int
) -> None:
    """Replace all notes of a ref at once, by the full id of their commit.

    Raises:
        VaultError: another git moved the ref meanwhile, or git cannot write.
    """
    from vaultmem.storage.git.objects import (
        ObjectPack,  # Not needed for reading.
        TreeBuilder,
    )

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
    new_commit = pack.add(
        "commit", format_commit(tree, [], _NOTES_AUTHOR, at, "vaultmem: who wrote what\n")
    )
    pack.write(history.git)
    history.git.run("update-ref", ref, new_commit, old or "0" * 40)
