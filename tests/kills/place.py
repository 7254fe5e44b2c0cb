"""A folder with one vault in it, that is as it was before each run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commands import NEXT, be_command, give_next, in_child
from judge import Ended, State
from plan import OFF, Fault, Plan


class Site:
    """A folder with one vault in it, that is as it was before each run."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.root, self.plan = folder, folder / "vault", plan
        self.homes = ("vault", "state", "config", "data")
        home = folder / "home"
        home.mkdir(parents=True)
        (home / ".gitconfig").write_text(
            "[user]\nname = Maren\nemail = maren@example.org\n[init]\ndefaultBranch = main\n"
        )
        kept = {n: v for n, v in os.environ.items() if n in {"PATH", "LD_PRELOAD", "FAULTS"}}
        os.environ.clear()
        os.environ.update(kept, HOME=str(home), TMPDIR=str(folder / "tmp"), LC_ALL="C.UTF-8")
        for kind in ("STATE", "CONFIG", "DATA"):
            os.environ[f"XDG_{kind}_HOME"] = str(folder / kind.lower())
        os.environ.update(GIT_CONFIG_NOSYSTEM="1", NO_COLOR="1", OPENBLAS_NUM_THREADS="1")
        os.environ["EDITOR"] = str(folder / "editor")
        (folder / "tmp").mkdir()
        tempfile.tempdir = None

    def prepare(self, event: Any) -> None:
        from prepare import leave_uncommitted, prepare_all

        for name in self.homes:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.rmtree(self.folder / f"{name}.kept", ignore_errors=True)

        def make() -> None:
            prepare_all(self.root)
            event.prepare(self.root)
            if not event.tidy:
                leave_uncommitted(self.root)

        code, told = in_child(make)
        assert code == 0, told
        for name in self.homes:
            if (self.folder / name).exists():
                shutil.copytree(self.folder / name, self.folder / f"{name}.kept", symlinks=True)

    def restore(self) -> None:
        for name in (*self.homes, "tmp"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "tmp").mkdir()
        for name in self.homes:
            if (self.folder / f"{name}.kept").exists():
                shutil.copytree(self.folder / f"{name}.kept", self.folder / name, symlinks=True)

    def run(self, event: Any, fault: Fault, at: int) -> Ended:
        """Do the event, with what is to happen at its n-th call; a server's output is a pipe."""
        plan, out = self.plan, self.folder / "out"
        out.write_bytes(b"")
        reading, writing = os.pipe()
        asking, given = os.pipe() if event.given else (os.dup(0), -1)
        hearing, telling = os.pipe() if event.given else (-1, os.open(out, os.O_WRONLY))
        plan.count, plan.at, plan.hits, plan.told = 0, at, 0, b""
        plan.each[:] = [0] * len(plan.each)
        plan.error, plan.stays, plan.kinds = fault.error, fault.stays, fault.kinds
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            if event.given:
                os.close(given)
            for number, stream in enumerate((asking, telling, writing)):
                os.dup2(stream, number)
            plan.group = os.getpid()
            plan.what = fault.what
            be_command(event, self.root)
        for stream in (writing, asking, telling):
            os.close(stream)
        if event.given:
            with contextlib.suppress(BrokenPipeError):
                os.write(given, event.given.encode())
        code = self.attend(event, child, lambda: read_more(hearing, out))
        plan.what = OFF
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        said, err = read_more(hearing, out), read_all(reading)
        for stream in (reading, *((given, hearing) if event.given else ())):
            os.close(stream)
        told = plan.told.decode(errors="replace").replace(str(self.folder), "")
        return Ended(code, said, err, plan.count, told, (*plan.each,))

    def attend(self, event: Any, child: int, read: Callable[[], str]) -> int:
        """Wait until the process ends; a server is ended once it has done what was asked."""
        started, patience = time.monotonic(), 60.0
        saved = event.saves is None
        ends = not event.given and saved
        pid = os.pidfd_open(child)
        while not select.select([pid], [], [], 0.02 if not ends else patience)[0]:
            if not saved and self.is_watching():
                event.saves(self.root)
                saved = True
            told = read() if saved and not ends else ""
            late = time.monotonic() - started > (patience if ends else 20.0)
            if late or (told and re.search(event.acknowledged, told)):
                os.kill(child, signal.SIGTERM if not ends else signal.SIGKILL)
                ends, started, patience = True, time.monotonic(), 20.0
        os.close(pid)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def is_watching(self) -> bool:
        from vaultmem.storage.user_files import find_user_folder
        from vaultmem.storage.watch_socket import socket_path

        return os.path.exists(socket_path(str(self.root), find_user_folder("state", os.environ)))

    def come_next(self, event: Any, is_thorough: bool = True) -> State:
        """Give the next commands, and look at what there is then."""
        words = (*event.first, *NEXT, ("the index",))
        code, told = in_child(lambda: give_next(self.root, event.first, is_thorough))
        hand = [] if code == 0 else [f"a child ended with {code}: {told}"]
        for word, (ended, err) in zip(words, json.loads(told) if not code else [], strict=False):
            if ended != 0 or "Traceback" in err:
                hand.append(f"{word[0]}: {ended} {err.strip()}")
        return State(*self.look(), [*hand, *self.find_leftovers()])

    def find_leftovers(self) -> list[str]:
        left = [line for line in self.git("status", "--porcelain", "-uall").splitlines() if line]
        left += [f"left: {each.name}" for each in self.folder.glob(".vault.*")]
        for folder, names, files in os.walk(self.root):
            inside = ".git" in Path(folder).parts
            names[:] = [name for name in names if name != "objects"]
            for name in files:
                if (inside and name.endswith(".lock")) or name.startswith(".vaultmem-"):
                    left.append(f"left: {Path(folder, name).relative_to(self.root)}")
        return left

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, check=False)
        if done.returncode:
            return f"git {arguments[0]}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode()

    def look(self) -> tuple[dict[str, str], list[list[str]]]:
        """Return all files, on disk and of other branches, and who committed what."""
        files = {}
        for file in sorted(self.root.rglob("*")):
            name = file.relative_to(self.root).as_posix()
            hidden = name.startswith((".git/", "transcripts/")) or "/.vaultmem-" in f"/{name}"
            if file.is_file() and not hidden:
                files[name] = plain(file.read_text(errors="replace"))
        branches = self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        files["HEAD"] = self.git("symbolic-ref", "--short", "HEAD")
        for name in branches:
            if f"{name}\n" != files["HEAD"]:
                files |= self.read_branch(name)
        log = self.git("log", "--branches", "--format=%x01%an", "--name-only", "--no-renames")
        authors = set()
        for text in filter(None, log.split("\x01")):
            who, *paths = filter(None, text.splitlines())
            authors |= {(who, path) for path in paths}
        return files, sorted(map(list, authors))

    def read_branch(self, name: str) -> dict[str, str]:
        paths = self.git("ls-tree", "-r", "--name-only", name).splitlines()
        patch = self.git(
            "diff", "--no-renames", "-U9999", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", name
        )
        parts = re.split(r"^diff --git .*$", patch, flags=re.M)[1:]
        return {f"{name}:{p}": plain(t) for p, t in zip(paths, parts, strict=True)}


def read_more(stream: int, out: Path) -> str:
    """Add what came through a pipe, if it is one, to a file; return all that is there."""
    if stream >= 0 and (text := read_all(stream)):
        with open(out, "a") as file:
            file.write(text)
    return out.read_text()


def read_all(stream: int) -> str:
    """Return what is in a pipe; who is killed with the other end may not be gone yet."""
    os.set_blocking(stream, False)
    found = b""
    with contextlib.suppress(BlockingIOError):
        while block := os.read(stream, 65_536):
            found += block
    return found.decode(errors="replace")


def plain(text: str) -> str:
    """Return a text without what is another in each run: ids, times and figures."""
    text = text.replace("[[notes/inbox/", "[[")  # A link leads there by its name alone, too.
    return re.sub(r"\d", "0", re.sub(r"\b[0-9a-f]{7,40}\b", "ID", text))
