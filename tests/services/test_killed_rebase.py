"""A `git pull --rebase` whose git was killed: `sync` and `resolve --all` go back to before it."""

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


def _says(machine: Machine, path: str, *words: str) -> bool:
    text = machine.read(path)
    return all(each in text for each in words)


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


def test_a_killed_rebase_that_git_does_not_abort_is_left_and_synced(ben: Machine) -> None:
    _kill(ben)
    _pick(ben)
    assert "mine.md" in ben.git("status", "--porcelain")
    ben.git("rebase", "--abort", check=False)
    assert (ben.root / ".git/rebase-merge").is_dir()  # An untracked file is in its way.

    told = ben.run("checkpoint", "x")
    assert "whose git was killed; `vaultmem resolve --all` goes back" in told.err
    done = ben.run("sync", "--json")

    assert (done.code, done.json["left_rebase_of"], done.json["outcome"]) == (0, "main", "synced")
    assert done.json["checkpoint"] is None  # Nothing but git had written.
    assert ben.git("status", "--porcelain") == ""
    assert ben.git("symbolic-ref", "HEAD") == "refs/heads/main"
    for name in ("quay", "pier"):
        assert _says(ben, f"notes/{name}.md", "Theirs 2", "Mine 7")
    assert ben.read("notes/mine.md") == "# Mine\n"
    assert not (ben.root / "notes/crane.md").exists()
    assert ben.run("sync").out.startswith("main and origin have the same.\n")


def test_what_was_saved_since_stays_with_what_the_branch_has(ben: Machine) -> None:
    _kill(ben)
    _pick(ben)
    _change(ben, "notes/pier.md", "Line 5", "Saved 5")
    _change(ben, "notes/pier.md", "Line 7", "Saved 7")
    ben.write("notes/fresh.md", "# Fresh\n")
    before = ben.git("rev-parse", "main")
    ben.git("branch", "side")
    assert "drop --ref" in ben.run("resolve", "--all", "--ref", "side").err

    done = ben.run("resolve", "--all")

    assert done.out == "back    main is as it was before a rebase whose git was killed\n", done
    assert ben.git("rev-parse", "HEAD") == before
    assert ben.git("status", "--porcelain").split() == [
        *("M", "notes/pier.md"),
        *("??", "notes/fresh.md"),
    ]
    assert _says(ben, "notes/pier.md", "Saved 5", "Mine 7", "> Saved 7", "saved in a rebase")
    assert ben.run("sync").code == 0
    assert _says(ben, "notes/pier.md", "Theirs 2", "Saved 5", "Mine 7", "> Saved 7")


def test_what_was_saved_while_head_was_still_on_the_branch_takes_nothing_back(
    ben: Machine,
) -> None:
    _kill(ben)
    ben.git("symbolic-ref", "HEAD", "refs/heads/main")  # Git moves HEAD behind the files.
    _change(ben, "notes/pier.md", "Line 5", "Saved 5")

    assert ben.run("sync").code == 0

    assert _says(ben, "notes/pier.md", "Theirs 2", "Saved 5", "Mine 7")
    assert "> [!conflict]" not in ben.read("notes/pier.md")


@pytest.mark.parametrize("names", ["", "interactive", "interactive head-name"])
def test_a_rebase_that_was_killed_before_it_began_is_no_obstacle_for_long(
    ben: Machine, names: str
) -> None:
    folder = ben.root / ".git/rebase-merge"
    folder.mkdir()
    for name in names.split():
        (folder / name).write_text("refs/heads/main\n")
    ben.git("rebase", "--abort", check=False)
    assert folder.is_dir()

    assert ben.run("sync").out.startswith("back    main is as it was")

    assert not folder.exists()
    assert "Mine 7" in ben.read("notes/quay.md")


def test_what_git_had_put_away_comes_back(ben: Machine) -> None:
    ben.git("config", "rebase.autoStash", "true")
    _change(ben, "notes/pier.md", "Line 4", "Unsaved 4")
    _kill(ben)
    assert "Unsaved 4" not in ben.read("notes/pier.md")

    assert ben.run("sync").code == 0

    assert _says(ben, "notes/pier.md", "Unsaved 4", "Mine 7", "Theirs 2")
    assert ben.git("stash", "list") == ""


def test_a_rebase_at_which_git_waits_is_left_to_the_person(ben: Machine) -> None:
    ben.git("-c", "sequence.editor=sed -i '1ibreak'", "rebase", "-qi", "origin/main", check=False)
    before = ben.git("rev-parse", "HEAD")

    done = ben.run("sync")

    assert (done.code, "a rebase is under way; `git rebase --continue` goes on" in done.err) == (
        7,
        True,
    )
    assert ben.git("rev-parse", "HEAD") == before


def test_a_lock_that_the_killed_git_left_is_named(ben: Machine) -> None:
    _kill(ben)
    (ben.root / ".git/index.lock").write_text("")

    done = ben.run("sync")

    assert (done.code, "index.lock exists" in done.err) == (7, True)
    (ben.root / ".git/index.lock").unlink()
    assert ben.run("sync").code == 0
