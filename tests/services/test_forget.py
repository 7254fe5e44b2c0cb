"""`forget`: what is chosen, what is kept, and that git still has it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, synced

from vaultmem.core.search.query import parse_query
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.history.blame import blame_note
from vaultmem.services.memory.forget import ForgetSelection, forget_notes, select_notes
from vaultmem.services.memory.purge import plan_purge
from vaultmem.services.search.recall import recall

DAY = 86_400


def test_a_tag_chooses_whole_tags_and_keeps_what_is_pinned(make_vault: Make, opened: Open) -> None:
    notes = {
        "notes/a.md": "---\ntags: [old]\n---\n",
        "notes/b.md": "---\ntags: [old/er]\n---\n",
        "notes/c.md": "---\ntags: [older]\n---\n",
        "notes/d.md": "---\ntags: [old]\npinned: true\n---\n",
    }
    vault = synced(opened(make_vault(notes)))

    chosen = select_notes(vault, [], ForgetSelection(tag="old"))

    assert [record.path for record in chosen.notes] == ["notes/a.md", "notes/b.md"]
    assert chosen.kept_notes == ("notes/d.md",)


def test_an_age_counts_from_the_notes_own_date_else_from_the_file(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault()
    for name, days in [("old", 100), ("new", 1)]:
        file = root / f"notes/{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
        os.utime(file, (time.time() - days * DAY,) * 2)
    (root / "notes/said.md").write_text("---\ncreated: 2020-01-01\n---\nx\n")
    (root / "notes/updated.md").write_text(
        f"---\ncreated: 2020-01-01\nupdated: {time.strftime('%Y-%m-%d')}\n---\nx\n"
    )
    vault = synced(opened(root))

    chosen = select_notes(vault, [], ForgetSelection(older_than=90 * DAY))

    assert [record.path for record in chosen.notes] == ["notes/old.md", "notes/said.md"]


def test_a_pinned_note_goes_only_by_its_name(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/p.md": "---\npinned: true\ntags: [x]\n---\n"})
    vault = synced(opened(root))
    assert select_notes(vault, [], ForgetSelection(tag="x")).notes == ()

    forget_notes(vault, select_notes(vault, ["notes/p.md"]).notes)

    assert not (root / "notes/p.md").exists()


def test_a_forgotten_note_is_not_recalled_and_its_removal_is_committed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/gone.md": "the gangway squeaks\n", "notes/kept.md": "gangway\n"})
    vault = synced(opened(root, agent="claude"))

    forget_notes(vault, select_notes(vault, ["gone"]).notes)

    assert [hit.record.path for hit in recall(vault, parse_query("gangway"))] == ["notes/kept.md"]
    report = save_checkpoint(vault, "cleanup")
    assert git(root, "show", "--format=%an", "--name-status", report.commit).split() == [
        "claude",
        "D",
        "notes/gone.md",
    ]
    assert git(root, "show", "HEAD~1:notes/gone.md") == "the gangway squeaks"


def test_what_a_person_edited_is_committed_before_the_note_goes(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "one\n"})
    (root / "notes/n.md").write_text("two, never committed by hand\n")
    vault = synced(opened(root))

    forget_notes(vault, select_notes(vault, ["notes/n.md"]).notes)

    assert git(root, "log", "-1", "--format=%an %s") == "Maren Person edit: n"
    assert git(root, "show", "HEAD:notes/n.md") == "two, never committed by hand"


def test_a_note_that_changed_after_it_was_chosen_stays(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/n.md": "one\n"})
    vault = synced(opened(root))
    chosen = select_notes(vault, ["notes/n.md"])
    (root / "notes/n.md").write_text("two\n")

    with pytest.raises(ConflictError):
        forget_notes(vault, chosen.notes)

    assert (root / "notes/n.md").read_text() == "two\n"


def test_forgetting_names_a_note_and_not_one_of_its_sections(
    make_vault: Make, opened: Open
) -> None:
    vault = synced(opened(make_vault({"notes/n.md": "# A\n\none\n\n# B\n\ntwo\n"})))

    with pytest.raises(RefusedError, match="section"):
        select_notes(vault, ["notes/n.md#B"])


def test_forgetting_needs_to_be_told_what(make_vault: Make, opened: Open) -> None:
    vault = synced(opened(make_vault()))

    with pytest.raises(RefusedError, match="say which"):
        select_notes(vault, [])
    with pytest.raises(NoteNotFoundError):
        select_notes(vault, ["nothing"])
    with pytest.raises(RefusedError):
        select_notes(vault, ["../outside.md"])


def test_row_24_forgetting_never_commits_a_credential_that_lies_elsewhere(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "x\n"})
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    (root / "notes/leak.md").write_text(f"the key is {key}\n")
    vault = synced(opened(root))

    forget_notes(vault, select_notes(vault, ["notes/n.md"]).notes)

    assert git(root, "log", "--all", "-S", key, "--format=%h") == ""


def test_a_session_and_an_age_choose_together_and_pinned_notes_stay(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(
        {
            "notes/a.md": "---\nsession: s-1\ncreated: 2020-01-01\n---\na\n",
            "notes/b.md": f"---\nsession: s-1\ncreated: {time.strftime('%Y-%m-%d')}\n---\nb\n",
            "notes/c.md": "---\nsession: s-2\ncreated: 2020-01-01\n---\nc\n",
            "notes/d.md": "---\nsession: s-1\npinned: true\n---\nd\n",
        }
    )
    vault = synced(opened(root))

    by_session = select_notes(vault, [], ForgetSelection(session="s-1"))
    both = select_notes(vault, [], ForgetSelection(session="s-1", older_than=90 * DAY))

    assert [record.path for record in by_session.notes] == ["notes/a.md", "notes/b.md"]
    assert by_session.kept_notes == ("notes/d.md",)
    assert [record.path for record in both.notes] == ["notes/a.md"]


def test_a_question_chooses_what_has_all_its_words_in_any_state(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(
        {
            "notes/a.md": "The gangway squeaks in winter.\n",
            "notes/b.md": "---\nstate: archived\n---\nWinter: gangways squeaked.\n",
            "notes/c.md": "The gangway is new.\n",
        }
    )
    vault = synced(opened(root))

    chosen = select_notes(vault, [], ForgetSelection(query="squeaking gangway"))

    assert {record.path for record in chosen.notes} == {"notes/a.md", "notes/b.md"}
    with pytest.raises(RefusedError, match="no word"):
        select_notes(vault, [], ForgetSelection(query="the of"))


def test_a_reason_is_committed_at_once_and_blame_tells_it(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/gone.md": "the gangway squeaks\n"})
    vault = synced(opened(root, agent="claude", session="s-1"))

    done = forget_notes(vault, select_notes(vault, ["gone"]).notes, "the customer  asked")

    assert git(root, "log", "-1", "--format=%H %an: %s") == (
        f"{done.report.commit} claude: forget: gone"
    )
    assert git(root, "log", "-1", "--format=%b").splitlines()[0] == (
        "removed notes/gone.md: the customer asked"
    )
    with pytest.raises(NoteNotFoundError) as told:
        blame_note(vault, "notes/gone.md")
    assert f"claude removed it on {time.strftime('%Y')}" in str(told.value)
    assert f"in {done.report.commit[:7]}: the customer asked; " in str(told.value)


def test_a_reason_that_looks_like_a_credential_forgets_nothing(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/n.md": "x\n"})
    vault = synced(opened(root))

    with pytest.raises(RefusedError, match="credential"):
        forget_notes(vault, select_notes(vault, ["n"]).notes, "AKIA" + "IOSFODNN7EXAMPLQ")

    assert (root / "notes/n.md").exists()


def test_a_purge_is_a_plan_with_every_name_that_the_note_had(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/old name.md": "a secret of many words, kept in one place\n"})
    git(root, "mv", "notes/old name.md", "notes/new.md")
    git(root, "commit", "-qm", "rename")
    git(root, "remote", "add", "origin", "https://git.example.org/maren/vault.git")
    before = git(root, "rev-parse", "HEAD")
    vault = synced(opened(root))

    plan = plan_purge(vault, ["notes/new.md"])

    assert (set(plan.paths), plan.commits) == ({"notes/new.md", "notes/old name.md"}, 2)
    commands = [command for step in plan.steps for command in step.commands]
    rewrite, reword = [command for command in commands if "filter-repo" in command]
    assert {"git log --all -F --grep=new", "git log --all -F --grep='old name'"} < set(commands)
    assert reword.endswith("--replace-message ../words.txt")
    assert "--path=notes/new.md" in rewrite
    assert "--path='notes/old name.md'" in rewrite
    assert "git gc --prune=now" in commands
    assert "git remote add origin https://git.example.org/maren/vault.git" in commands
    assert (root / "notes/new.md").exists()
    assert git(root, "rev-parse", "HEAD") == before


TEXT = "The safe of the harbour office opens with 4711 and a turn to the left.\n\nAsk Bo.\n"


def _commit(root: Path, message: str, **files: str | None) -> None:
    """Commit with plain git what some files (`.md` is added) are now, None where they go."""
    for name, text in files.items():
        file = root / f"{name}.md"
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", message)


def test_a_purge_finds_the_name_before_a_move_that_was_two_commits(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"berth.md": TEXT, "other.md": "Nothing of it.\n"})
    git(root, "mv", "berth.md", "pier.md")
    git(root, "commit", "-q", "-m", "rename")
    _commit(root, "write: quay", quay=f"{TEXT}\nSee [[bell]].\n")
    _commit(root, "edit: quay", quay=f"{TEXT}\nSee [[bell]] and go.\n", other="More.\n")
    _commit(root, "write: removed: pier", pier=None)
    _commit(root, "write: dock", dock=f"{TEXT}\nSee [[bell]] and go.\n")
    _commit(root, "write: removed: quay", quay=None)
    vault = synced(opened(root))

    for name in ("berth.md", "pier.md", "quay.md", "dock.md"):
        plan = plan_purge(vault, [name])
        assert set(plan.paths) == {"berth.md", "pier.md", "quay.md", "dock.md"}, name
        assert (plan.commits, plan.others) == (7, ())


def test_a_purge_leaves_notes_that_only_began_as_the_same_text(
    make_vault: Make, opened: Open
) -> None:
    template = "# Day\n\n## What was decided at the harbour\n\n## What is left to be done\n"
    root = make_vault({"day.md": template, "empty.md": "", "copy.md": TEXT})
    for number in range(4):
        _commit(root, "new", **{f"d{number}": template})
        _commit(root, "said", **{f"d{number}": f"{template}\nShip {number} came in.\n"})
    _commit(root, "a copy and an empty one", safe=TEXT, blank="")
    _commit(root, "away", d0=None, empty=None, blank=None)
    git(root, "mv", "day.md", "daily.md")
    git(root, "commit", "-q", "-m", "rename")
    vault = synced(opened(root))

    day, safe = plan_purge(vault, ["d3.md"]), plan_purge(vault, ["safe.md"])

    assert day.paths == ("d3.md",)
    assert day.others == ("d0.md", "d1.md", "d2.md", "daily.md", "day.md")
    assert (safe.paths, safe.others) == (("safe.md",), ("copy.md",))
    told = [step.reason for step in safe.steps if "copy.md" in step.reason]
    assert len(told) == 1
    assert "they stay" in told[0]


def test_what_a_purge_was_to_remove_is_found_wherever_git_still_has_it(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault({"notes/pier.md": TEXT, "notes/o.md": "stays\n"})
    _commit(root, 'edit: "opens with 4711"', here="x\n")
    git(root, "branch", "opens-with-4711")
    git(root, "tag", "-a", "v1", "-m", "opens with 4711")
    git(root, "rm", "-q", "notes/pier.md")
    git(root, "commit", "-q", "-m", "away")
    lost = git(root, "hash-object", "-w", "--stdin", stdin='{"q": "a \\"turn\\" to the left"}')
    (root / "staged.md").write_text("Ask Bo.\n")
    git(root, "add", "staged.md")
    words = tmp_path / "words.txt"
    words.write_text('opens with 4711==>***\nliteral:a "turn" to\n\nopens-with\nAsk Bo.\n')

    shown = run_here("forget", "--verify", words, cwd=root)
    found = run_here("forget", "--verify", words, "--json", cwd=root).json["found"]

    assert shown.code == 1
    places = [f"line {each['line']}: {each['place']}" for each in found]
    assert shown.out.splitlines() == places
    first, edit = (git(root, "rev-parse", "--short=7", f"HEAD~{n}") for n in (2, 1))
    assert f"line 1: notes/pier.md: came with commit {first}" in places
    assert f"line 1: commit {edit}" in places
    assert f"line 1: tag {git(root, 'rev-parse', '--short=7', 'v1')}" in places
    nothing = "to which nothing leads: `git gc --prune=now` drops it"
    assert f"line 2: blob {lost[:7]}, {nothing}" in places
    assert "line 4: the name of the ref refs/heads/opens-with-4711" in places
    assert "line 5: staged.md: in git's index" in places
    words.write_text("nowhere to be seen==>***\n")
    clean = run_here("forget", "--verify", words, cwd=root)
    assert (clean.code, clean.out, clean.err) == (0, "", "")


@pytest.mark.parametrize("words", ["", "\n  \n", "regex:4[0-9]+==>x\n"])
def test_a_file_without_a_text_to_look_for_is_no_proof_that_all_is_gone(
    make_vault: Make, tmp_path: Path, words: str
) -> None:
    root = make_vault({"notes/pier.md": TEXT})
    (tmp_path / "words.txt").write_text(words)

    assert run_here("forget", "--verify", tmp_path / "words.txt", cwd=root).code == 5
    assert run_here("forget", "--verify", tmp_path / "no.txt", cwd=root).code == 1


def test_the_steps_of_a_purge_do_purge(make_vault: Make, opened: Open, tmp_path: Path) -> None:
    if shutil.which("git-filter-repo") is None:
        pytest.skip("git filter-repo is not installed")
    root = make_vault({"notes/n.md": TEXT, "notes/o.md": "stays\n"})
    (root / "notes/new.md").write_text(f"{TEXT}\nMore.\n")
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "write: new")
    git(root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    git(root, "rm", "-q", "notes/n.md")
    git(root, "commit", "-q", "-m", "write: removed: n")
    git(root, "push", "-q", "origin", "main")
    blob = git(root, "rev-parse", "HEAD~2:notes/n.md")
    git(root, "commit", "-q", "--allow-empty", "-m", "edit: 4711 is a secret")
    (tmp_path / "words.txt").write_text("4711==>***\nturn to the left==>***\n")
    assert run_here("forget", "--verify", "../words.txt", cwd=root).code == 1
    plan = plan_purge(synced(opened(root)), ["notes/new.md"])

    for step in plan.steps:
        for command in step.commands:
            if command.startswith("git") and "--mirror" not in command:
                subprocess.run(shlex.split(command), cwd=root, check=True, capture_output=True)
            if command.startswith("vaultmem forget"):
                done = run_here(*shlex.split(command)[1:], cwd=root)
                assert (done.code, done.out) == (0, "")

    for repository in (root, tmp_path / "remote.git"):
        names = git(repository, "log", "--all", "--format=", "--name-only")
        assert not {"notes/n.md", "notes/new.md"} & set(names.split())
        assert "4711" not in git(repository, "log", "--all", "--format=%B")
        assert git(repository, "show", "HEAD:notes/o.md") == "stays"
    assert git(root, "cat-file", "--batch-check", stdin=blob).endswith("missing")


def test_text_that_git_does_not_have_gets_no_command_that_restores_it(make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "A.\n", ".gitignore": "notes/own.md\n"})
    (root / "notes/own.md").write_text("Ignored.\n")

    removed = run_here("forget", "notes/a.md", "notes/own.md", "--yes", cwd=root).out

    assert removed.splitlines()[-1] == (
        "git does not have this text, so no command brings it back:  notes/own.md"
    )
