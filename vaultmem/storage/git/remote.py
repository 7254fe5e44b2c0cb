"""Fetch from and push to remotes; the only module that uses the network for git.

Git works in a folder of its own then, which has the repository's objects and knows its refs, but
none of its settings: what they name (an ssh, a proxy, a helper for passwords, a hook) does not run.
The person's own settings count. Nothing ever asks, and what goes wrong is returned, not raised.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.storage.git.git_locks import is_own_lock
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.runner import find_complaint
from vaultmem.storage.git.setup import make_git_folder
from vaultmem.storage.git.vault_history import VaultHistory

# Headers of a server's answers to git, which git itself does not report.
#
# Git writes them into a trace (`GIT_TRACE_CURL`), without credentials. Where it does not, no
# header is found. This saves a request of our own, with a password that git has to ask for.


def trace_headers(file: Path) -> dict[str, str]:
    """Return settings by which git writes into a file what a server answers, without bodies."""
    return {
        "GIT_TRACE_CURL": os.path.abspath(file),
        "GIT_TRACE_CURL_NO_DATA": "1",
        "GIT_TRACE_REDACT": "1",
    }


def find_header(file: Path, name: str) -> str:
    """Return the value that a header had last, "" if no answer had it."""
    try:
        traced = file.read_bytes()
    except OSError:
        return ""
    pattern = rb"(?im)<= Recv header: %s:[ \t]*([^\r\n]*)" % re.escape(name).encode()
    found = re.findall(pattern, traced)
    return found[-1].strip().decode("ascii", "replace") if found else ""


# Which remotes a repository has, and which branch of which one a branch goes with.

_SSH = re.compile(r"ssh://|git\+ssh://|ssh\+git://|[^/:]+:(?!//)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|[a-z0-9+.-]+::")


class Remote(NamedTuple):
    """A repository elsewhere, by its name here; `push_url` is empty where it is no other one."""

    name: str
    url: str
    push_url: str = ""

    @property
    def is_ssh(self) -> bool:
        """Tell whether it is reached by ssh."""
        return any(_SSH.match(url) for url in (self.url, self.push_url))

    @property
    def folder(self) -> Path | None:
        """The folder that it is, None where it is on a network."""
        text = self.url.removeprefix("file://")
        return None if _SCHEME.match(text) or self.is_ssh else Path(text)

    @property
    def shown(self) -> str:
        """The address, without what lets somebody sign in."""
        return re.sub(r"(https?://)[^/@\s]+@", r"\1...@", self.url)


class Remotes(NamedTuple):
    """All remotes by name, and of each branch its remote's name and its name there."""

    known: dict[str, Remote]
    upstreams: dict[str, tuple[str, str]]


def read_remotes(history: VaultHistory) -> Remotes:
    """Return the remotes of the repository's own settings."""
    pattern = r"^(remote\..*\.(url|pushurl)|branch\..*\.(remote|merge))$"
    out = history.git.run("config", "--local", "-z", "--get-regexp", pattern, fine=(0, 1))
    found: dict[tuple[str, str, str], str] = {}
    for row in filter(None, out.split("\0")):
        key, _, value = row.partition("\n")
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        found.setdefault((section, name, last), value)
    known = {
        name: Remote(name, url, found.get(("remote", name, "pushurl"), ""))
        for (section, name, key), url in found.items()
        if (section, key) == ("remote", "url")
    }
    upstreams = {
        name: (remote, found.get(("branch", name, "merge"), "").removeprefix("refs/heads/"))
        for (section, name, key), remote in found.items()
        if (section, key) == ("branch", "remote")
    }
    return Remotes(known, upstreams)


def add_remote(history: VaultHistory, remote: Remote, branch: str) -> None:
    """Give the repository a remote with which a branch goes, so that plain git knows it, too."""
    for key, value in (
        (f"remote.{remote.name}.url", remote.url),
        (f"remote.{remote.name}.fetch", f"+refs/heads/*:refs/remotes/{remote.name}/*"),
        (f"branch.{branch}.remote", remote.name),
        (f"branch.{branch}.merge", f"refs/heads/{branch}"),
    ):
        history.git.run("config", "--local", key, value)


#: Seconds that one fetch or push may take.
LONGEST = 300.0

#: The header in which a hub names the end of a token.
ENDS_HEADER = "Vaultmem-Token-Ends"

_HEADS = "refs/heads/"

#: Seconds in which git ends when it is asked to.
_GRACE = 2.0


class RemoteError(StrEnum):
    """Why a remote was not talked with."""

    OFFLINE = "offline"
    SIGN_IN = "sign-in"
    MISSING = "missing"
    FAILED = "failed"


class PushOutcome(StrEnum):
    """What came of a ref that was pushed; one has `moved` to what is not known here."""

    DONE = "done"
    CURRENT = "current"
    MOVED = "moved"
    REFUSED = "refused"


class Fetched(NamedTuple):
    """What a fetch did: the refs that it moved, with their commits; else why it failed.

    Where something `is_absent`, the remote lacks a branch that was asked for by its name.
    `token_ends` is when a hub's token ends, in seconds since the epoch; 0 if that is not soon.
    """

    refs: Mapping[str, str] = MappingProxyType({})
    trouble: RemoteError | None = None
    told: str = ""
    is_absent: bool = False
    token_ends: float = 0.0


class RemoteBranches(NamedTuple):
    """The branches of a remote with their commits, and that of its HEAD; else why not."""

    branches: Mapping[str, str] = MappingProxyType({})
    head: str = ""
    trouble: RemoteError | None = None
    told: str = ""


class Pushed(NamedTuple):
    """What a push did with each ref of the remote, and why not; else why all of it failed."""

    refs: Mapping[str, tuple[PushOutcome, str]] = MappingProxyType({})
    trouble: RemoteError | None = None
    told: str = ""


def fetch(
    history: VaultHistory,
    remote: Remote,
    refspecs: Sequence[str],
    seconds: float = LONGEST,
    prune: str = "",
) -> Fetched:
    """Fetch what refspecs name into refs of the repository; no branch of its own may be one.

    Refs that begin with `prune` are removed where the remote does not have them any more.
    """
    with _working_apart(history, remote) as env:
        before = list_refs(history, env)
        command = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
        pruning = ["--prune"] if prune else []
        words = (*command, *pruning, "--recurse-submodules=no", "--", remote.url, *refspecs)
        trace = Path(env["GIT_DIR"]) / "answers"
        code, _, err = _talk(history, words, env | trace_headers(trace), seconds)
        ends = find_header(trace, ENDS_HEADER)
        after = list_refs(history, env)
        moved = dict(after.items() - before.items())
        for ref in before.keys() - after.keys():
            if prune and ref.startswith(prune):
                history.git.run("update-ref", "-d", ref, before[ref])
        lines = "".join(f"update {ref} {commit}\n" for ref, commit in sorted(moved.items()))
        if lines:
            history.git.run("update-ref", "--stdin", stdin=lines.encode("utf-8", "surrogateescape"))
    token_ends = float(ends) if re.fullmatch("[0-9]{1,12}", ends) else 0.0
    if not code or moved:
        return Fetched(moved, token_ends=token_ends)
    if "couldn't find remote ref" in err:
        return Fetched(is_absent=True, token_ends=token_ends)
    return Fetched({}, *_explain(err, code))


def list_branches(
    history: VaultHistory, remote: Remote, seconds: float = LONGEST
) -> RemoteBranches:
    """Ask a remote for its branches; nothing is fetched."""
    words = ("ls-remote", "--quiet", "--symref", "--", remote.url, "HEAD", "refs/heads/*")
    with _working_apart(history, remote) as env:
        code, out, err = _talk(history, words, env, seconds)
    if code:
        return RemoteBranches({}, "", *_explain(err, code))
    rows = [line.partition("\t") for line in out.splitlines()]
    branches = {ref.removeprefix(_HEADS): commit for commit, _, ref in rows if ref != "HEAD"}
    heads = (commit.removeprefix(f"ref: {_HEADS}") for commit, _, ref in rows if ref == "HEAD")
    return RemoteBranches(branches, next((each for each in heads if each in branches), ""))


def remove_branch(history: VaultHistory, remote: Remote, name: str, commit: str) -> Pushed:
    """Remove a branch of the remote that still is at a commit (full id)."""
    return _push(history, remote, [f":{_HEADS}{name}"], LONGEST, f"{_HEADS}{name}:{commit}")


def push(
    history: VaultHistory, remote: Remote, refspecs: Sequence[str], seconds: float = LONGEST
) -> Pushed:
    """Push commits (full ids) to refs of the remote, each for itself; nothing is ever forced."""
    return _push(history, remote, refspecs, seconds)


def _push(
    history: VaultHistory, remote: Remote, refspecs: Sequence[str], seconds: float, lease: str = ""
) -> Pushed:
    leased = [f"--force-with-lease={lease}"] if lease else []
    command = ("push", "--porcelain", "--no-verify", "--no-signed", *leased)
    words = (*command, "--recurse-submodules=no", "--", remote.push_url or remote.url, *refspecs)
    with _working_apart(history, remote) as env:
        code, out, err = _talk(history, words, env, seconds)
    refs = dict(_parse_fates(out, err))
    return Pushed(refs) if refs or not code else Pushed({}, *_explain(err, code))


@contextlib.contextmanager
def _working_apart(history: VaultHistory, remote: Remote) -> Iterator[dict[str, str]]:
    """Make a git folder without anybody's settings for a `with`; yield what leads git there.

    It has one name, so that what a killed process left goes with the next one.
    """
    assert history.git.place.scratch is not None  # noqa: S101
    folder = history.git.place.scratch / "remote"
    common = common_folder(history.git_folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        make_git_folder(folder, history)
        known = history.git.run("for-each-ref", "--format=%(objectname) %(refname)")
        listed = f"{known}\n".lstrip("\n").encode("utf-8", "surrogateescape")
        (folder / "packed-refs").write_bytes(listed)
        env = {"GIT_DIR": str(folder), "GIT_OBJECT_DIRECTORY": str(common / "objects")}
        yield env | _build_git_settings(history, remote, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build_git_settings(
    history: VaultHistory, remote: Remote, env: dict[str, str]
) -> dict[str, str]:
    """Return settings by which git talks over usual protocols alone, and asks nobody anything."""
    manners = {
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
    }
    given = history.environment.items()
    own = {k: v for k, v in given if k in {"GIT_SSH_COMMAND", "GIT_SSH"}}
    manners |= {k: v for k, v in given if k.startswith("VAULTMEM_HUB")}  # What its door goes by.
    if (
        own
        or not remote.is_ssh
        or history.git.run("config", "core.sshCommand", env=env, check=False)
    ):
        return manners | own
    patience = "-oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=4"
    return manners | {"GIT_SSH_COMMAND": f"ssh -oBatchMode=yes {patience}"}


def list_refs(history: VaultHistory, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the commit of each ref, of the folder that `env` leads to where it is given."""
    out = history.git.run("for-each-ref", "--format=%(refname) %(objectname)", env=env)
    pairs = (line.partition(" ") for line in out.split("\n") if line)
    return {ref: commit for ref, _, commit in pairs}


def _talk(
    history: VaultHistory, words: Sequence[str], env: Mapping[str, str], seconds: float
) -> tuple[int, str, str]:
    """Run git, and end it and all that it started when its time is over, or ours."""
    slow = ("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60")
    with is_own_lock(history.git.place, "fetch"):
        process = history.git.start(*slow, *words, stdin=None, env=env, apart=True)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return -1, "", f"no answer within {seconds:.0f} seconds: timed out"
        except BaseException:
            _end(process)
            raise
    return process.returncode, _read(out), _read(err)


def _end(process: Any) -> None:
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number) if hasattr(os, "killpg") else process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_GRACE)
            return


def _read(data: bytes) -> str:
    """Return what git said, without what lets somebody sign in."""
    return re.sub(r"(https?://)[^/@\s]+@", r"\1...@", data.decode("utf-8", "replace"))


#: What git or its helpers say, by what it means; the first that fits counts.
_MEANINGS = (
    (
        RemoteError.SIGN_IN,
        r"Permission denied|Authentication failed|could not read (?:Username|Password)|"
        r"terminal prompts disabled|Host key verification failed|error: 40[13]|Access denied",
    ),
    (
        RemoteError.MISSING,
        r"does not appear to be a git repository|epository .*not found|error: 404",
    ),
    (
        RemoteError.OFFLINE,
        r"(?i)could not resolve|name resolution|connection (?:refused|reset|closed|timed out)|"
        r"unreachable|no route to host|(?:failed|could ?n[o']t|unable) to connect|timed out|"
        r"hung up|early EOF|too slow|empty reply|disconnect|RPC failed|error: (?:429|5\d\d)|"
        r"SSL_ERROR_SYSCALL|handshake",
    ),
)


def _explain(err: str, code: int) -> tuple[RemoteError, str]:
    """Return what kept git from talking with a remote, and the line that says it."""
    for trouble, pattern in _MEANINGS:
        for line in err.splitlines():
            if re.search(pattern, line):
                return trouble, line.strip().removeprefix("fatal: ")
    return RemoteError.FAILED, find_complaint(err, code)


_ROW = re.compile(r"(?m)^([ +*=!-])\t[^\t\n]*?:([^\t\n:]+)\t(.*)$")

#: How git says that a ref is not where it was when we fetched it.
_MOVED = re.compile(
    r"fetch first|non-fast-forward|stale info|incorrect old value|already exists"
    r"|(?:cannot|failed to|unable to) lock"
    r"|failed to update ref"  # Somebody was quicker by a moment: the ref's lock noticed.
)


def _parse_fates(out: str, err: str) -> Iterator[tuple[str, tuple[PushOutcome, str]]]:
    """Yield each ref of the remote and what came of it, with the words of whoever refused it."""
    said = [line.removeprefix("remote:").strip() for line in err.splitlines() if "remote:" in line]
    for flag, ref, summary in _ROW.findall(out):
        if flag != "!":
            yield ref, (PushOutcome.CURRENT if flag == "=" else PushOutcome.DONE, "")
        elif _MOVED.search(summary):
            yield ref, (PushOutcome.MOVED, summary)
        else:
            why = summary.partition("(")[2].removesuffix(")") or summary
            yield ref, (PushOutcome.REFUSED, ": ".join(filter(None, [why, " ".join(said[:5])])))
