"""Find and check a repository: can vaultmem write to it, and who is its user."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.notes.encoding import read_escapes
from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import VaultError
from vaultmem.storage.git.commit_draft import (
    CommitSettings,
    Identity,
    TreeEntry,
    clean_name,
    parse_tree,
)
from vaultmem.storage.git.head import common_folder, find_git_folder, read_line
from vaultmem.storage.git.runner import GitRunner, find_refusal, read_time

# The work trees of one repository, found in git's files without starting git.


def list_beside(folder: Path) -> list[Path]:
    """Return a folder's paths in the other work trees of its repository.

    Git's files must link both ways: a work tree that names this repository and is not named by it
    is a copy or an attack. Its git files belong to the user, and no symbolic link leads to them.
    """
    folders = find_git_folder(folder)
    if folders is None:
        return []
    work_tree, common = folders[0], common_folder(folders[1])
    heads = sorted(common.glob("worktrees/*/gitdir"))
    if not heads or not _is_tied(work_tree, common):
        return []
    candidates = [common.parent, *(Path(read_line(head)).parent for head in heads)]
    others = {path: None for path in map(_resolve, candidates) if path and path != work_tree}
    relative_path = folder.relative_to(work_tree)
    return [path / relative_path for path in others if _is_tied(path, common)]


def _is_tied(work_tree: Path, common: Path) -> bool:
    """Return whether a work tree and a repository name each other."""
    git = work_tree / ".git"
    folders = find_git_folder(work_tree)
    if folders is None or folders[0] != work_tree or git.is_symlink():
        return False
    folder = folders[1]
    if common_folder(folder) != common or not _is_own(git, folder, common):
        return False
    if folder == git:  # The main work tree: its git folder is the shared one.
        return folder.resolve() == common.resolve()
    is_listed = folder.parent.name == "worktrees" and folder.parent.parent == common.resolve()
    return is_listed and _resolve(Path(read_line(folder / "gitdir"))) == git


def _resolve(path: Path) -> Path | None:
    """Return a path with links resolved, None if it does not exist."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def _is_own(*paths: Path) -> bool:
    """Return whether all of these belong to the user."""
    try:
        return os.name != "posix" or all(p.lstat().st_uid == os.geteuid() for p in paths)
    except OSError:
        return False


_SECTION = compile_later(r'\s*\[\s*([\w.-]+)\s*("(?:[^"\\]|\\.)*")?\s*\]')
_SETTING = compile_later(r"\s*([a-zA-Z][\w-]*)\s*(?:=\s*\"?([^\s\"#;]*))?")


def check_repository(work_tree: Path, git_folder: Path) -> None:
    """Check that commits can be made here.

    Raises:
        VaultError: the repository uses SHA-256, has an unknown ref format, has no work
            tree, or belongs to another user.
    """
    if _is_foreign(work_tree, git_folder) and (refusal := find_refusal(work_tree)):
        if "dubious ownership" in refusal or "unsafe repository" in refusal:
            raise VaultError(
                f"{work_tree}: the repository belongs to another user, so git does not work in "
                "it; if you trust that user, run "
                f"`git config --global --add safe.directory {shlex.quote(str(work_tree))}`"
            )
        raise VaultError(f"{work_tree}: git does not work in it ({refusal}); fix that first")
    settings = _read_config(common_folder(git_folder) / "config")
    if settings.get("extensions.objectformat", "sha1").lower() != "sha1":
        raise VaultError(
            f"{work_tree}: the repository uses SHA-256 names, which vaultmem does not write; "
            "move the notes into a repository made by `git init --object-format=sha1`"
        )
    refs = settings.get("extensions.refstorage", "files").lower()
    if refs != "files" and find_refusal(work_tree):
        raise VaultError(
            f"{work_tree}: the repository keeps its refs as {refs}, which the git here does not "
            "know; install git 2.45 or newer"
        )
    if _is_bare(git_folder):  # A linked work tree of a bare one is not.
        raise VaultError(_bare(work_tree))


def check_not_bare(root: Path) -> None:
    """Check that a folder is not itself a bare repository.

    Raises:
        VaultError: it is one.
    """
    names = ("objects", "refs")
    if (root / "HEAD").is_file() and all((root / name).is_dir() for name in names):
        raise VaultError(_bare(root))


def find_checkout(git_folder: Path, ref: str) -> str:
    """Return the folder in which a branch is checked out or rebased; "" if none.

    Git's files show it, for the main and for linked work trees.
    """
    common = common_folder(git_folder)
    if _holds(common, ref) and not _is_bare(common):
        return str(common.parent)
    for head in sorted(common.glob("worktrees/*/HEAD")):
        if _holds(head.parent, ref):
            return str(Path(read_line(head.parent / "gitdir")).parent)
    return ""


def _holds(git_folder: Path, ref: str) -> bool:
    names = ("rebase-merge/head-name", "rebase-apply/head-name")
    refs = [read_line(git_folder / name) for name in names]
    return ref in refs or read_line(git_folder / "HEAD") == f"ref: {ref}"


def _is_bare(git_folder: Path) -> bool:
    settings = _read_config(git_folder / "config")
    return settings.get("core.bare", "false").lower() not in {"false", "no", "off", "0"}


def _bare(folder: Path) -> str:
    return (
        f"{folder}: a bare repository, which has no files; "
        f"`git clone {shlex.quote(str(folder))}` it and make the vault there"
    )


def _is_foreign(work_tree: Path, git_folder: Path) -> bool:
    """Return whether git would check the owner: not all paths belong to the user."""
    if os.name != "posix":
        return False
    paths = (work_tree, work_tree / ".git", git_folder)
    try:
        return any(path.lstat().st_uid != os.geteuid() for path in paths)
    except OSError:
        return True


def _read_config(file: Path) -> dict[str, str]:
    """Return the settings of sections without a subsection; includes are not read."""
    settings: dict[str, str] = {}
    section = ""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return settings
    for line in text.splitlines():
        if head := _SECTION.match(line):
            section = "" if head[2] else head[1].lower()
            line = line[head.end() :]
        if section and (setting := _SETTING.match(line)):
            value = "true" if setting[2] is None else setting[2]
            settings[f"{section}.{setting[1].lower()}"] = value
    return settings


# Commits of any repository: those that changed a file, and the newest ones.

#: Maximum number of commits to read.
_MAX_COMMITS = 2_000

#: The start of a commit's record: no subject or file name can look like this.
_START = compile_later(r"(?:^|\0)\x01(?=[0-9a-f]{40}\0\d+\0\d{4}-\d\d-\d\d\0)")

_FIELDS = "%H%x00%ct%x00%cs%x00%an%x00%s"
_PLAIN_LOG_OPTIONS = (
    "--no-show-signature",
    "--no-notes",
    "--no-decorate",
    "--no-color",
    "--encoding=UTF-8",
)


class FileCommit(NamedTuple):
    """A commit that changed files; `at` is its time in seconds since the epoch."""

    commit: str
    at: int
    day: str
    author: str
    subject: str


def open_repository(folder: Path) -> GitRunner | None:
    """Return a git runner for the repository that contains a folder, or None.

    Raises:
        VaultError: it belongs to another user, is bare, or has an unsupported format.
    """
    folders = find_git_folder(folder)
    if folders is None:
        return None
    check_not_bare(folders[0])
    check_repository(*folders)
    return GitRunner(*folders)


def find_oldest_root(git: GitRunner) -> str:
    """Return the oldest commit without parents in HEAD's history, "" if there is no commit."""
    walk = ("rev-list", "--max-parents=0", "--timestamp", "HEAD", "--")
    rows = [line.split() for line in git.run(*walk, check=False).splitlines()]
    return min(((int(at), commit) for at, commit in rows), default=(0, ""))[1]


def has_commit(git: GitRunner, commit: str) -> bool:
    """Return whether the repository has a commit."""
    return git.run("cat-file", "-t", commit, check=False) == "commit"


def list_remote_urls(git: GitRunner) -> list[str]:
    """Return the addresses of the remotes in the repository's own settings, origin's first."""
    pattern = r"^remote\..*\.url$"
    out = git.run("config", "--local", "-z", "--get-regexp", pattern, check=False)
    rows = [row.partition("\n") for row in out.split("\0") if row]
    rows.sort(key=lambda row: row[0] != "remote.origin.url")
    return [read_escapes(url) for _, _, url in rows]


def list_file_commits(
    git: GitRunner, paths: Sequence[str], since: int
) -> dict[str, list[FileCommit]]:
    """Return HEAD's commits since a time that changed these files, newest first, by path.

    Paths are relative to the work tree; `since` is in seconds since the epoch.
    """
    commits: dict[str, list[FileCommit]] = {path: [] for path in paths}
    if not paths or not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return commits
    out = git.run(
        *(
            "log",
            "-z",
            *_PLAIN_LOG_OPTIONS,
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--name-only",
        ),
        *(f"--max-count={_MAX_COMMITS}", f"--since=@{max(since, 0)}"),
        *(f"--format=%x01{_FIELDS}", "HEAD"),
        *("--", *paths),
    )
    for block in _START.split(out)[1:]:
        commit, at, day, author, subject, *names = block.split("\0")
        for name in names:
            if (path := name.lstrip("\n")) in commits:
                texts = read_escapes(author), read_escapes(subject)
                commits[path].append(FileCommit(commit, read_time(at), day, *texts))
    return commits


def list_entries(git: GitRunner, paths: Sequence[str]) -> dict[str, TreeEntry]:
    """Return the entries of those files that HEAD has."""
    if not paths or not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return {}
    out = git.run("ls-tree", "-z", "--full-tree", "HEAD", "--", *paths)
    return dict(parse_tree(out))


def list_recent(git: GitRunner, limit: int) -> list[FileCommit]:
    """Return the newest commits of HEAD, newest first; empty before the first commit."""
    if not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return []
    return _list_commits(git, limit, "HEAD", "--")


def list_path_commits(git: GitRunner, path: str, limit: int) -> list[FileCommit]:
    """Return the newest commits of HEAD that changed a file, newest first, through renames."""
    return _list_commits(git, limit, "--follow", "HEAD", "--", path)


def list_commits_after(git: GitRunner, commit: str, path: str) -> list[FileCommit]:
    """Return HEAD's commits that changed a file and that `commit` lacks, oldest first."""
    return _list_commits(git, _MAX_COMMITS, f"{commit}..HEAD", "--", path)[::-1]


def list_line_commits(git: GitRunner, path: str, line: int, limit: int) -> list[FileCommit]:
    """Return the newest commits that wrote a line of a file in HEAD, newest first.

    Git does not read the work tree, so it runs no filter.
    """
    span = f"-L{line},{line}"
    out = git.run(
        *(
            "blame",
            "--porcelain",
            "--no-textconv",
            "--no-ignore-revs-file",
            span,
            "HEAD",
            "--",
            path,
        ),
        check=False,
    )
    head, *rest = out.split("\n")
    name = next((each for each in rest if each.startswith("filename ")), "")
    fields = head.split()
    if len(fields) < 3 or not name:
        return []
    origin = f"-L{fields[1]},{fields[1]}:{name.removeprefix('filename ')}"
    return _list_commits(git, limit, "-s", origin, fields[0])


def _list_commits(git: GitRunner, limit: int, *arguments: str) -> list[FileCommit]:
    plain = (*_PLAIN_LOG_OPTIONS, "--no-ext-diff", "--no-textconv", f"--max-count={limit}")
    out = git.run("log", "-z", *plain, f"--format={_FIELDS}%x00%x01", *arguments, check=False)
    commits = []
    for block in read_escapes(out).split("\0\x01"):
        fields = block.lstrip("\0\n").split("\0")
        if len(fields) == 5:
            commits.append(FileCommit(fields[0], read_time(fields[1]), *fields[2:]))
    return commits


# The person's name for a commit made here, by git's own rules.
#
# `GIT_AUTHOR_NAME` and `GIT_AUTHOR_EMAIL` count first, then `author.*` and `user.*` of all
# settings. If these are incomplete, vaultmem runs git: it reads `EMAIL` and system data, and can
# refuse.

#: The author of a person's commits if git itself would refuse to commit.
FALLBACK_IDENTITY = Identity("person", "person@localhost")

_UNKNOWN_IDENTITY_TEXT = (
    f"git does not know who you are, so what you write is committed as {FALLBACK_IDENTITY.name} "
    f"<{FALLBACK_IDENTITY.email}>; say it with `git config --global user.name NAME` and "
    "`git config --global user.email ADDRESS`"
)

_VARIABLES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL")


class Person(NamedTuple):
    """The person's identity; `problem` is set if git does not know it, with the fix."""

    identity: Identity
    problem: str = ""


def find_person(git: GitRunner, environment: Mapping[str, str], settings: CommitSettings) -> Person:
    """Return the identity that git uses for the person."""
    variables = {name: environment[name] for name in _VARIABLES if name in environment}
    names = [
        variables.get(
            variable, settings.names.get(f"author.{key}", settings.names.get(f"user.{key}"))
        )
        for variable, key in zip(_VARIABLES, ("name", "email"), strict=True)
    ]
    texts = [read_escapes(each or "") for each in names]
    if all(map(clean_name, texts)):
        return Person(Identity(*texts))
    try:
        identity = git.run("var", "GIT_AUTHOR_IDENT", env=variables)
    except VaultError:
        return Person(FALLBACK_IDENTITY, _UNKNOWN_IDENTITY_TEXT)
    name, _, rest = read_escapes(identity).rpartition(" <")
    return Person(Identity(name, rest.partition(">")[0]))
