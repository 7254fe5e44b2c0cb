"""Use git in bare repositories and clones, within a time limit.

Settings of the machine and of its user do not count, replaced objects neither, and nothing runs
that the repository names.
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

#: What git tells its hooks of where objects are that are not taken in yet.
_QUARANTINE = (
    *("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY"),
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)

#: Objects up to which a pack is unpacked; of more, it is kept as it is.
_LOOSE = 100

#: What a process needs to find its programs and its temporary files.
_SYSTEM = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT", "TEMP", "LD_LIBRARY_PATH", "GIT_EXEC_PATH")


class BareGit:
    """Runs git in one bare repository, for so many seconds in all.

    Of `environment` counts what a hook is told of objects in quarantine, and where programs are.
    """

    def __init__(
        self, repository: Path, environment: Mapping[str, str], seconds: float = float("inf")
    ) -> None:
        self.repository = repository
        wanted = {name: environment[name] for name in _SYSTEM if name in environment}
        known = {name: environment[name] for name in _QUARANTINE if name in environment}
        folder = os.path.abspath(repository)
        for name in ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY"):
            if name in known:
                known[name] = os.path.join(folder, known[name])
        self._environment = wanted | _SETTINGS | known | {"GIT_DIR": folder}
        self._ends = time.monotonic() + seconds

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        fine: tuple[int, ...] = (0,),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """Run git, with more in its `environment`, and return what it printed.

        Raises:
            BusyError: the time is over.
            FaultError: it ended with another status than those in `fine`.
        """
        try:
            done = subprocess.run(
                self._command(arguments),
                input=stdin,
                capture_output=True,
                env={**self._environment, **environment},
                timeout=self._rest(),
            )
        except subprocess.TimeoutExpired:
            raise _too_long(arguments) from None
        if done.returncode not in fine:
            told = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = next(iter(told), f"status {done.returncode}")
            raise SystemFailureError(f"git {arguments[0]} failed: {why}")
        return done.stdout

    def succeeds(self, *arguments: str) -> bool:
        """Run git, and tell whether it ended without a complaint."""
        try:
            self.run(*arguments)
        except SystemFailureError:
            return False
        return True

    @contextlib.contextmanager
    def reading(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start git for a `with`, with pipes to it and from it; it ends with the `with`."""
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

    def list_refs(self, below: str = "") -> dict[str, str]:
        """Return the refs, or those below a name, with their objects."""
        found = read_refs(self.repository, below or "refs/")
        if found is not None:
            return found
        asked = ("for-each-ref", "--format=%(refname) %(objectname)", *filter(None, [below]))
        lines = self.run(*asked).decode("utf-8", "surrogateescape").split("\n")
        return {ref: name for ref, _, name in (line.rpartition(" ") for line in lines) if ref}

    def with_objects(self, folder: Path) -> BareGit:
        """Return git in the same repository, which has the objects of another one as well."""
        seen = copy.copy(self)
        own = os.path.join(os.path.abspath(self.repository), "objects")
        more = {"GIT_OBJECT_DIRECTORY": str(folder), "GIT_ALTERNATE_OBJECT_DIRECTORIES": own}
        seen._environment = self._environment | more
        return seen

    def copy_objects(self, source: BareGit, new: str, old: str) -> None:
        """Copy what a commit has and another one ("" for none) has not, durably."""
        asked = "\n".join([new, *([f"^{old}"] if old else []), ""]).encode()
        pack = source.run("pack-objects", "-q", "--revs", "--stdout", stdin=asked)
        is_large = int.from_bytes(pack[8:12]) > _LOOSE
        command = ("index-pack", "--stdin") if is_large else ("unpack-objects", "-q")
        self.run(*command, stdin=pack)

    def count_incoming(self) -> int:
        """Return how many bytes the objects have on the disk that are not taken in yet."""
        folder = self._environment.get("GIT_QUARANTINE_PATH", "")
        files = Path(folder).rglob("*") if folder else ()
        return sum(file.stat().st_size for file in files if file.is_file())

    def list_incoming(self) -> set[str]:
        """Return the names of the objects that a push brings and the repository has not."""
        if "GIT_QUARANTINE_PATH" not in self._environment:
            return set()
        command = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)")
        alone = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
        names = self.run(*command, environment=alone).decode().split()
        own = {"GIT_OBJECT_DIRECTORY": os.path.join(self.repository, "objects")}
        asked = "\n".join(names).encode()
        lines = self.run("cat-file", "--batch-check", stdin=asked, environment=alone | own)
        rows = map(str.split, lines.decode().splitlines())
        return {name for name, what, *_ in rows if what == "missing"}

    def check_time(self) -> None:
        """Raise BusyError where the time is over."""
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
    """Fetch what another repository has of branches, tags and refs of ours, by the user's settings.

    Its first branch, or `branch`, becomes that of this one.

    Raises:
        NoteNotFoundError: it has no commit, or no such branch.
        VaultError: it cannot be read.
    """
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_DIR")}
    talk = {**own, "GIT_DIR": str(folder), "GIT_ALLOW_PROTOCOL": _PROTOCOLS, "LC_ALL": "C"}
    first = branch or _find_first(_ask(talk, "ls-remote", "--symref", "--", source, "HEAD"))
    _ask(talk, "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", source, *_REFS)
    git = BareGit(folder, environment)
    tip = git.run("rev-parse", "-q", "--verify", f"refs/heads/{first}", fine=(0, 1))
    if not tip:
        raise NoteNotFoundError(
            f"{source}: has no branch {first} with a commit; run `vaultmem checkpoint` there"
        )
    git.run("symbolic-ref", "HEAD", f"refs/heads/{first}")


_PROTOCOLS = "file:git:http:https:ssh"

_REFS = tuple(f"refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags", "vaultmem"))


def _find_first(listed: str) -> str:
    match = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", listed, re.MULTILINE)
    return match[1] if match else "main"


def _ask(environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
    )
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = next(iter(told), f"status {done.returncode}").removeprefix("fatal: ")
        raise VaultError(f"cannot be read by git: {why}; name a vault's folder, or an address")
    return done.stdout.decode("utf-8", "replace")


def _too_long(arguments: tuple[str, ...]) -> LockTimeoutError:
    return LockTimeoutError(
        f"git {arguments[0] if arguments else ''}: out of time".replace(" :", ":")
    )


# A clone that is a cache: it goes where its remote is, and nobody's words are in it alone.
#
# The repository is laid down file by file, so nobody's template, hook or setting is in it.

#: Where a clone keeps what its remote had, and what it has itself.
_THEIRS, _OURS = "refs/remotes/origin/", "refs/heads/"

_CONFIG = """[core]
\trepositoryFormatVersion = 0
\tbare = false
[remote "origin"]
\turl = "{url}"
\tfetch = +refs/heads/*:refs/remotes/origin/*
"""

#: Bytes are laid down as they were committed, whatever a .gitattributes in the remote says.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"

#: Whoever runs this may have filters of their own, which are for files of their own.
_NOBODYS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def make_clone(root: Path, remote: Remote, branch: str, scratch: Path) -> VaultHistory:
    """Make a repository that is to follow a branch of a remote; nothing is fetched yet."""
    git = root / ".git"
    for name in ("objects/pack", "refs/heads", "info"):
        (git / name).mkdir(parents=True)
    url = remote.url.replace("\\", "\\\\").replace('"', '\\"')
    (git / "config").write_text(_CONFIG.format(url=url), encoding="utf-8")
    (git / "info/attributes").write_text(_ATTRIBUTES)
    (git / "HEAD").write_text(f"ref: {_OURS}{branch}\n", encoding="utf-8")
    return VaultHistory(root, scratch)


def fetch_branches(history: VaultHistory, remote: Remote, seconds: float) -> str:
    """Fetch all branches of a remote; return why that failed, empty if it did not."""
    return fetch(history, remote, [f"+{_OURS}*:{_THEIRS}*"], seconds).told


def set_clone_branches(
    history: VaultHistory, branches: Mapping[str, str], branch: str, known: Mapping[str, str] | None
) -> None:
    """Have a clone hold these branches, and the files of one of them.

    `known` are those that it has, where it is sure to be whole; else all goes that is not theirs.
    """
    git = history.git
    before = list_refs(history) if known is None else _name_refs(known)
    wanted = _name_refs(branches)
    moves = [f"delete {ref}" for ref in before.keys() - wanted.keys()]
    del wanted[f"{_OURS}{branch}"]
    moves += [
        f"update {ref} {commit}" for ref, commit in wanted.items() if before.get(ref) != commit
    ]
    head = read_head(history.git_folder)
    if head is None or head.branch != branch:
        git.run("symbolic-ref", "HEAD", f"{_OURS}{branch}")
    if moves:
        git.run("update-ref", "--stdin", stdin="\n".join([*moves, ""]).encode())
    is_there = head is not None and (head.branch, head.commit) == (branch, branches[branch])
    if known is None or not is_there:
        git.run("reset", "--quiet", "--hard", branches[branch], "--", env=_NOBODYS)
    if known is None:
        git.run("clean", "--quiet", "-ffdx", env=_NOBODYS)


def is_whole(history: VaultHistory) -> bool:
    """Tell whether git finds all that a clone's refs need, each byte as it was."""
    return history.git.run("fsck", "--no-dangling", "--no-progress", check=False) == ""


def read_branches(folder: Path) -> RemoteBranches | None:
    """Return the branches of a repository on this machine, from its files alone.

    None where there is no repository, or where only git can read its refs.
    """
    git = folder / ".git" if (folder / ".git").is_dir() else folder
    head, found = read_head(git), read_refs(git, _OURS)
    if head is None or found is None:
        return None
    return RemoteBranches(
        {ref.removeprefix(_OURS): commit for ref, commit in found.items()}, head.branch
    )


def _name_refs(branches: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{kind}{name}": commit for kind in (_THEIRS, _OURS) for name, commit in branches.items()
    }
