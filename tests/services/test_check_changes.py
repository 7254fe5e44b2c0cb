"""What `vaultmem check` prints and how it ends, as a hook or workflow runs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make, RunCli
from planted_changes import World
from projects_world import make_repository, run_git
from support import git, write_notes


@pytest.fixture
def world(home: Path, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "ferries")
    yield made
    made.vault.close()


def test_a_change_without_a_fault_ends_with_0(run_cli: RunCli, world: World) -> None:
    world.write("src/new.py", "print()\n")
    done = run_cli("check", "--since", "HEAD", cwd=world.root)
    assert (done.code, done.err) == (0, ""), done
    assert done.out == f"0 findings since {world.base[:7]}\n"


def test_findings_are_reported_with_their_place_and_end_with_1(
    run_cli: RunCli, world: World
) -> None:
    world.edit(
        "src/fares.py", "def read_fares(amount):\n    total = a", "def read_fares(a):\n    t = a"
    )
    world.add_note("inbox/x", "# X\n\nThe pier of Husum is 170 metres long. See [[y]].\n")
    done = run_cli("check", "--since", "HEAD", "--json", cwd=world.root)
    assert done.code == 1
    found = json.loads(done.out)
    assert (found["ok"], found["base"], found["files"]) == (False, world.base, 1)
    assert [(each["kind"], each["path"], each["line"]) for each in found["findings"]] == [
        ("anchor", "src/fares.py", 6),
        ("contradiction", ".memory/notes/inbox/x.md", 3),
        ("link", ".memory/notes/inbox/x.md", 3),
        ("generated", "AGENTS.md", 1),
        ("pack", ".memory/questions.jsonl", 3),
    ]
    assert '"170" here, "140" there' in found["findings"][1]["message"]
    world.commit("Break it")
    assert run_cli("check", "--since", "HEAD", cwd=world.root).code == 0


def test_annotations_are_escaped_for_github(run_cli: RunCli, world: World) -> None:
    world.write(".memory/notes/a,b: 100%.md", "See [[50%,nowhere]].\n")
    world.render()
    done = run_cli("check", "--since", "HEAD", "--github", cwd=world.root)
    assert done.code == 1
    assert done.out == (
        "::error file=.memory/notes/a%2Cb%3A 100%25.md,line=1,title=vaultmem%3A link"
        "::the link to 50%25,nowhere is broken: there is no such file\n"
    )


def test_a_pack_that_changes_is_reported_and_is_no_problem(run_cli: RunCli, world: World) -> None:
    world.add_note("inbox/ferry", "The night ferry to Holm has a bar.\n")
    world.render()
    done = run_cli("check", "--since", "HEAD", "--github", cwd=world.root)
    assert done.code == 0, done
    assert "::notice file=.memory/questions.jsonl,line=2,title=vaultmem%3A pack::the pack for" in (
        done.out
    )
    assert "it adds notes/inbox/ferry.md" in done.out


def test_a_branch_is_compared_with_where_it_began(run_cli: RunCli, world: World) -> None:
    git(world.top, "branch", "topic")
    world.add_note("inbox/ferry", "The night ferry to Holm has a bar. See [[nobody-else]].\n")
    world.render()
    world.commit("Add a broken link to main")
    git(world.top, "checkout", "-q", "topic")
    assert run_cli("check", "--since", "@{-1}", cwd=world.root).code == 0


@pytest.mark.parametrize("base", ["nope", "0" * 40, "other"])
def test_a_base_that_is_not_known_ends_with_125(run_cli: RunCli, world: World, base: str) -> None:
    git(world.top, "branch", "other", git(world.top, "commit-tree", "HEAD^{tree}", "-m", "Other"))
    done = run_cli("check", "--since", base, cwd=world.root)
    assert (done.code, done.out) == (125, "")
    assert done.err.startswith("vaultmem: cannot be checked: ")


def test_a_broken_repository_ends_with_125(run_cli: RunCli, world: World) -> None:
    (world.top / ".git/HEAD").write_text("nothing")
    assert run_cli("check", "--since", world.base, cwd=world.root).code == 125


def test_a_clone_on_another_machine_reports_the_same(
    run_cli: RunCli, world: World, tmp_path: Path
) -> None:
    (world.root / "notes/index.md").unlink()
    world.add_note("inbox/x", "See [[nowhere]].\n")
    world.render()
    world.commit("Break it")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(world.top), str(clone))
    env = {"VAULTMEM_STATE_DIR": "", "XDG_STATE_HOME": str(tmp_path / "s")}
    env |= {"XDG_DATA_HOME": str(tmp_path / "d"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    done = run_cli("check", "--since", "HEAD~1", cwd=clone / ".memory", env=env)
    assert done.code == 1
    kinds = {line.split()[0] for line in done.out.splitlines()}
    assert kinds == {"link", "pack", "1"}, done.out  # The last line counts.


def test_a_commit_leaves_its_generated_file_up_to_date(run_cli: RunCli, world: World) -> None:
    saved = {"choir": 60, "kiosk": 7200, "buoys": 90_000}  # Seconds before now; no note is dated.
    for name, seconds in saved.items():
        world.add_note(f"inbox/{name}", f"The {name} of Holm.\n")
        os.utime(world.root / f"notes/inbox/{name}.md", (time.time() - seconds,) * 2)
    world.render()
    shown = world.read("AGENTS.md")
    places = [shown.index(f"The {name} of Holm.") for name in sorted(saved)]
    assert places == sorted(places)
    assert places[-1] < shown.index("A refund is paid")
    world.commit("Add three notes")
    done = run_cli("check", "--since", "HEAD~1", cwd=world.root)
    assert "generated" not in done.out, done


def test_a_separate_vault_is_checked_from_its_own_commits(
    run_cli: RunCli, make_vault: Make
) -> None:
    root = make_vault({"notes/a.md": "The pier is of oak.\n"})
    write_notes(root, {"notes/b.md": "See [[nobody]].\n"})
    done = run_cli("check", "--since", "HEAD", cwd=root)
    assert (done.code, done.out.split()[:2]) == (1, ["link", "notes/b.md:1:"])


def test_in_a_code_repository_anchors_of_a_vault_elsewhere_are_checked(
    run_cli: RunCli, make_vault: Make, tmp_path: Path
) -> None:
    root, code = make_vault(), make_repository(tmp_path / "code/shop", "LIMIT = 3\n")
    env = {"VAULTMEM_VAULT": str(root), "VAULTMEM_AGENT": "claude"}
    cited = run_cli("remember", "The limit is 3.", "--cite", "main.py#L2", cwd=code, env=env)
    assert cited.code == 0, cited
    (code / "main.py").write_text("# shop\nLIMIT = 4\n")
    run_git(code, "commit", "-qam", "Raise the limit")
    done = run_cli("check", "--since", "HEAD~1", cwd=code, env=env)
    assert done.code == 1
    path, cite = "notes/inbox/the-limit-is-3.md", "main.py#L2 changed since"
    assert done.out.startswith(f"anchor        main.py:2: {path} cites {cite}")
    assert run_cli("check", "--since", "HEAD", cwd=code, env=env).code == 0
