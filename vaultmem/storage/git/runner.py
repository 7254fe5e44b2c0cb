"""Run git through GitPython without executing anything from the repository.

Hooks, filters, fsmonitor, signing and pagers are off. Inherited `GIT_*` settings, which could point
git at another repository, are hidden.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from subprocess import PIPE
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import PendingError, SystemFailureError, VaultError
from vaultmem.storage.git.git_locks import (
    GitLocation,
    describe_lock,
    free_lock,
    is_own_lock,
    remove_left_locks,
)

if TYPE_CHECKING:
    from git import Git


_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "log.follow": "false",
    "diff.orderFile": os.devnull,
    "i18n.logOutputEncoding": "UTF-8",
    "trailer.separators": ":",
    "core.commentChar": "#",
    "core.fsync": "all",
    "core.quotePath": "false",
    "core.autocrlf": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}

#: Git's message that another git holds a file.
_LOCKED = compile_later(
    r"(?:Unable to create '(.+\.lock)'|could not lock config file (.+)): File exists"
)

#: Attempts at a command whose files are locked by others.
_ATTEMPTS = 4


class GitRunner:
    """Runs git's plumbing in one repository; `work_tree` and `git_folder` are absolute.

    `scratch` is the state folder of its vault.
    """

    def __init__(self, work_tree: Path, git_folder: Path, scratch: Path | None = None) -> None:
        self.work_tree = work_tree
        self.git_folder = git_folder
        self.place = GitLocation(work_tree, git_folder, scratch)
        #: The `time.monotonic()` at which git is ended and `run` fails.
        self.deadline = math.inf

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        fine: tuple[int, ...] = (0,),
        folder: Path | None = None,
    ) -> str:
        """Run git and return its output without one final newline.

        It runs in the work tree, or in `folder` if git would leave files in the work tree.

        Raises:
            PendingError: another git holds a file that this one must write.
            VaultError: git exited with a status not in `fine` and `check` is set, or missed the
                deadline.
        """
        words = arguments if folder is None else ("-C", str(folder), *arguments)
        name = next(word for word in arguments if not word.startswith("-"))
        for _ in range(_ATTEMPTS):
            with _as_stream(stdin) as stream, is_own_lock(self.place, name) as record:
                process = self.start(*words, stdin=stream, env=env)
                out, err = process.communicate()
                if process.returncode < 0 and record is not None:
                    remove_left_locks(self.place, record)
            self._check_deadline()
            if process.returncode in fine or not check:
                return str(out.decode("utf-8", "surrogateescape").removesuffix("\n"))
            match = _LOCKED.search(os.fsdecode(err))
            if match is None:
                reason = find_complaint(err.decode(errors="replace"), process.returncode)
                raise SystemFailureError(f"git {name} failed: {reason}")
            lock = Path(match[1] or f"{match[2]}.lock")
            if not free_lock(lock, self.place):
                break
        raise PendingError(describe_lock(lock))

    def start(
        self,
        *arguments: str,
        stdin: Any = PIPE,
        env: Mapping[str, str] | None = None,
        apart: bool = False,
    ) -> Any:
        """Start git with pipes to and from it; it ends when the process object is released.

        With `apart`, it leads its own process group, without a terminal for prompts.
        """
        seconds_left = self._check_deadline()
        git = self._git
        from git.exc import GitCommandNotFound

        try:
            with _clean_environment():
                process: Any = git.execute(
                    _command(arguments),
                    istream=stdin,
                    as_process=True,
                    env=env,
                    start_new_session=apart,
                )
        except GitCommandNotFound as error:
            raise _cannot_start() from error
        if seconds_left < math.inf:
            timer = threading.Timer(seconds_left, process.proc.kill)
            timer.daemon = True
            timer.start()
        return process

    def _check_deadline(self) -> float:
        """Return the seconds until the deadline; raise VaultError after it."""
        seconds_left = self.deadline - time.monotonic()
        if seconds_left <= 0:
            raise VaultError("git was not done in time; run the command again")
        return seconds_left

    @cached_property
    def _git(self) -> Git:
        with _clean_environment():
            git = _import_git()(str(self.work_tree))
        git.update_environment(
            GIT_DIR=str(self.git_folder),
            GIT_WORK_TREE=str(self.work_tree),
            LC_ALL="C",
            GIT_OPTIONAL_LOCKS="0",
            GIT_TERMINAL_PROMPT="0",
            # A repository can name a "remote" that is a command to run for a missing object.
            GIT_ALLOW_PROTOCOL="none",
            GIT_NO_LAZY_FETCH="1",
            # History is what was committed, not a later replacement.
            GIT_NO_REPLACE_OBJECTS="1",
        )
        return git


def make_repository(root: Path) -> None:
    """Create an empty repository on branch main, without templates or hooks.

    A partly created one is completed.
    """
    (root / ".git" / "config.lock").unlink(missing_ok=True)
    if reason := _try(root, "init", "-q", "-b", "main", "--template=", "."):
        raise SystemFailureError(f"git init failed: {reason}")
    (root / ".git" / "info").mkdir(exist_ok=True)


def find_refusal(work_tree: Path) -> str:
    """Return why git would refuse to work in a folder that it finds itself, "" if it would not."""
    return _try(work_tree, "rev-parse", "--git-dir")


def _try(folder: Path, *arguments: str) -> str:
    """Run git with the user's settings; return the error, "" on success."""
    with _clean_environment():
        status, _, err = _import_git()(str(folder)).execute(
            ["git", *arguments],
            with_extended_output=True,
            with_exceptions=False,
            env={"LC_ALL": "C"},
        )
    return find_complaint(str(err), status) if status else ""


def _import_git() -> type[Git]:
    """Import GitPython, which searches for git on import.

    Raises:
        VaultError: git is missing, or does not run.
    """
    try:
        from git import Git
    except ImportError as error:
        raise _cannot_start() from error
    return Git


def _cannot_start() -> VaultError:
    """Return why git does not start: it is missing, or its working folder is."""
    if shutil.which("git") is None:
        return VaultError("git: not found; install it, or put it on $PATH")
    return VaultError("git cannot be started; see that it runs, and that the vault is there")


def _command(arguments: tuple[str, ...]) -> list[str]:
    options = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
    return ["git", "--no-pager", "--literal-pathspecs", *options, *arguments]


def find_complaint(message: str, status: int) -> str:
    """Return git's error line among hints, or how git ended."""
    outcome = f"it was ended by signal {-status}" if status < 0 else f"status {status}"
    lines = message.strip().splitlines()
    errors = (line for line in lines if line.startswith(("fatal: ", "error: ")))
    return next(errors, lines[0] if lines else outcome)


class _Hiding:
    """The number of threads now starting git, and the hidden settings."""

    lock = threading.Lock()
    threads = 0
    settings: Mapping[str, str] = MappingProxyType({})


@contextlib.contextmanager
def _clean_environment() -> Iterator[None]:
    """Hide inherited `GIT_*` settings, which could point git at another repository."""
    with _Hiding.lock:
        if not _Hiding.threads:
            names = [name for name in os.environ if name.startswith("GIT_")]
            _Hiding.settings = {name: os.environ.pop(name) for name in names}
        _Hiding.threads += 1
    try:
        yield
    finally:
        with _Hiding.lock:
            _Hiding.threads -= 1
            if not _Hiding.threads:
                os.environ.update(_Hiding.settings)


@contextlib.contextmanager
def _as_stream(data: bytes | None) -> Iterator[Any]:
    """Yield git's input as a file: git would accept half a pipe as complete if we died."""
    if data is None:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


# Times of commits can be anything: git accepts five-digit years and zones of four days.

#: A day before the end of the year 9999, in seconds since the epoch, valid in each zone.
_MAX_TIMESTAMP = 253_402_214_400

_VALID_DATE = compile_later(r"\d{4}-.*(Z|[+-](0\d|1[0-4]):?[0-5]\d)")


def read_time(text: str) -> int:
    """Return seconds since the epoch, limited to the last that have a date."""
    return min(int(text), _MAX_TIMESTAMP)


def parse_export_time(text: str, at: int) -> str:
    """Return a time in ISO 8601; an invalid one is replaced by `at` in UTC."""
    if _VALID_DATE.fullmatch(text):
        return text
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
