"""Run git in bare repositories and clones, within a time limit.

Git ignores system and user settings and replaced objects, and runs no program that the repository
names.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from vaultmem.errors import LockTimeoutError, NoteNotFoundError, SystemFailureError, VaultError
from vaultmem.storage.git.head import read_head, read_refs
from vaultmem.storage.git.remote import Remote, RemoteBranches, fetch, list_refs
from vaultmem.storage.git.vault_history import VaultHistory

_SETTINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}

#: The quarantine variables that git sets for its hooks: the objects of a push that is not accepted.
_QUARANTINE = (
    *("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY"),
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)

#: Packs with more objects are kept as packs; smaller ones are unpacked.
_UNPACK_LIMIT = 100

#: Variables that a process needs to find its programs and its temporary files.
_SYSTEM = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT", "TEMP", "LD_LIBRARY_PATH", "GIT_EXEC_PATH")


class BareGit:
    """Runs git in one bare repository, with one time limit for all commands.

    Only the quarantine and system variables of `environment` are used.
    """

    def __init__(
        self, repository: Path, environment: Mapping[str, str], seconds: float = float("inf")
    ) -> None:
        self.repository = repository
        variables = {name: environment[name] for name in _SYSTEM if name in environment}
        quarantine = {name: environment[name] for name in _QUARANTINE if name in environment}
        folder = os.path.abspath(repository)
        for name in ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY"):
            if name in quarantine:
                quarantine[name] = os.path.join(folder, quarantine[name])
        self._environment = variables | _SETTINGS | quarantine | {"GIT_DIR": folder}
        self._ends = time.monotonic() + seconds

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        fine: tuple[int, ...] = (0,),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """Run git with extra variables (`environment`) and return its output.

        Raises:
            LockTimeoutError: the time is over.
            SystemFailureError: git exited with a status that is not in `fine`.
        """
        try:
            result = subprocess.run(
                self._command(arguments),
                input=stdin,
                capture_output=True,
                env={**self._environment, **environment},
                timeout=self._rest(),
            )
        except subprocess.TimeoutExpired:
            raise _too_long(arguments) from None
        if result.returncode not in fine:
            lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = next(iter(lines), f"status {result.returncode}")
            raise SystemFailureError(f"git {arguments[0]} failed: {reason}")
        return result.stdout

    def succeeds(self, *arguments: str) -> bool:
        """Run git and return whether it succeeded."""
        try:
            self.run(*arguments)
        except SystemFailureError:
            return False
        return True

    @contextlib.contextmanager
    def reading(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start git with pipes to and from it; kill it when the context ends."""
        process = subprocess.Popen(
            self._command(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def list_refs(self, prefix: str = "") -> dict[str, str]:
        """Return the object id of each ref, or of each ref below a name."""
        refs = read_refs(self.repository, prefix or "refs/")
        if refs is not None:
            return refs
        command = ("for-each-ref", "--format=%(refname) %(objectname)", *filter(None, [prefix]))
        lines = self.run(*command).decode("utf-8", "surrogateescape").split("\n")
        return {ref: name for ref, _, name in (line.rpartition(" ") for line in lines) if ref}

    def with_objects(self, folder: Path) -> BareGit:
        """Return git for the same repository that also sees another repository's objects."""
        git = copy.copy(self)
        own = os.path.join(os.path.abspath(self.repository), "objects")
        variables = {"GIT_OBJECT_DIRECTORY": str(folder), "GIT_ALTERNATE_OBJECT_DIRECTORIES": own}
        git._environment = self._environment | variables
        return git

    def copy_objects(self, source: BareGit, new: str, old: str) -> None:
        """Copy the objects that `new` has and `old` ("" for none) lacks, durably.

        `source` has the objects of the other repository (see `with_objects`). Files of single
        objects there are linked: they are durable, and git never changes them.
        """
        folder = Path(source._environment["GIT_OBJECT_DIRECTORY"])
        revisions = [new, *([f"^{old}"] if old else [])]
        names = source.run("rev-list", "--objects", "--no-object-names", *revisions, "--").split()
        if len(names) <= _UNPACK_LIMIT and all(
            self._link_object(folder, name.decode()) for name in names
        ):
            return
        stdin = "\n".join([*revisions, ""]).encode()
        pack = source.run("pack-objects", "-q", "--revs", "--stdout", stdin=stdin)
        is_large = int.from_bytes(pack[8:12]) > _UNPACK_LIMIT
        command = ("index-pack", "--stdin") if is_large else ("unpack-objects", "-q")
        self.run(*command, stdin=pack)

    def _link_object(self, folder: Path, name: str) -> bool:
        """Link the file of an object in `folder`; return whether the object is there now."""
        file = Path(name[:2], name[2:])
        own_file = self.repository / "objects" / file
        try:
            own_file.parent.mkdir(exist_ok=True)
            own_file.hardlink_to(folder / file)
        except FileExistsError:
            return True
        except OSError:  # It is packed, or on another disk.
            return False
        return True

    def count_incoming(self) -> int:
        """Return the size in bytes of the quarantined objects on disk."""
        folder = self._environment.get("GIT_QUARANTINE_PATH", "")
        files = Path(folder).rglob("*") if folder else ()
        return sum(file.stat().st_size for file in files if file.is_file())

    def list_incoming(self) -> set[str]:
        """Return the ids of pushed objects that the repository lacks."""
        if "GIT_QUARANTINE_PATH" not in self._environment:
            return set()
        command = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        variables = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
        names = self.run(*command, environment=variables).decode().split()
        own = {"GIT_OBJECT_DIRECTORY": os.path.join(self.repository, "objects")}
        stdin = "\n".join(names).encode()
        lines = self.run("cat-file", "--batch-check", stdin=stdin, environment=variables | own)
        rows = map(str.split, lines.decode().splitlines())
        return {name for name, status, *_ in rows if status == "missing"}

    def check_time(self) -> None:
        """Raise LockTimeoutError if the time is over."""
        self._rest()

    def _rest(self) -> float | None:
        if self._ends == float("inf"):
            return None
        rest = self._ends - time.monotonic()
        if rest <= 0:
            raise _too_long(())
        return rest

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return ["git", "--no-pager", "--literal-pathspecs", *arguments]


def copy_refs(folder: Path, environment: Mapping[str, str], source: str, branch: str = "") -> None:
    """Fetch branches, tags and vaultmem's refs from another repository, with the user's settings.

    HEAD is then `branch`, or the branch of the source's HEAD.

    Raises:
        NoteNotFoundError: the source has no commit, or no such branch.
        VaultError: the source cannot be read.
    """
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_DIR")}
    variables = {**own, "GIT_DIR": str(folder), "GIT_ALLOW_PROTOCOL": _PROTOCOLS, "LC_ALL": "C"}
    first = branch or _find_first(_ask(variables, "ls-remote", "--symref", "--", source, "HEAD"))
    _ask(variables, "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", source, *_REFS)
    git = BareGit(folder, environment)
    tip = git.run("rev-parse", "-q", "--verify", f"refs/heads/{first}", fine=(0, 1))
    if not tip:
        raise NoteNotFoundError(
            f"{source}: has no branch {first} with a commit; run `vaultmem checkpoint` there"
        )
    git.run("symbolic-ref", "HEAD", f"refs/heads/{first}")


_PROTOCOLS = "file:git:http:https:ssh"

_REFS = tuple(f"refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags", "vaultmem"))


def _find_first(text: str) -> str:
    match = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", text, re.MULTILINE)
    return match[1] if match else "main"


def _ask(environment: Mapping[str, str], *arguments: str) -> str:
    result = subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
    )
    if result.returncode:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = next(iter(lines), f"status {result.returncode}").removeprefix("fatal: ")
        raise VaultError(f"cannot be read by git: {reason}; name a vault's folder, or an address")
    return result.stdout.decode("utf-8", "replace")


def _too_long(arguments: tuple[str, ...]) -> LockTimeoutError:
    return LockTimeoutError(
        f"git {arguments[0] if arguments else ''}: out of time".replace(" :", ":")
    )


# A clone is a cache of its remote: it follows the remote and holds no work of its own.
#
# The repository is written file by file, without templates, hooks or settings of the user.

#: Prefixes of the remote's branches in a clone, and of the clone's own.
_TRACKING_PREFIX, _BRANCH_PREFIX = "refs/remotes/origin/", "refs/heads/"

_CONFIG = """[core]
\trepositoryFormatVersion = 0
\tbare = false
[remote "origin"]
\turl = "{url}"
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""

#: Files are checked out as committed, whatever the remote's .gitattributes contains.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"

#: The user's filters are for the user's own files, so they are off here.
_NO_USER_CONFIG = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def make_clone(root: Path, remote: Remote, branch: str, scratch: Path) -> VaultHistory:
    """Create a repository that will follow a remote's branch; fetch nothing."""
    git = root / ".git"
    for name in ("objects/pack", "refs/heads", "info"):
        (git / name).mkdir(parents=True)
    url = remote.url.replace("\\", "\\\\").replace('"', '\\"')
    (git / "config").write_text(_CONFIG.format(url=url), encoding="utf-8")
    (git / "info/attributes").write_text(_ATTRIBUTES)
    (git / "HEAD").write_text(f"ref: {_BRANCH_PREFIX}{branch}\n", encoding="utf-8")
    return VaultHistory(root, scratch)


def fetch_branches(history: VaultHistory, remote: Remote, seconds: float) -> str:
    """Fetch all branches of a remote; return the error message, "" on success."""
    return fetch(history, remote, [f"+{_BRANCH_PREFIX}*:{_TRACKING_PREFIX}*"], seconds).message


def set_clone_branches(
    history: VaultHistory,
    branches: Mapping[str, str],
    branch: str,
    current_branches: Mapping[str, str] | None,
) -> None:
    """Set a clone's branches, and check out the files of one of them.

    `current_branches` are the clone's branches if it is known to be intact. With None, all other
    refs and files are removed.
    """
    git = history.git
    before = list_refs(history) if current_branches is None else _name_refs(current_branches)
    target_refs = _name_refs(branches)
    moves = [f"delete {ref}" for ref in before.keys() - target_refs.keys()]
    del target_refs[f"{_BRANCH_PREFIX}{branch}"]
    moves += [
        f"update {ref} {commit}" for ref, commit in target_refs.items() if before.get(ref) != commit
    ]
    head = read_head(history.git_folder)
    if head is None or head.branch != branch:
        git.run("symbolic-ref", "HEAD", f"{_BRANCH_PREFIX}{branch}")
    if moves:
        git.run("update-ref", "--stdin", stdin="\n".join([*moves, ""]).encode())
    is_there = head is not None and (head.branch, head.commit) == (branch, branches[branch])
    if current_branches is None or not is_there:
        git.run("reset", "--quiet", "--hard", branches[branch], "--", env=_NO_USER_CONFIG)
    if current_branches is None:
        git.run("clean", "--quiet", "-ffdx", env=_NO_USER_CONFIG)


def is_whole(history: VaultHistory) -> bool:
    """Return whether git finds all objects that a clone's refs need, undamaged."""
    return history.git.run("fsck", "--no-dangling", "--no-progress", check=False) == ""


def read_branches(folder: Path) -> RemoteBranches | None:
    """Return the branches of a local repository, read from its files alone.

    Return None if there is no repository, or if only git can read its refs.
    """
    git = folder / ".git" if (folder / ".git").is_dir() else folder
    head, refs = read_head(git), read_refs(git, _BRANCH_PREFIX)
    if head is None or refs is None:
        return None
    return RemoteBranches(
        {ref.removeprefix(_BRANCH_PREFIX): commit for ref, commit in refs.items()}, head.branch
    )


def _name_refs(branches: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{kind}{name}": commit
        for kind in (_TRACKING_PREFIX, _BRANCH_PREFIX)
        for name, commit in branches.items()
    }
