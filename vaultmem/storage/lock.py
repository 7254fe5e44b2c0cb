"""Locks on files, and the processes that hold them."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import LockTimeoutError, SystemFailureError

# Processes of this machine: the owner of a session, and whether it still runs.
#
# A process is identified by its pid and start time, because pids are reused. If either is unknown
# (another machine or container, a system other than Linux and macOS), it counts as running.

#: Programs that only start other programs.
_LAUNCHERS = frozenset(
    [
        *("sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "tcsh", "csh", "busybox", "pwsh"),
        *("env", "timeout", "nohup", "nice", "stdbuf", "setsid", "sudo", "doas", "su", "xargs"),
        *("time", "script", "make", "gmake", "just", "uv", "uvx", "pipx", "poetry", "rye", "hatch"),
        *("npx", "npm", "pnpm", "yarn", "bunx", "git", "direnv", "watch", "entr"),
    ]
)
_MAX_GENERATIONS = 32


class Process(NamedTuple):
    """A process: its pid, its start time, and its (host name, boot id, pid namespace)."""

    pid: int
    started: str
    place: tuple[str, str, str]


class _Status(NamedTuple):
    parent: int
    name: str
    started: str
    is_terminal: bool


def make_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: this process's, updated with `variables`."""
    return {**os.environ, **variables}


def find_process(pid: int) -> Process | None:
    """Return the process with this pid, None if there is none or its status is unknown."""
    status = _read_status(pid)
    return None if status is None else Process(pid, status.started, _here())


def find_owner(pid: int | None = None) -> Process | None:
    """Return the process with a pid, by default the one that this process works for.

    That is the nearest ancestor that is not a launcher. A shell counts if it leads a terminal's
    session, because it lives as long as the terminal. None if unknown.
    """
    return _find_above(os.getppid()) if pid is None else find_process(pid)


def find_client(pid: int) -> Process | None:
    """Return the process that the process `pid` works for (see `find_owner`)."""
    status = _read_status(pid)
    return None if status is None else _find_above(status.parent)


def _find_above(pid: int) -> Process | None:
    for _ in range(_MAX_GENERATIONS):
        status = _read_status(pid) if pid > 1 else None
        if status is None:
            return None
        if status.is_terminal or status.name not in _LAUNCHERS:
            return Process(pid, status.started, _here())
        pid = status.parent
    return None


def is_gone(process: Process) -> bool:
    """Return whether a process is known to have ended; False if unknown."""
    node, boot, space = process.place
    machine = _here()
    if node != machine[0] or not process.started:
        return False
    if boot != machine[1]:
        return bool(boot and machine[1])  # The machine was restarted.
    if space != machine[2]:
        return False
    status = _read_status(process.pid)
    return status is None or status.started != process.started


def is_stopped(pid: int) -> bool:
    """Return whether a process is known to be stopped by Ctrl-Z, SIGSTOP or a debugger (Linux)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[:1] in (["T"], ["t"])
    except OSError:
        return False


def find_commands(name: str) -> Iterator[tuple[list[str], str | None]]:
    """Yield command line and working folder (None if unknown) of each process of a program."""
    if sys.platform == "linux":
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if _read_name(pid) == name:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # It has ended.
                    yield _read_words(pid), _read_folder(pid)
    elif os.name == "posix":
        command = ["ps", "-A", "-o", "command="]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        for words in filter(None, map(str.split, result.stdout.splitlines())):
            if words[0].rpartition("/")[2] == name:
                yield words, None


def _read_name(pid: str) -> str:
    """Return a program's name, read with few calls: each commit reads it for all processes."""
    try:
        descriptor = os.open(f"/proc/{pid}/comm", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(descriptor, 64)).rstrip("\n")
    except ProcessLookupError:
        return ""
    finally:
        os.close(descriptor)


def _read_words(pid: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except PermissionError:
        return []


def _read_folder(pid: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return None


@cache
def _here() -> tuple[str, str, str]:
    """Return the host name, the id of its last boot, and the pid namespace ("" if unknown)."""
    boot = space = ""
    if sys.platform == "linux":
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                boot = file.read().strip()
            space = os.readlink("/proc/self/ns/pid")
        except OSError:
            pass
    return platform.node(), boot, space


def _read_status(pid: int) -> _Status | None:
    if sys.platform == "linux":
        return _read_proc(pid)
    return _ask_ps(pid) if os.name == "posix" else None


def _read_proc(pid: int) -> _Status | None:
    """Read /proc/<pid>/stat. Source: proc(5); the name is in brackets, field 22 is the start."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if not fields or fields[0] in "ZX":
        return None
    is_terminal = int(fields[3]) == pid and fields[4] != "0"
    return _Status(int(fields[1]), name, fields[19], is_terminal)


def _ask_ps(pid: int) -> _Status | None:
    result = subprocess.run(
        ["ps", "-o", "ppid=,stat=,tty=,lstart=,comm=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
    )
    fields = result.stdout.split()
    if result.returncode or len(fields) < 9 or fields[1].startswith("Z"):
        return None
    name = " ".join(fields[8:]).rpartition("/")[2].lstrip("-")
    is_terminal = "s" in fields[1] and not fields[2].startswith("?")
    return _Status(int(fields[0]), name, " ".join(fields[3:8]), is_terminal)


#: Lock timeouts in seconds: of writers, and of readers, which can go on without the lock.
WRITER = 60.0
READER = 0.5

#: How many times each thread holds a lock; threads exclude each other like processes.
_held: dict[tuple[Path, int], int] = {}


@contextlib.contextmanager
def hold_lock(path: Path, timeout: float = WRITER, shared: bool = False) -> Iterator[None]:
    """Hold the lock on `path` for this thread; nested uses in one thread are one lock.

    Several holders can share a `shared` lock; it excludes an exclusive one.

    Raises:
        LockTimeoutError: another held it for `timeout` seconds, or is a stopped process (Linux).
        SystemFailureError: the lock file cannot be created.
    """
    key = (path, threading.get_ident())
    if key in _held:
        _held[key] += 1
        try:
            yield
        finally:
            _held[key] -= 1
        return
    descriptor = _open(path)
    end = time.monotonic() + timeout
    try:
        must_queue = timeout > 0 and not shared
        with _be_next(path, end) if must_queue else contextlib.nullcontext():
            if not _acquire(descriptor, path, end, shared):
                raise LockTimeoutError(_describe_holder(path))
        _held[key] = 1
        yield
    finally:
        _held.pop(key, None)
        os.close(descriptor)


@contextlib.contextmanager
def _be_next(path: Path, end: float) -> Iterator[None]:
    """Hold the queue lock, so that a process that writes all the time cannot starve the others."""
    line = path.with_name(f"{path.name}.next")
    descriptor = _open(line)
    try:
        if not _acquire(descriptor, line, end, shared=False):
            raise LockTimeoutError(_describe_holder(path))
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise SystemFailureError(f"{path}: the lock cannot be made ({error.strerror})") from error


def is_held(path: Path) -> bool:
    """Return whether an exclusive lock on `path` is held, without waiting."""
    if not path.exists():
        return False
    try:
        with hold_lock(path, 0.0, shared=True):  # Two such checks do not block each other.
            return False
    except (LockTimeoutError, SystemFailureError):
        return True


def find_holders(path: Path) -> list[int]:
    """Return the pids that hold the lock on `path`, where the system lists them (Linux)."""
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    fields = [line.split() for line in lines if "->" not in line]
    pids = {int(each[4]) for each in fields if len(each) > 5 and each[5].endswith(f":{inode}")}
    return sorted(pid for pid in pids if pid > 0)  # Processes of other containers have no pid.


def _describe_holder(path: Path) -> str:
    if pid := _find_stopped(path):
        holder = f"another vaultmem (process {pid})"
        return f"{holder} was stopped while writing; `kill -CONT {pid}` lets it go on, or end it"
    holders = find_holders(path)
    holder = f"another vaultmem{f' (process {holders[0]})' if holders else ''}"
    return f"{holder} is writing to this vault ({path}); wait for it"


def _find_stopped(path: Path) -> int:
    """Return the pid of a stopped process that holds the lock, 0 if none is known."""
    return next(filter(is_stopped, find_holders(path)), 0)


def _acquire(descriptor: int, path: Path, end: float, shared: bool) -> bool:
    pause = 0.001
    next_check = time.monotonic() + READER
    while not _try(descriptor, shared):
        now = time.monotonic()
        if now > end or (now > next_check and _find_stopped(path)):
            return False
        next_check = now + READER if now > next_check else next_check
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def _try(descriptor: int, shared: bool) -> bool:
    try:
        if os.name == "nt":  # `msvcrt` has no shared locks.
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
