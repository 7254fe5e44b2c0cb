"""A `git pull --rebase` whose git was killed: commands name what to type, and that ends it."""

from __future__ import annotations

import pytest
from machines import Machine, MakeMachines

pytestmark = pytest.mark.campaign

LONG = "# {}\n\n" + "".join(f"Line {number} of the note.\n\n" for number in range(9))
NOTES = {f"notes/{name}.md": LONG.format(name.title()) for name in ("quay", "pier", "crane")}


@pytest.fixture
def ben(make_machines: MakeMachines) -> Machine:
    """Return a machine with two commits of its own, behind one that somebody else has pushed."""
    anna, ben = make_machines(NOTES).all
    anna.write("notes/theirs.md", "# Theirs\n")
    _change(anna, "notes/quay.md", "Line 2", "Theirs 2")
    _change(anna, "notes/pier.md", "Line 2", "Theirs 2")
    (anna.root / "notes/crane.md").unlink()
    assert anna.run("sync").code == 0
    ben.write("notes/mine.md", "# Mine\n")
    _change(ben, "notes/quay.md", "Line 7", "Mine 7")
    ben.git("add", "-A")
    ben.git("commit", "-qm", "mine")
    _change(ben, "notes/pier.md", "Line 7", "Mine 7")
    ben.git("commit", "-qam", "the pier")
    return ben


def _change(machine: Machine, path: str, old: str, new: str) -> None:
    text = machine.read(path)
    assert old in text
    machine.write(path, text.replace(old, new))


def _kill(ben: Machine) -> None:
    """Kill git in a rebase when it has checked out theirs."""
    hook = ben.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n")
    hook.chmod(0o755)
    ben.git("pull", "-q", "--rebase", check=False)
    hook.unlink()
    assert (ben.root / ".git/rebase-merge").is_dir()
    assert ben.git("symbolic-ref", "-q", "HEAD", check=False) == ""


def _pick(ben: Machine) -> None:
    """Leave what git has before it tells its index of a pick: files alone."""
    (ben.root / ".git/rebase-merge/done").write_text(f"pick {ben.git('rev-parse', 'main~')} mine\n")
    ben.write("notes/mine.md", "# Mine\n")
    ben.write("notes/quay.md", "")


def test_a_killed_rebase_names_what_to_type_and_ends_by_that(ben: Machine) -> None:
    _kill(ben)
    _pick(ben)
    before = ben.git("rev-parse", "HEAD")

    for command in (("checkpoint", "x"), ("sync",)):
        done = ben.run(*command)
        told = "`git rebase --continue` goes on, `git rebase --abort` takes it back"
        assert (done.code, told in done.err) == (7, True), done
    assert ben.run("resolve", "--all").code != 0
    assert ben.git("rev-parse", "HEAD") == before

    ben.git("rebase", "--abort", check=False)
    assert (ben.root / ".git/rebase-merge").is_dir()  # An untracked file is in its way.
    (ben.root / "notes/mine.md").unlink()
    ben.git("rebase", "--abort")
    assert ben.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert ben.run("sync").code == 0
    for name in ("quay", "pier"):
        text = ben.read(f"notes/{name}.md")
        assert "Theirs 2" in text
        assert "Mine 7" in text
    assert ben.read("notes/mine.md") == "# Mine\n"


@pytest.mark.parametrize("names", ["", "interactive", "interactive head-name"])
def test_a_rebase_that_was_killed_before_it_began_is_ended_by_quit(
    ben: Machine, names: str
) -> None:
    folder = ben.root / ".git/rebase-merge"
    folder.mkdir()
    for name in names.split():
        (folder / name).write_text("refs/heads/main\n")
    ben.git("rebase", "--abort", check=False)
    assert folder.is_dir()

    done = ben.run("sync")
    assert (done.code, "`git rebase --quit` ends it" in done.err) == (7, True), done

    ben.git("rebase", "--quit")
    assert ben.run("sync").code == 0
    assert "Mine 7" in ben.read("notes/quay.md")


def test_a_rebase_at_which_git_waits_is_left_to_the_person(ben: Machine) -> None:
    ben.git("-c", "sequence.editor=sed -i '1ibreak'", "rebase", "-qi", "origin/main", check=False)
    before = ben.git("rev-parse", "HEAD")

    done = ben.run("sync")

    assert (done.code, "a rebase is under way; `git rebase --continue` goes on" in done.err) == (
        7,
        True,
    )
    assert ben.git("rev-parse", "HEAD") == before
