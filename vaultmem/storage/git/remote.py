"""Fetch from and push to remotes; the only module that uses the network for git.

Git runs in a separate folder with the repository's objects and refs, but without its settings. So
no program that they name (ssh, proxy, password helper, hook) runs. The person's own settings apply.
Git never prompts, and errors are returned, not raised.
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

# Headers of a server's responses to git, which git itself does not report.
#
# Git writes them into a trace (`GIT_TRACE_CURL`), without credentials. Otherwise no header is
# found. This saves a request of our own, for which git would need the password.


def trace_headers(file: Path) -> dict[str, str]:
    """Return settings that make git log a server's responses to a file, without bodies."""
    return {
        "GIT_TRACE_CURL": os.path.abspath(file),
        "GIT_TRACE_CURL_NO_DATA": "1",
        "GIT_TRACE_REDACT": "1",
    }


def find_header(file: Path, name: str) -> str:
    """Return a header's last value, "" if no response had it."""
    try:
        trace = file.read_bytes()
    except OSError:
        return ""
    pattern = rb"(?im)<= Recv header: %s:[ \t]*([^\r\n]*)" % re.escape(name).encode()
    values = re.findall(pattern, trace)
    return values[-1].strip().decode("ascii", "replace") if values else ""


# The remotes of a repository, and the upstream of each branch.

_SSH = re.compile(r"ssh://|git\+ssh://|ssh\+git://|[^/:]+:(?!//)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|[a-z0-9+.-]+::")


class Remote(NamedTuple):
    """A remote repository; `push_url` is "" if it is the same as `url`."""

    name: str
    url: str
    push_url: str = ""

    @property
    def is_ssh(self) -> bool:
        """Return whether it is reached by ssh."""
        return any(_SSH.match(url) for url in (self.url, self.push_url))

    @property
    def folder(self) -> Path | None:
        """The folder of a local remote, None if it is on a network."""
        text = self.url.removeprefix("file://")
        return None if _SCHEME.match(text) or self.is_ssh else Path(text)

    @property
    def display_url(self) -> str:
        """The address without credentials."""
        return re.sub(r"(https?://)[^/@\s]+@", r"\1...@", self.url)


class Remotes(NamedTuple):
    """All remotes by name, and each branch's remote and name there."""

    by_name: dict[str, Remote]
    upstreams: dict[str, tuple[str, str]]


def read_remotes(history: VaultHistory) -> Remotes:
    """Return the remotes in the repository's own settings."""
    pattern = r"^(remote\..*\.(url|pushurl)|branch\..*\.(remote|merge))$"
    out = history.git.run("config", "--local", "-z", "--get-regexp", pattern, fine=(0, 1))
    settings: dict[tuple[str, str, str], str] = {}
    for row in filter(None, out.split("\0")):
        key, _, value = row.partition("\n")
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        settings.setdefault((section, name, last), value)
    remotes = {
        name: Remote(name, url, settings.get(("remote", name, "pushurl"), ""))
        for (section, name, key), url in settings.items()
        if (section, key) == ("remote", "url")
    }
    upstreams = {
        name: (remote, settings.get(("branch", name, "merge"), "").removeprefix("refs/heads/"))
        for (section, name, key), remote in settings.items()
        if (section, key) == ("branch", "remote")
    }
    return Remotes(remotes, upstreams)


def add_remote(history: VaultHistory, remote: Remote, branch: str) -> None:
    """Add a remote and set it as a branch's upstream, in git's own settings."""
    for key, value in (
        (f"remote.{remote.name}.url", remote.url),
        (f"remote.{remote.name}.fetch", f"+refs/heads/*:refs/remotes/{remote.name}/*"),
        (f"branch.{branch}.remote", remote.name),
        (f"branch.{branch}.merge", f"refs/heads/{branch}"),
    ):
        history.git.run("config", "--local", key, value)


#: Timeout in seconds of one fetch or push.
TRANSFER_TIMEOUT_SECONDS = 300.0

#: The hub's header with the time a token expires.
ENDS_HEADER = "Vaultmem-Token-Ends"

_BRANCH_PREFIX = "refs/heads/"

#: Seconds that git gets to exit after a signal.
_EXIT_GRACE_SECONDS = 2.0


class RemoteError(StrEnum):
    """Why a remote could not be used."""

    OFFLINE = "offline"
    SIGN_IN = "sign-in"
    MISSING = "missing"
    FAILED = "failed"


class PushOutcome(StrEnum):
    """The result of one pushed ref; `moved` means that its commit there is unknown here."""

    DONE = "done"
    CURRENT = "current"
    MOVED = "moved"
    REFUSED = "refused"


class FetchResult(NamedTuple):
    """The result of a fetch: the moved refs with their commits, or the error.

    `is_absent` means that the remote lacks a branch that was named. `token_ends` is when a hub's
    token expires, in seconds since the epoch; 0 if not soon.
    """

    refs: Mapping[str, str] = MappingProxyType({})
    trouble: RemoteError | None = None
    message: str = ""
    is_absent: bool = False
    token_ends: float = 0.0


class RemoteBranches(NamedTuple):
    """The branches of a remote with their commits, and the branch of its HEAD; or the error."""

    branches: Mapping[str, str] = MappingProxyType({})
    head: str = ""
    trouble: RemoteError | None = None
    message: str = ""


class PushResult(NamedTuple):
    """The outcome and reason for each pushed ref, or the error of the whole push."""

    refs: Mapping[str, tuple[PushOutcome, str]] = MappingProxyType({})
    trouble: RemoteError | None = None
    message: str = ""


def fetch(
    history: VaultHistory,
    remote: Remote,
    refspecs: Sequence[str],
    seconds: float = TRANSFER_TIMEOUT_SECONDS,
    prune: str = "",
) -> FetchResult:
    """Fetch refspecs into refs of the repository, except its own branches.

    Refs that begin with `prune` are deleted if the remote no longer has them.
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
        moved_refs = dict(after.items() - before.items())
        for ref in before.keys() - after.keys():
            if prune and ref.startswith(prune):
                history.git.run("update-ref", "-d", ref, before[ref])
        lines = "".join(f"update {ref} {commit}\n" for ref, commit in sorted(moved_refs.items()))
        if lines:
            history.git.run("update-ref", "--stdin", stdin=lines.encode("utf-8", "surrogateescape"))
    token_ends = float(ends) if re.fullmatch("[0-9]{1,12}", ends) else 0.0
    if not code or moved_refs:
        return FetchResult(moved_refs, token_ends=token_ends)
    if "couldn't find remote ref" in err:
        return FetchResult(is_absent=True, token_ends=token_ends)
    return FetchResult({}, *_explain(err, code))


def list_branches(
    history: VaultHistory, remote: Remote, seconds: float = TRANSFER_TIMEOUT_SECONDS
) -> RemoteBranches:
    """Return a remote's branches without a fetch."""
    words = ("ls-remote", "--quiet", "--symref", "--", remote.url, "HEAD", "refs/heads/*")
    with _working_apart(history, remote) as env:
        code, out, err = _talk(history, words, env, seconds)
    if code:
        return RemoteBranches({}, "", *_explain(err, code))
    rows = [line.partition("\t") for line in out.splitlines()]
    branches = {
        ref.removeprefix(_BRANCH_PREFIX): commit for commit, _, ref in rows if ref != "HEAD"
    }
    heads = (
        commit.removeprefix(f"ref: {_BRANCH_PREFIX}") for commit, _, ref in rows if ref == "HEAD"
    )
    return RemoteBranches(branches, next((each for each in heads if each in branches), ""))


def remove_branch(history: VaultHistory, remote: Remote, name: str, commit: str) -> PushResult:
    """Delete a branch of the remote if it is still at a commit (full id)."""
    return _push(
        history,
        remote,
        [f":{_BRANCH_PREFIX}{name}"],
        TRANSFER_TIMEOUT_SECONDS,
        f"{_BRANCH_PREFIX}{name}:{commit}",
    )


def push(
    history: VaultHistory,
    remote: Remote,
    refspecs: Sequence[str],
    seconds: float = TRANSFER_TIMEOUT_SECONDS,
) -> PushResult:
    """Push commits (full ids) to refs of the remote, each independently and never forced."""
    return _push(history, remote, refspecs, seconds)


def _push(
    history: VaultHistory, remote: Remote, refspecs: Sequence[str], seconds: float, lease: str = ""
) -> PushResult:
    leased = [f"--force-with-lease={lease}"] if lease else []
    command = ("push", "--porcelain", "--no-verify", "--no-signed", *leased)
    words = (*command, "--recurse-submodules=no", "--", remote.push_url or remote.url, *refspecs)
    with _working_apart(history, remote) as env:
        code, out, err = _talk(history, words, env, seconds)
    refs = dict(_parse_fates(out, err))
    return PushResult(refs) if refs or not code else PushResult({}, *_explain(err, code))


@contextlib.contextmanager
def _working_apart(history: VaultHistory, remote: Remote) -> Iterator[dict[str, str]]:
    """Create a git folder without user settings; yield the environment that selects it.

    The folder has a fixed name, so the next call removes what a killed process left.
    """
    assert history.git.place.scratch is not None  # noqa: S101
    folder = history.git.place.scratch / "remote"
    common = common_folder(history.git_folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        make_git_folder(folder, history)
        refs = history.git.run("for-each-ref", "--format=%(objectname) %(refname)")
        data = f"{refs}\n".lstrip("\n").encode("utf-8", "surrogateescape")
        (folder / "packed-refs").write_bytes(data)
        env = {"GIT_DIR": str(folder), "GIT_OBJECT_DIRECTORY": str(common / "objects")}
        yield env | _build_git_settings(history, remote, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build_git_settings(
    history: VaultHistory, remote: Remote, env: dict[str, str]
) -> dict[str, str]:
    """Return settings that limit git to common protocols and turn off prompts."""
    manners = {
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
    }
    pairs = history.environment.items()
    own = {k: v for k, v in pairs if k in {"GIT_SSH_COMMAND", "GIT_SSH"}}
    manners |= {k: v for k, v in pairs if k.startswith("VAULTMEM_HUB")}  # For the hub's push check.
    if (
        own
        or not remote.is_ssh
        or history.git.run("config", "core.sshCommand", env=env, check=False)
    ):
        return manners | own
    patience = "-oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=4"
    return manners | {"GIT_SSH_COMMAND": f"ssh -oBatchMode=yes {patience}"}


def list_refs(history: VaultHistory, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the commit of each ref, in the git folder of `env` if given."""
    out = history.git.run("for-each-ref", "--format=%(refname) %(objectname)", env=env)
    pairs = (line.partition(" ") for line in out.split("\n") if line)
    return {ref: commit for ref, _, commit in pairs}


def _talk(
    history: VaultHistory, words: Sequence[str], env: Mapping[str, str], seconds: float
) -> tuple[int, str, str]:
    """Run git; end it and its children at the timeout, or if this process is interrupted."""
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
            process.communicate(timeout=_EXIT_GRACE_SECONDS)
            return


def _read(data: bytes) -> str:
    """Return git's output without credentials."""
    return re.sub(r"(https?://)[^/@\s]+@", r"\1...@", data.decode("utf-8", "replace"))


#: Messages of git or its helpers, by meaning; the first match counts.
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
    """Return the kind of a remote's error, and the line that reports it."""
    for trouble, pattern in _MEANINGS:
        for line in err.splitlines():
            if re.search(pattern, line):
                message = line.strip().removeprefix("fatal: ")
                others = [each for each in _find_server_messages(err) if each not in message]
                return trouble, ": ".join([message, *others[:5]])
    return RemoteError.FAILED, find_complaint(err, code)


def _find_server_messages(err: str) -> list[str]:
    """Return the lines that the remote's server sent to be shown."""
    return [line.removeprefix("remote:").strip() for line in err.splitlines() if "remote:" in line]


_ROW = re.compile(r"(?m)^([ +*=!-])\t[^\t\n]*?:([^\t\n:]+)\t(.*)$")

#: Git's messages that a ref has moved since it was fetched.
_MOVED_REF_MESSAGE = re.compile(
    r"fetch first|non-fast-forward|stale info|incorrect old value|already exists"
    r"|(?:cannot|failed to|unable to) lock"
    r"|failed to update ref"  # Another push was faster: the ref's lock noticed.
)


def _parse_fates(out: str, err: str) -> Iterator[tuple[str, tuple[PushOutcome, str]]]:
    """Yield each ref of the remote, its outcome, and the server's message for a rejection."""
    messages = _find_server_messages(err)
    for flag, ref, summary in _ROW.findall(out):
        if flag != "!":
            yield ref, (PushOutcome.CURRENT if flag == "=" else PushOutcome.DONE, "")
        elif _MOVED_REF_MESSAGE.search(summary):
            yield ref, (PushOutcome.MOVED, summary)
        else:
            reason = summary.partition("(")[2].removesuffix(")") or summary
            yield (
                ref,
                (PushOutcome.REFUSED, ": ".join(filter(None, [reason, " ".join(messages[:5])]))),
            )
