"""Who follows what an error advises, to the letter, gets to where the command succeeds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Result
from in_process import run_here
from support import git, write_notes

Prepare = Callable[[Path], object]

PIER = "# Pier\n\nThe pier opens at six.\n"
QUAY = "# Quay\n\nThe quay is of stone.\n"
BELL = """\
---
kind: semantic_fact
state: candidate
---
# Bell

Ring the bell twice.
"""

#: What stands for a value in an advised command, and a value.
VALUES = {
    "NOTE": "a note",
    "NAME": "topic",
    "URL": "../remote.git",
    "FOLDER": "../empty.git",
    "TEXT": "text",
}

#: Errors of one command that are followed at most.
ROUNDS = 8


def _run(root: Path, command: str) -> Result:
    """Run a command of vaultmem's or git's as a person types it, with an editor that saves."""
    words = [VALUES.get(word, word) for word in shlex.split(command)]
    if words[0] == "vaultmem":
        return run_here(*words[1:], cwd=root)
    env = {**os.environ, "GIT_EDITOR": "true"}
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def _read_advice(done: Result) -> str:
    """Return the first command that a message advises."""
    found = re.search(r"`((?:vaultmem|git) [^`]+)`", done.err + done.out)
    assert found, done
    return found[1]


def _look(root: Path) -> str:
    """Return what git has, so that one sees whether anything went on."""
    return git(root, "rev-parse", "HEAD", check=False) + git(root, "ls-files", "-s", check=False)


def _follow(root: Path, command: str) -> list[str]:
    """Run a command, and what its errors advise, until it succeeds; return the advice."""
    followed: list[str] = []
    seen: set[tuple[str, str]] = set()
    for _ in range(ROUNDS):
        done = _run(root, command)
        if done.code == 0:
            return followed
        advice = _read_advice(done)
        assert (advice, _look(root)) not in seen, ("a circle", followed, done)
        seen.add((advice, _look(root)))
        followed.append(advice)
        if advice.startswith("vaultmem"):
            followed += _follow(root, advice)
        else:  # git ends with an error where the next commit of several has a conflict, too.
            step = _run(root, advice)
            assert step.code == 0 or git(root, "ls-files", "-u"), (followed, step)
    raise AssertionError(f"{command}: never ends: {followed}")


def _commit(root: Path, message: str, **files: str | None) -> str:
    """Commit with plain git what notes (`.md` is added) are now, None where they go."""
    for name, text in files.items():
        if text is None:
            (root / f"{name}.md").unlink()
        else:
            write_notes(root, {f"{name}.md": text})
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", message)
    return git(root, "rev-parse", "HEAD")


def _try(root: Path, *words: str) -> None:
    """Run git, which ends in a conflict."""
    git(root, *words, check=False)
    assert git(root, "ls-files", "-u"), words


def _clash(root: Path, pier: str | None = None) -> str:
    """Commit on `side` that the pier is gone (or else), and on main that it opens at seven."""
    git(root, "switch", "-q", "-c", "side")
    side = _commit(root, "side", pier=pier, quay=f"{QUAY}\nOf granite.\n")
    git(root, "switch", "-q", "main")
    _commit(root, "main", pier=PIER.replace("six", "seven"))
    return side


def _without_driver(root: Path) -> None:
    git(root, "config", "--remove-section", "merge.vaultmem")


def _stash(root: Path) -> None:
    (root / "pier.md").unlink()
    write_notes(root, {"quay.md": f"{QUAY}\nOf granite.\n"})
    git(root, "stash", "-q")
    _commit(root, "main", pier=PIER.replace("six", "seven"))
    _try(root, "stash", "pop")


def _stash_with_markers(root: Path) -> None:
    _without_driver(root)
    write_notes(root, {"pier.md": PIER.replace("six", "eight")})
    git(root, "stash", "-q")
    _commit(root, "main", pier=PIER.replace("six", "seven"))
    _try(root, "stash", "pop")


def _stash_added_with_markers(root: Path) -> None:
    _stash_with_markers(root)
    git(root, "add", "pier.md")


def _checkout(root: Path) -> None:
    _without_driver(root)
    _clash(root, PIER.replace("six", "nine"))
    write_notes(root, {"pier.md": PIER.replace("six", "ten")})
    _try(root, "checkout", "-q", "-m", "side")


def _apply(root: Path) -> None:
    _without_driver(root)
    _clash(root, PIER.replace("six", "nine"))
    patch = git(root, "diff", "main~", "side", "--", "pier.md")
    git(root, "apply", "-3", stdin=f"{patch}\n", check=False)
    assert git(root, "ls-files", "-u")


def _apply_mail(root: Path) -> None:
    _without_driver(root)
    side = _clash(root, PIER.replace("six", "nine"))
    git(
        root,
        "am",
        "-q",
        "-3",
        stdin=git(root, "format-patch", "--stdout", f"{side}~..{side}") + "\n",
        check=False,
    )
    assert git(root, "ls-files", "-u")


def _autostash(root: Path) -> None:
    _clash(root)
    git(root, "branch", "-q", "up", "main")
    git(root, "reset", "-q", "--hard", "main~")
    (root / "pier.md").unlink()
    _try(root, "-c", "rebase.autoStash=true", "rebase", "-q", "up")


def _revert(root: Path, *more: str) -> None:
    first = _commit(root, "seven", pier=PIER.replace("six", "seven"))
    _commit(root, "removed", pier=None)
    _try(root, "revert", "--no-edit", *more, first)


def _rebase(root: Path) -> None:
    _clash(root)
    git(root, "switch", "-q", "side")
    _try(root, "rebase", "-q", "main")


def _rebase_twice(root: Path) -> None:
    _clash(root)
    git(root, "switch", "-q", "side")
    _commit(root, "again", pier=PIER)
    _commit(root, "and again", pier=None)
    _try(root, "rebase", "-q", "main")


CONFLICTS: dict[str, Prepare] = {
    "stash pop": _stash,
    "stash pop, markers": _stash_with_markers,
    "stash pop, markers added": _stash_added_with_markers,
    "checkout -m": _checkout,
    "apply -3": _apply,
    "am -3": _apply_mail,
    "rebase --autostash": _autostash,
    "cherry-pick": lambda root: _try(root, "cherry-pick", _clash(root)),
    "cherry-pick -n": lambda root: _try(root, "cherry-pick", "-n", _clash(root)),
    "revert": _revert,
    "revert -n": lambda root: _revert(root, "-n"),
    "rebase": _rebase,
    "rebase of three": _rebase_twice,
    "merge": lambda root: _try(root, "merge", "-q", _clash(root)),
    "merge --squash": lambda root: _try(root, "merge", "-q", "--squash", _clash(root)),
}


def _staged_and_saved_again(root: Path) -> None:
    write_notes(root, {"pier.md": PIER.replace("six", "seven")})
    git(root, "add", "pier.md")
    write_notes(root, {"pier.md": PIER.replace("six", "eight")})


def _detached(root: Path) -> None:
    git(root, "switch", "-q", "--detach")
    _commit(root, "detached", more="# More\n")


def _cherry_picked(root: Path) -> None:
    _try(root, "cherry-pick", _clash(root))
    git(root, "rm", "-q", "pier.md")


def _bisect(root: Path) -> None:
    _commit(root, "one", a="# A\n")
    _commit(root, "two", b="# B\n")
    git(root, "bisect", "start", "HEAD", "HEAD~2")


UNDER_WAY: dict[str, Prepare] = {
    "merge --no-commit": lambda root: git(
        root, "merge", "-q", "--no-commit", "--no-ff", _side(root)
    ),
    "cherry-pick, decided": _cherry_picked,
    "revert --no-commit": lambda root: git(
        root, "revert", "--no-commit", _commit(root, "a", a="# A\n")
    ),
    "rebase, at a break": lambda root: git(
        root, "-c", "sequence.editor=echo break >", "rebase", "-q", "-i", "HEAD~", check=False
    ),
    "bisect": _bisect,
    "detached": _detached,
    "staged, saved again": _staged_and_saved_again,
    "staged removal": lambda root: git(root, "rm", "-q", "--cached", "pier.md"),
}


def _side(root: Path) -> str:
    """Commit something on `side` that main merges without a conflict."""
    git(root, "switch", "-q", "-c", "side")
    side = _commit(root, "side", side="# Side\n")
    git(root, "switch", "-q", "main")
    return side


def _make(make_vault: Make) -> Path:
    """Make a vault with a remote whose branch has a commit more."""
    root = make_vault({"pier.md": PIER, "quay.md": QUAY})
    remote = root.parent / "remote.git"
    git(root.parent, "clone", "-q", "--bare", str(root), str(remote))
    git(root.parent, "clone", "-q", str(remote), "other")
    _commit(root.parent / "other", "far", far="# Far\n")
    git(root.parent / "other", "push", "-q")
    git(root, "remote", "add", "origin", "../remote.git")
    return root


def _mark(names: Iterable[str], quick: set[str]) -> list[Any]:
    """Leave all but a few to the campaigns."""
    campaign = pytest.mark.campaign
    return [pytest.param(each, marks=() if each in quick else campaign) for each in names]


@pytest.mark.campaign
@pytest.mark.parametrize("command", ["vaultmem checkpoint 'as it is'", "vaultmem sync"])
@pytest.mark.parametrize(
    "name", _mark([*CONFLICTS, *UNDER_WAY], {"stash pop", "detached", "staged, saved again"})
)
def test_what_is_advised_in_the_middle_of_something_ends_it(
    make_vault: Make, name: str, command: str
) -> None:
    root = _make(make_vault)
    (CONFLICTS | UNDER_WAY)[name](root)

    _follow(root, command)

    assert not git(root, "ls-files", "-u")
    _follow(root, "vaultmem sync")
    changed = git(root, "status", "--porcelain").strip()
    assert changed == ("M pier.md" if "markers added" in name else ""), changed


def _branch_and_edit(root: Path) -> None:
    _side(root)
    write_notes(root, {"quay.md": f"{QUAY}\nOf granite.\n"})


def _branch_with(root: Path, **files: str) -> None:
    git(root, "switch", "-q", "-c", "side")
    _commit(root, "side", **files)
    git(root, "switch", "-q", "main")


def _edit_detached(root: Path) -> None:
    git(root, "switch", "-q", "--detach")
    write_notes(root, {"quay.md": f"{QUAY}\nOf granite.\n"})


def _forget_origin(root: Path) -> None:
    git(root, "remote", "remove", "origin")


def _rename_origin(root: Path) -> None:
    git(root, "remote", "rename", "origin", "shed")
    git(root, "remote", "add", "attic", "../remote.git")


def _set_remote(root: Path) -> None:
    _forget_origin(root)
    _set(root, "sync_remote: shed")


def _set(root: Path, line: str) -> None:
    file = root / "vaultmem.yaml"
    file.write_text(f"{file.read_text()}\n{line}\n")
    git(root, "commit", "-q", "-am", "settings")


def _other_remote(root: Path) -> None:
    git(root, "remote", "set-url", "origin", "../elsewhere.git")


def _apart(root: Path) -> None:
    (root.parent / "other/.git").rename(root.parent / "other/.gone")
    other = root.parent / "other"
    git(other, "init", "-q")
    _commit(other, "apart", apart="# Apart\n")
    git(other, "push", "-q", "--force", str(root.parent / "remote.git"), "HEAD:main")


def _never_made(root: Path) -> None:
    git(root, "remote", "set-url", "origin", str(root.parent / "empty.git"))


def _shallow(root: Path) -> None:
    place = root.parent / "clone"
    git(root.parent, "clone", "-q", "--depth", "1", (root.parent / "remote.git").as_uri(), "clone")
    root.rename(root.parent / "before")
    place.rename(root)


def _candidate(root: Path) -> None:
    _commit(root, "candidate", bell=BELL)


def _candidate_on_both(root: Path) -> None:
    _branch_with(root, bell=BELL)
    write_notes(root, {"bell.md": BELL.replace("twice", "once")})


def _end_session(root: Path) -> None:
    assert _run(root, "vaultmem session start --id s1 --goal paint").code == 0
    assert _run(root, "vaultmem session close s1").code == 0


def _merge_and_edit(root: Path) -> None:
    _try(root, "merge", "-q", _clash(root))
    write_notes(root, {"far.md": "# Far\n"})


#: By the command that fails first: what goes before.
COMMANDS: dict[str, Prepare] = {
    "vaultmem merge side": _branch_and_edit,
    "vaultmem switch side": _branch_and_edit,
    "vaultmem branch --reset main HEAD~": _branch_and_edit,
    "vaultmem switch main": _edit_detached,
    "vaultmem switch side ": lambda root: (_side(root), _staged_and_saved_again(root)),
    "vaultmem merge side ": lambda root: (
        _side(root),
        git(root, "rm", "-q", "--cached", "pier.md"),
    ),
    "vaultmem switch main ": _detached,
    "vaultmem sync": _forget_origin,
    "vaultmem sync ": _rename_origin,
    "vaultmem sync  ": _set_remote,
    "vaultmem sync   ": _apart,
    "vaultmem sync    ": _never_made,
    "vaultmem sync ../remote.git": _other_remote,
    "vaultmem sync --unasked": lambda root: _set(root, "sync_remote: origin"),
    "vaultmem show HEAD~2": _shallow,
    "vaultmem state bell.md active": _candidate,
    "vaultmem promote --from side bell.md": _candidate_on_both,
    "vaultmem dream --ref side": _side,
    "vaultmem session add note paint --session s1": _end_session,
    "vaultmem restore quay.md --at HEAD~": _merge_and_edit,
    "vaultmem promote bell.md": lambda root: (_candidate(root), _stash(root)),
}


@pytest.mark.campaign
@pytest.mark.parametrize("command", _mark(COMMANDS, {"vaultmem merge side", "vaultmem sync "}))
def test_what_an_error_advises_lets_the_command_succeed(make_vault: Make, command: str) -> None:
    root = _make(make_vault)
    COMMANDS[command](root)

    assert _follow(root, command)
