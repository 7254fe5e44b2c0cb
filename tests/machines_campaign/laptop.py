"""A machine with a clone of the vault: what its person types, as processes, which may be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from process_server import _context, _serve

SETTINGS = """\
[user]
\tname = {0}
\temail = {0}@example.org
[init]
\tdefaultBranch = main
[core]
\tsshCommand = {1}
[ssh]
\tvariant = simple
"""

#: What git takes for ssh.
LINE = Path(__file__).with_name("line.py")

KEPT = {"PATH", "LANG", "PYTHONPATH"}


class Done(NamedTuple):
    """How a process ended; `killed` by us."""

    code: int
    out: str
    err: str
    killed: bool = False


class Laptop:
    """A clone, and the home of the person who works there."""

    def __init__(self, folder: Path, name: str, remote: Path) -> None:
        self.name, self.root, self.home = name, folder / name / "vault", folder / name / "home"
        self.remote = remote
        self._streams, self._number = folder / name / "streams", 0
        self._lock = threading.Lock()
        self._watcher: Any = None
        for made in (self.home, self._streams):
            made.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(SETTINGS.format(name, f"{sys.executable} -SE {LINE}"))
        self.env = {key: value for key, value in os.environ.items() if key in KEPT}
        self.env |= {"HOME": str(self.home), "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1"}
        self.env |= {"LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}
        self.env |= {f"XDG_{k}_HOME": str(self.home / k.lower()) for k in ("STATE", "CONFIG")}
        self.env |= {"XDG_DATA_HOME": str(self.home / "data")}

    def clone(self) -> None:
        url = f"ssh://host{self.remote}"
        words = ["git", "clone", "-q", url, str(self.root)]
        subprocess.run(words, env=self.env, check=True, capture_output=True)

    def vaultmem(self, *words: str, kill_after: float = 0, agent: str = "") -> Done:
        """Run a command as a process of its own; kill it and its git after so many seconds."""
        streams = self._make_streams()
        env = {**self.env, **({"VAULTMEM_AGENT": agent} if agent else {})}
        running = self._fork(words, env, streams)
        code = running.wait(kill_after or 300)
        if killed := code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            code = running.wait()
        running.close()
        out, err = (file.read_text(errors="replace") for file in streams[1:])
        return Done(code, out, err, killed)

    def git(self, *words: str, kill_after: float = 0) -> Done:
        """Run git as the person does."""
        process = subprocess.Popen(
            ["git", *words],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        killed = False
        try:
            out, err = process.communicate(timeout=kill_after or 300)
        except subprocess.TimeoutExpired:
            killed = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Done(process.returncode, *(t.decode(errors="replace") for t in (out, err)), killed)

    def ask_git(self, *words: str) -> str:
        """Return what git says, without its last line end."""
        return self.git(*words).out.removesuffix("\n")

    def watch(self) -> None:
        """Have the resident process run; one that was killed begins again."""
        if self._watcher is None:
            streams = self._make_streams("watch")
            self._watcher = self._fork(("watch",), self.env, streams)
            deadline = time.monotonic() + 60
            while "atching" not in streams[1].read_text() + streams[2].read_text():
                assert time.monotonic() < deadline, streams[2].read_text()
                time.sleep(0.05)

    def end_watching(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the resident process; by SIGKILL with all that it has begun in its group."""
        if self._watcher is not None:
            with contextlib.suppress(ProcessLookupError):
                if how is signal.SIGKILL:
                    os.killpg(self._watcher.pid, how)
                os.kill(self._watcher.pid, how)
            if self._watcher.wait(60) is None:
                self._watcher.kill()
            self._watcher.close()
            self._watcher = None

    @contextlib.contextmanager
    def trouble(self, line: str) -> Iterator[None]:
        """Have the line to the remote be down, or cut, for the time of a `with`."""
        (self.home / "line").write_text(line)
        try:
            yield
        finally:
            (self.home / "line").unlink()

    def _fork(self, words: Sequence[str], env: dict[str, str], streams: Sequence[Path]) -> Any:
        given = (list(words), str(self.root), env, tuple(streams))
        process = _context().Process(target=_serve_apart, args=given)
        with _FORKING:
            return process._Popen(process)  # type: ignore[attr-defined]

    def _make_streams(self, name: str = "") -> tuple[Path, Path, Path]:
        with self._lock:
            self._number += 1
            number = name or str(self._number % 20)
        out, err = (self._streams / f"{number}.{kind}" for kind in ("out", "err"))
        for file in (out, err):
            file.write_text("")
        return Path(os.ttyname(0)), out, err


_FORKING = threading.Lock()


def _serve_apart(words: list[str], cwd: str, env: dict[str, str], streams: Any) -> None:
    """Be the process, with a group of its own, so that all of it can be killed."""
    os.setsid()
    _serve(words, cwd, env, streams)


@contextlib.contextmanager
def moved_away(remote: Path) -> Iterator[None]:
    """Have the remote be nowhere for the time of a `with`."""
    away = remote.with_name("away.git")
    remote.rename(away)
    try:
        yield
    finally:
        shutil.rmtree(remote, ignore_errors=True)
        away.rename(remote)


@contextlib.contextmanager
def refusing(remote: Path) -> Iterator[None]:
    """Have the remote take no push to a branch for the time of a `with`."""
    hook = remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\ngrep -q refs/heads/ && { echo not today >&2; exit 1; }; exit 0\n")
    hook.chmod(0o755)
    try:
        yield
    finally:
        hook.unlink()
