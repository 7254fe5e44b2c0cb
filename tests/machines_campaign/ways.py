"""The ways in which what a machine has gets to the remote, and what others pushed to it."""

from __future__ import annotations

import contextlib
import re
import time
from typing import NamedTuple

from laptop import Done, Laptop

_TELLING = re.compile(r"(?!From |Rebasing|Successfully|[0-9a-f]+\.\.|Auto-merging|$)")
_MARKS = re.compile(r"(?m)^(?:<{7}|={7}|>{7}|\|{7})(?: .*)?\n")


class Carried(NamedTuple):
    """How it went: `stopped` where a person had to act, `told` what was said of it.

    `states` are the commits before, of the remote, and after, where git merged one by one.
    """

    stopped: bool = False
    killed: bool = False
    told: str = ""
    states: tuple[tuple[str, str, str], ...] = ()


def by_sync(laptop: Laptop, kill_after: float = 0) -> Carried:
    """Give `vaultmem sync`."""
    done = laptop.vaultmem("sync", kill_after=kill_after)
    return Carried(bool(done.code) and not done.killed, done.killed, _tell("sync", done))


def by_rebase(laptop: Laptop, kill_after: float = 0) -> Carried:
    """Commit, `git pull --rebase` with the driver, `git push`; where git stops, `vaultmem sync`."""
    _clear(laptop)
    stopped = False
    told = _tell("checkpoint", laptop.vaultmem("checkpoint", "the work of a day"))
    states = []
    for _ in range(3):
        before = laptop.ask_git("rev-parse", "HEAD")
        done = laptop.git("pull", "--rebase", kill_after=kill_after)
        told += _tell("pull", done, True)
        if done.killed:  # Nothing else is saved before: an abort would take it back.
            stopped |= _is_rebasing(laptop) and _abort(laptop)
            return Carried(stopped, True, told, tuple(states))
        if _is_rebasing(laptop):
            _abort(laptop)
            synced = by_sync(laptop)
            return Carried(True, False, told + synced.told, tuple(states))
        if done.code:
            return Carried("ssh: " not in done.err, False, told, tuple(states))
        theirs = laptop.ask_git("rev-parse", "origin/main")
        states.append((before, theirs, laptop.ask_git("rev-parse", "HEAD")))
        done = laptop.git("push")
        if not done.code:
            break
    return Carried(stopped, False, told, tuple(states))


def _abort(laptop: Laptop) -> bool:
    """Go back by git; tell whether it refused, for files that it had just written, or too early.

    All was committed before, so what git does not know is of git.
    """
    _clear(laptop)
    laptop.git("rebase", "--abort")
    if refused := _is_rebasing(laptop):
        laptop.git("clean", "-fdq")
        laptop.git("rebase", "--abort")
    if _is_rebasing(laptop):  # Git was killed before it had noted the branch.
        laptop.git("rebase", "--quit")
        laptop.git("checkout", "-qf", "main")
    return refused


def by_git(laptop: Laptop, kill_after: float = 0) -> Carried:
    """Commit all, pull, push, as who knows three commands: what git left is committed as it is."""
    _clear(laptop)
    for attempt in range(2):
        laptop.git("add", "-A")
        laptop.git("commit", "-q", "-m", "notes")
        done = laptop.git("pull", "--no-rebase", "--no-edit", kill_after=kill_after * (not attempt))
        if done.killed or (done.code and _is_merging(laptop)):
            return Carried(not done.killed, done.killed)
        if not laptop.git("push").code:
            break
    return Carried()


def by_obsidian(laptop: Laptop, kill_after: float = 0) -> Carried:
    """Do what Obsidian-Git's commit-and-sync does with its own settings; its defaults are kept.

    Where git stops, so do its automatic routines, and it names the files. The person keeps both
    in each block, as its page offers it, marks the files as resolved, and commits.
    """
    _clear(laptop)
    if laptop.ask_git("ls-files", "-u"):
        _keep_both(laptop)
    laptop.git("add", "-A")
    laptop.git("commit", "-q", "-m", "vault backup")
    fetched = laptop.git("fetch", kill_after=kill_after)
    if fetched.killed:
        return Carried(killed=True)
    if laptop.git("merge", "--no-edit", "origin/main").code:
        return Carried(stopped=True)
    laptop.git("push")
    return Carried()


def _keep_both(laptop: Laptop) -> None:
    for name in {row.split("\t")[1] for row in laptop.ask_git("ls-files", "-u").splitlines()}:
        path = laptop.root / name
        if path.is_file():
            text = path.read_text()
            if "<<<<<<<" in text:
                path.write_text(_MARKS.sub("", text))


def _clear(laptop: Laptop) -> None:
    """Remove locks that a killed git left, as git itself says; not those of one at work."""
    for lock in (laptop.root / ".git").rglob("*.lock"):
        with contextlib.suppress(FileNotFoundError):
            for _ in range(20):
                if time.time() - lock.stat().st_mtime > 2:
                    lock.unlink()
                time.sleep(0.2)


def _is_rebasing(laptop: Laptop) -> bool:
    git = laptop.root / ".git"
    return (git / "rebase-merge").exists() or (git / "rebase-apply").exists()


def _is_merging(laptop: Laptop) -> bool:
    return (laptop.root / ".git/MERGE_HEAD").exists()


def _tell(word: str, done: Done, is_all: bool = False) -> str:
    lines = [line for line in re.split(r"[\r\n]+", done.err) if _TELLING.match(line.strip())]
    if done.killed or not (done.code or (is_all and lines)):
        return ""
    return f"{word} {done.code}: " + " / ".join(lines) + "\n"


WAYS = {"sync": by_sync, "rebase": by_rebase, "git": by_git, "Obsidian-Git": by_obsidian}
