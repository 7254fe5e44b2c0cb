"""What a pack says decides: at one commit, or at each until the first that changed it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from conftest import Make, Open, RunCli
from in_process import run_here
from support import git, hash_tree, write_notes

from vaultmem.core.packs.receipt import Expectation
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.packs.evaluate import bisect_history, judge_vault
from vaultmem.services.views.update_index import sync_vault


def make_commits(root: Path, count: int, turn: int) -> list[str]:
    """Commit `count` times; from number `turn` on the gangway is green."""
    commits = []
    for number in range(count):
        colour = "blue" if number < turn else "green"
        text = f"# Gangway\n\nThe gangway is\n{colour}, as of change {number}.\n"
        write_notes(
            root, {"notes/gangway.md": text, f"notes/n{number % 5}.md": f"# N\n\n{number}\n"}
        )
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"change {number}")
        commits.append(git(root, "rev-parse", "HEAD"))
    return commits


@pytest.mark.campaign
@pytest.mark.parametrize("turn", [1, 9, 19])
def test_the_first_bad_commit_is_found(make_vault: Make, opened: Open, turn: int) -> None:
    root = make_vault()
    commits = make_commits(root, 20, turn)
    write_notes(root, {"notes/gangway.md": "# Gangway\n\nBeing edited.\n"})
    git(root, "add", "-A")
    before = hash_tree(root, skip=(".git",)), git(root, "ls-files", "-s")
    vault = opened(root)
    sync_vault(vault)
    expected = Expectation("gangway colour", texts=("the GANGWAY is blue",))
    found = bisect_history(vault, commits[0], "HEAD", expected)
    assert found.first_bad == (commits[turn],)
    assert len(found.steps) <= 2 + math.ceil(math.log2(20))
    assert (hash_tree(root, skip=(".git",)), git(root, "ls-files", "-s")) == before
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.campaign
@pytest.mark.parametrize("others", [1, 6])
def test_history_with_merges_is_searched_as_git_does(
    make_vault: Make, opened: Open, others: int
) -> None:
    root = make_vault()
    commits = make_commits(root, 3, 99)
    git(root, "checkout", "-q", "-b", "side")
    write_notes(root, {"notes/gangway.md": "# Gangway\n\nThe gangway is green.\n"})
    git(root, "commit", "-qam", "painted")
    painted = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "main")
    for number in range(others):
        write_notes(root, {"notes/other.md": f"# Other\n\n{number}\n"})
        git(root, "add", "-A")
        git(root, "commit", "-qm", "other")
    git(root, "merge", "-q", "--no-edit", "side")
    vault = opened(root)
    sync_vault(vault)
    found = bisect_history(vault, commits[0], "HEAD", Expectation("gangway", texts=("blue",)))
    assert found.first_bad == (painted,)


@pytest.mark.campaign
def test_commits_that_a_merge_brought_from_before_the_good_one_are_not_tested(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"})
    base = git(root, "rev-parse", "HEAD")
    for number in range(3):
        write_notes(root, {f"notes/m{number}.md": f"# M\n\n{number}\n"})
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"m{number}")
    git(root, "checkout", "-q", "-b", "side", base)
    write_notes(root, {"notes/owner.md": "# Owner\n\nThe owner of the pier is Tuuli.\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "owner")
    good = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-edit", "side")
    write_notes(root, {"notes/m4.md": "# M\n\n4\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "m4")
    git(root, "rm", "-q", "notes/owner.md")
    git(root, "commit", "-qm", "removed")
    vault = opened(root)
    sync_vault(vault)
    expected = Expectation("owner of the pier", texts=("owner of the pier is Tuuli",))

    found = bisect_history(vault, good, "HEAD", expected)
    asked = (
        "bisect",
        "--good",
        good,
        "--contains",
        "owner of the pier is Tuuli",
        "owner of the pier",
    )
    shown, json = (run_here(*asked, *more, cwd=root) for more in ((), ("--json",)))

    assert found.first_bad == (git(root, "rev-parse", "HEAD"),)
    assert found.untested == json.json["untested"] == 3
    assert shown.out.endswith(
        "\nNot tested: 3 commits that merges brought, which do not descend from the good one.\n"
    )


@pytest.mark.campaign
def test_commits_that_cannot_be_judged_are_told(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    commits = make_commits(root, 2, 99)
    for number in range(2):
        git(root, "rm", "-q", "-r", "--cached", "--ignore-unmatch", ".")
        git(root, "commit", "-q", "--allow-empty", "-m", f"no notes {number}")
        commits.append(git(root, "rev-parse", "HEAD"))
    write_notes(root, {"notes/gangway.md": "# Gangway\n\nThe gangway is green.\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "green")
    commits.append(git(root, "rev-parse", "HEAD"))
    vault = opened(root)
    sync_vault(vault)
    expected = Expectation("gangway", addresses=("notes/gangway.md",), texts=("blue",))
    found = bisect_history(vault, commits[1], commits[4], expected)
    assert set(found.first_bad) == set(commits[2:])
    assert [step.verdict for step in found.steps].count("skip") == 2


@pytest.mark.campaign
def test_what_is_expected_of_the_ends_is_checked(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    commits = make_commits(root, 4, 2)
    vault = opened(root)
    sync_vault(vault)
    blue = Expectation("gangway", texts=("is blue",))
    with pytest.raises(RefusedError, match="not good: no section of the pack contains"):
        bisect_history(vault, commits[2], commits[3], blue)
    with pytest.raises(RefusedError, match="not bad: the pack is as expected there"):
        bisect_history(vault, commits[0], commits[1], blue)
    with pytest.raises(RefusedError, match="is not before"):
        bisect_history(vault, commits[3], commits[0], blue)
    with pytest.raises(NoteNotFoundError):
        bisect_history(vault, "nope", "HEAD", blue)


def test_negated_expectation_holds_where_nothing_of_it_is_shown(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "# A\n\nThe gangway is blue.\n"})
    vault = opened(root)
    sync_vault(vault)
    assert judge_vault(vault, Expectation("gangway", texts=("blue",))) == []
    assert judge_vault(vault, Expectation("gangway", texts=("blue",), negated=True))
    assert judge_vault(vault, Expectation("gangway", texts=("red",), negated=True)) == []
    assert judge_vault(vault, Expectation("gangway", addresses=("notes/a.md#A",))) == []
    assert judge_vault(vault, Expectation("gangway", addresses=("notes/b.md",)))
    with pytest.raises(RefusedError, match="nothing is expected"):
        Expectation("gangway", texts=(" ",))


def test_stats_count_by_note_which_assertions_held(make_vault: Make, run_cli: RunCli) -> None:
    notes = {"notes/a.md": "# A\n\nThe gangway is blue.\n", "notes/b.md": "# B\n\nA blue gull.\n"}
    root = make_vault(notes)

    def count() -> dict[str, tuple[int, int, int]]:
        assert run_cli("recall", "gangway gull blue", "--vault", root).code == 0
        found = run_cli("stats", "--vault", root, "--json").json["most_recalled"]
        return {each["path"]: (each["held"], each["failed"], each["used"]) for each in found}

    def judge(*words: str) -> int:
        return run_cli("assert", "gangway", *words, "--vault", root).code

    before = git(root, "status", "--porcelain"), git(root, "rev-parse", "HEAD")
    for _ in range(2):  # A repetition is no second assertion.
        assert judge("--contains", "gangway is blue") == 0
    assert judge("--contains", "gangway is blue", "--absent") == 1
    assert judge("--contains-note", "notes/a.md") == 0
    assert judge("--contains", "gangway is red") == 1
    assert judge("--contains", "gangway", "--at", "HEAD") == 0
    assert count() == {"notes/a.md": (2, 1, 0), "notes/b.md": (0, 0, 0)}
    assert "(in 3 assertions, 2 held)" in run_cli("stats", "--vault", root).out
    git(root, "bisect", "start")
    assert judge("--contains", "gangway is") == 0
    assert count()["notes/a.md"] == (2, 1, 0)
    git(root, "bisect", "reset")
    assert (git(root, "status", "--porcelain"), git(root, "rev-parse", "HEAD")) == before
