"""Credentials are refused at every write by what refuses them at a commit, and can be allowed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, hash_tree, write_notes

from vaultmem.core.new_memory import Memory
from vaultmem.errors import RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import change_tags, write_note
from vaultmem.services.health.doctor import examine_vault
from vaultmem.services.memory.remember import remember
from vaultmem.services.memory.rename import rename_note
from vaultmem.storage import yaml_file
from vaultmem.vault import Vault

KEY = "AKIA" + "Q7R2ZT5WXA3BNM6K"
PASSWORD = "password = " + "x9Kd02mQ71"
NOTE = PurePosixPath("notes/a.md")
PLAIN = {"notes/a.md": "# A\n\nfine\n"}


def remember_text(vault: Vault) -> None:
    remember(vault, Memory("one fact"))


@pytest.mark.guarantee
@pytest.mark.parametrize(
    "words",
    [
        ("tag", "notes/a.md", KEY),
        ("session", "start", "--session", KEY),
        ("session", "start", "--agent", KEY),
        ("--agent", KEY, "remember", "text"),
        ("--session", KEY, "--agent", "claude", "remember", "text"),
        ("--agent", KEY, "tag", "notes/a.md", "x"),
        ("--agent", KEY, "checkpoint", "x"),
        ("remember", "text", "--context", KEY),
        ("remember", "text", "--title", KEY),
        ("mv", "notes/a.md", f"notes/{KEY}.md"),
        ("mv", "notes/a.md", f"{KEY}/a.md"),
        ("state", "notes/a.md", "stale", "--reason", KEY),
        ("checkpoint", KEY),
    ],
    ids=lambda words: " ".join(words).replace(KEY, "KEY"),
)
def test_no_value_takes_a_key_in_and_nothing_is_blocked_later(
    make_vault: Make, words: tuple[str, ...]
) -> None:
    root = make_vault(PLAIN)
    before = hash_tree(root, skip=(".git",))
    write_notes(root, {"notes/b.md": "mine\n"})

    done = run_here(*words, cwd=root)

    assert done.code == 5
    assert KEY not in done.out + done.err
    assert "credential" in done.err
    (root / "notes/b.md").unlink()
    assert hash_tree(root, skip=(".git",)) == before
    write_notes(root, {"notes/b.md": "mine\n"})
    assert run_here("checkpoint", "all", cwd=root).code == 0
    assert KEY not in git(root, "log", "-p", "--all")


def test_touched_files_of_a_session_take_no_key_in(make_vault: Make) -> None:
    root = make_vault(PLAIN)
    run_here("session", "start", "--session", "s-1", "--agent", "claude", cwd=root)

    done = run_here("session", "add", "file", f"{KEY}.py", "--session", "s-1", cwd=root)

    assert done.code == 5
    assert run_here("checkpoint", "all", cwd=root).code == 0
    assert KEY not in git(root, "log", "-p", "--all")


def test_a_key_in_the_name_of_a_file_or_folder_is_not_committed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(PLAIN)
    write_notes(root, {f"notes/{KEY}/a.md": "fine\n"})

    with pytest.raises(RefusedError, match=r"notes/\*\*\*/a\.md: its name") as told:
        save_checkpoint(opened(root), "x")

    assert KEY not in str(told.value)


def test_what_a_commit_has_already_keeps_nobody_from_changing_the_note(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": f"# A\n\n{KEY}\n", f"notes/{KEY}.md": "x\n"})
    vault = opened(root, agent="claude")

    change_tags(vault, NOTE, ("ops",), ())
    rename_note(vault, "notes/a.md", "notes/c.md")
    assert save_checkpoint(vault, "x").paths

    with pytest.raises(RefusedError, match="credential"):
        write_note(vault, PurePosixPath("notes/d.md"), f"{KEY}\n")


def test_a_person_allows_a_line_by_its_mark_and_an_agent_cannot(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(PLAIN)
    line = f"{PASSWORD}  # gitleaks:allow\n"

    with pytest.raises(RefusedError, match=r"notes/b\.md:1: generic-password\. Write where"):
        write_note(opened(root, agent="claude"), PurePosixPath("notes/b.md"), line)
    write_note(opened(root), PurePosixPath("notes/b.md"), line)
    save_checkpoint(opened(root, agent="claude"), "x")

    assert "gitleaks:allow" in git(root, "show", "HEAD:notes/b.md")


@pytest.mark.parametrize("commit", ["", "0123456789abcdef0123456789abcdef01234567:"])
def test_a_place_in_gitleaksignore_is_allowed_and_the_file_is_committed(
    make_vault: Make, opened: Open, commit: str
) -> None:
    root = make_vault(PLAIN)
    write_notes(root, {"notes/b.md": f"one\n{PASSWORD}\n", "notes/c.md": f"{PASSWORD}\n"})
    ignored = f"# known\n{commit}notes/b.md:generic-password:2\n"
    (root / ".gitleaksignore").write_text(ignored)

    with pytest.raises(RefusedError, match=r"credential: notes/c\.md:1: generic-password\. "):
        save_checkpoint(opened(root), "x")
    (root / "notes/c.md").unlink()
    save_checkpoint(opened(root), "x")

    assert git(root, "ls-files").split() >= [".gitignore", ".gitleaksignore"]


SETTINGS = """
title = "ours"
[extend]
useDefault = true
disabledRules = ["aws-access-token"]

[[rules]]
id = "staff-number"
description = "A number of ours"
regex = '''(?i)staff-[0-9]{6}\\z'''
keywords = ["staff-"]

[[rules]]
id = "generic-password"
[[rules.allowlists]]
condition = "AND"
paths = ['''^notes/''']
stopwords = ["x9kd"]

[allowlist]
paths = ['''^old/''']
regexes = ['''STAFF-0+$''']
commits = ["0123456789abcdef0123456789abcdef01234567"]
"""


def test_a_gitleaks_toml_of_the_vault_adds_rules_and_takes_some_away(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(PLAIN)
    (root / ".gitleaks.toml").write_text(SETTINGS)
    fine = {
        "notes/key.md": KEY,
        "notes/password.md": PASSWORD,
        "old/staff.md": "staff-123456",
        "notes/zero.md": "STAFF-000000",
    }
    write_notes(root, fine)
    save_checkpoint(opened(root), "x")

    write_notes(root, {"a.md": f"{PASSWORD}\n", "notes/b.md": "Ann: staff-123456", "c.md": "x"})
    with pytest.raises(RefusedError) as told:
        save_checkpoint(opened(root), "y")
    with pytest.raises(RefusedError, match="staff-number"):
        write_note(opened(root, agent="claude"), PurePosixPath("d.md"), "I am staff-654321")

    for place in ("a.md:1: generic-password", "notes/b.md:1: staff-number"):
        assert place in str(told.value)
    assert ".gitleaks.toml" in git(root, "ls-files").split()


@pytest.mark.parametrize(
    ("regex", "told"),
    [
        (r"a(?i)b", 'the rule "odd": Python cannot read it: global flags'),
        (r"\pL+x", 'the rule "odd": Python cannot read it: bad escape'),
        (r"[[:alnum:]]+x", 'the rule "odd": Python has no'),
        (r"(x", 'the rule "odd": Python cannot read it: missing'),
    ],
)
def test_a_regex_that_python_does_not_know_is_named(
    make_vault: Make, opened: Open, regex: str, told: str
) -> None:
    root = make_vault(PLAIN)
    (root / ".gitleaks.toml").write_text(f"[[rules]]\nid = 'odd'\nregex = '''{regex}'''\n")

    with pytest.raises(RefusedError) as refusal:
        remember_text(opened(root))
    [check] = [c for c in examine_vault(opened(root)) if c.name == "credentials"]

    assert told in str(refusal.value)
    assert told in check.message


@pytest.mark.parametrize("settings", ["[[rules]\n", "rules = 1\n", "[[rules]]\nid = 'x'\n", "a = "])
def test_settings_that_cannot_be_used_let_nothing_through(
    make_vault: Make, opened: Open, settings: str
) -> None:
    root = make_vault(PLAIN)
    (root / ".gitleaks.toml").write_text(settings)
    with pytest.raises(RefusedError, match=r"\.gitleaks\.toml: .*; correct it"):
        remember_text(opened(root))


def test_a_link_in_place_of_settings_is_not_followed_and_status_says_so(
    make_vault: Make, tmp_path: Path
) -> None:
    root = make_vault(PLAIN)
    (tmp_path / "elsewhere").write_text("[allowlist]\nregexes = ['.*']\n")
    (root / ".gitleaks.toml").symlink_to(tmp_path / "elsewhere")
    write_notes(root, {"notes/b.md": f"{KEY}\n"})

    status, made = run_here("status", cwd=root), run_here("checkpoint", "x", cwd=root)

    assert made.code == 5
    for told in (status.out, made.err):
        assert ".gitleaks.toml: " in told
        assert "replace or remove it" in told
    assert "branch " in status.out


@pytest.mark.campaign
def test_a_regex_that_never_ends_is_stopped_and_named(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_file, "_SECONDS", 2)
    root = make_vault(PLAIN)
    (root / ".gitleaks.toml").write_text(
        "[[rules]]\nid = 'slow'\nregex = '(a+)+$'\nkeywords = ['aaa']\n"
    )
    write_notes(root, {"notes/b.md": "a" * 60 + "!\n"})

    with pytest.raises(RefusedError, match=r'the rule "slow": still at work after 2 seconds'):
        save_checkpoint(opened(root), "x")


def test_status_and_doctor_name_the_line_the_rule_and_the_remedy(make_vault: Make) -> None:
    root = make_vault(PLAIN)
    write_notes(root, {"notes/b.md": f"one\n{KEY}\n"})

    status, doctor = run_here("status", cwd=root), run_here("doctor", cwd=root)

    for done in (status, doctor):
        assert "notes/b.md:2: aws-access-token" in done.out
        assert ".gitleaksignore" in done.out
        assert KEY not in done.out + done.err
    assert (status.code, doctor.code) == (0, 1)
