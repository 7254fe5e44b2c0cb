"""A path is what the shell means by it, in every command and from any folder of the vault."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from conftest import Make
from in_process import run_here
from support import git
from terminal import having_no_terminal, sitting_at_terminal

NOTES = {
    "notes/auth/crew.md": "# Crew sign-in\n\nA tablet. See [[refunds]].\n\n## Why\n\nGloves.\n",
    "notes/pay/refunds.md": "# Refunds\n\nHalf cents round up.\n",
    "notes/pay/crew.md": "# Crew fares\n\nCrew pay half.\n",
    "notes/pay/b/fees.md": "# Fees\n\nTwo euros.\n",
    "crew.md": "# Crew\n\nEleven people.\n",
}


@pytest.fixture
def pay(make_vault: Make) -> Path:
    """Give a folder of a vault."""
    return make_vault(NOTES) / "notes/pay"


def test_the_folder_counts_then_the_root_then_bare_names(pay: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(pay.parent)
    meant = {
        "crew.md": "notes/pay/crew.md",
        "crew": "notes/pay/crew.md",
        "../../crew.md": "crew.md",
        "../auth/crew.md#Why": "notes/auth/crew.md",
        "./b/fees": "notes/pay/b/fees.md",
        "b/../refunds.md": "notes/pay/refunds.md",
        "notes/auth/crew.md": "notes/auth/crew.md",
        "fees": "notes/pay/b/fees.md",
        f"{pay}/refunds.md": "notes/pay/refunds.md",
        f"{tmp_path}/link/pay/refunds.md": "notes/pay/refunds.md",
    }
    for given, path in meant.items():
        assert run_here("show", given, "--json", cwd=pay).json["path"] == path, given
    for given in ("../../../crew.md", "/etc/passwd", f"{pay}/../../../x.md"):
        done = run_here("show", given, cwd=pay)
        assert (done.code, done.err.count("\n")) == (5, 1)
        assert "leaves the vault" in done.err or "is absolute" in done.err
    root = pay.parent.parent
    outside = run_here("--vault", root, "show", f"{root.name}/crew.md", "--json", cwd=root.parent)
    assert outside.json["path"] == "crew.md"


@pytest.mark.campaign
def test_every_command_reads_paths_so(pay: Path) -> None:
    shown = {
        "links ../auth/crew": "[[refunds]]",
        "links --to refunds": "notes/auth/crew.md",
        "history ../auth/crew.md": "new note",
        "blame ../../crew": "Eleven",
        "log --all --path .": "Maren",
        "diff --brief --path ../auth HEAD": "Nothing differs",
        "similar ../auth/crew.md": "No note",
        "recall cents --path ../pay": "Half cents",
        "list --path ../a*": "notes/auth",
        "list --path *es.md": "b/fees.md",
        "list --path ref*": "notes/pay/refunds.md",
        "list --path notes/a*": "notes/auth",
        "assert cents --contains-note ./refunds.md": "as expected",
        "mv --dry-run refunds.md rules.md": "notes/pay/refunds.md -> notes/pay/rules.md",
        "mv --dry-run refunds rules": "notes/pay/refunds.md -> notes/pay/rules.md",
        "mv --dry-run refunds.md ../b/": "notes/pay/refunds.md -> notes/b/refunds.md",
        "mv --dry-run refunds.md b": "notes/pay/refunds.md -> notes/pay/b/refunds.md",
        "mv --dry-run ../auth/crew.md log.md": "notes/auth/crew.md -> notes/pay/log.md",
        "mv --dry-run fees costs": "notes/pay/b/fees.md -> notes/pay/b/costs.md",
        "mv --dry-run fees ../../costs": "notes/pay/b/fees.md -> costs.md",
        "tag ./refunds money": "notes/pay/refunds.md",
        "pin ../auth/crew.md": "notes/auth/crew.md",
        "state refunds.md stale": "notes/pay/refunds.md",
        "supersede crew.md ../auth/crew.md": "notes/auth/crew.md",
        "supersede refunds.md fees": "notes/pay/b/fees.md",
        "state b/fees.md quarantined --reason wrong": "notes/pay/b/fees.md",
        "forget ../../crew.md": "forgot  crew.md",
    }
    for words, expected in shown.items():
        done = run_here(*words.split(), cwd=pay)
        problems = [line for line in done.err.splitlines() if not line.startswith("hint: ")]
        assert (done.code, problems) == (0, []), words
        assert expected in done.out, words


def test_a_note_that_is_gone_is_the_folders_too(pay: Path) -> None:
    (pay / "crew.md").unlink()
    (pay.parent.parent / "crew.md").unlink()
    assert "removed" in run_here("history", "crew.md", cwd=pay).out
    assert "notes/pay/crew.md" in run_here("restore", "crew.md", "--at", "HEAD", cwd=pay).out
    assert git(pay, "status", "--short", "--", ":/notes") == ""


def test_titles_and_aliases_are_addresses_where_one_note_has_them(pay: Path) -> None:
    alike = "---\ntitle: Fare rules\naliases: [What crew pay]\n---\n# Fare rules\n\nNone.\n"
    (pay / "rules.md").write_text(alike)
    for given in ("Crew sign-in", "crew SIGN-IN", "Crew sign-in#Why"):
        found = run_here("show", given, "--json", cwd=pay).json
        assert found["path"] == "notes/auth/crew.md"
    assert found["text"] == "Gloves.\n"
    assert run_here("history", "what crew pay", "--json", cwd=pay).json["path"].endswith("rules.md")
    (pay / "more.md").write_text(alike)
    told = run_here("show", "Fare rules", cwd=pay)
    assert (told.code, told.err) == (
        4,
        'vaultmem: error: "Fare rules" could be notes/pay/more.md, notes/pay/rules.md; name one\n',
    )


@pytest.mark.campaign
def test_errors_ask_what_was_meant(pay: Path) -> None:
    run_here("task", "add", "Paint the gangway", cwd=pay)
    asked = {
        "show refund": 'no note is called "refund"; did you mean refunds?',
        "show notes/pay/fee.md": 'no note is called "notes/pay/fee.md"; did you mean fees?',
        "pin sign": ('no note is called "sign"; did you mean notes/auth/crew.md?'),
        "show zzzz": 'no note is called "zzzz"; see `vaultmem list`',
        "show 9.years.ago": "9.years.ago: no commit is that old; the first is from 2",
        "show 11.10.2026": '"11.10.2026": an ambiguous day; write a day as 2026-10-01',
        "show ../auth/crew#Wy": 'notes/auth/crew.md: no heading "Wy"; did you mean Why?',
        "show fees#Zz": 'notes/pay/b/fees.md: no heading "Zz"; it has Fees',
        "list --kind decison": 'unknown kind "decison"; did you mean decision?',
        "list --state stal": 'unknown state "stal"; did you mean stale?',
        "list --ref mian": "mian: no branch, tag or commit is called that; did you mean main?",
        "task show gangway": "gangway: there is no such task; did you mean paint-the-gangway?",
        "connect claud": 'connect: "claud" is not a client that vaultmem knows; did you mean',
        "list --at 2001-01-01": "2001-01-01: no commit is that old; the first is from 20",
    }
    for words, told in asked.items():
        assert run_here(*words.split(), cwd=pay).err.startswith(f"vaultmem: error: {told}"), words
    run_here("tag", "fees", "money/fare", cwd=pay)
    done = run_here("list", "--tag", "mony", "--context", "pays", cwd=pay)
    assert done.err == (
        'vaultmem: note: no note has the tag "mony"\n'
        'vaultmem: note: no note is of the context "pays"; did you mean pay, pay/b?\n'
    )
    assert run_here("recall", "half", "--tag", "fare", cwd=pay).err.endswith("mean money/fare?\n")
    assert run_here("recall", "half", "--tag", "money", cwd=pay).err == ""


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("Power ^9#Nope", 'Power ^9.md: no heading "Nope"'),
        ("crew#^gloves", 'notes/pay/crew.md: no heading "^gloves"'),
        ("Power ^8.md", 'no note is called "Power ^8.md"; did you mean Power ^9?'),
        ("ferry@pier", 'no note is called "ferry@pier"'),
        ("power~2", "power~2: no branch, tag or commit is called that"),
        ("main^{/ferry}", "main^{/ferry}: no branch, tag or commit is called that"),
    ],
)
def test_only_the_form_of_a_commit_is_looked_for_as_a_commit(
    pay: Path, given: str, error: str
) -> None:
    (pay.parent.parent / "Power ^9.md").write_text("# Power\n\nNine watts.\n")

    shown = run_here("show", given, cwd=pay)

    assert (shown.code, shown.out) == (4, "")
    assert shown.err.startswith(f"vaultmem: error: {error}")


def test_a_list_has_columns_and_is_as_wide_as_the_terminal(
    pay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here("pin", "fees", cwd=pay)
    plain = run_here("list", cwd=pay.parent.parent, env={"COLUMNS": "44"}).out.splitlines()
    assert len({line.index("semantic_fact") for line in plain[:-1]}) == 1
    assert len({line.rindex("  ") for line in plain[:-1]}) == 1
    terminal = type("Terminal", (io.TextIOWrapper,), {"isatty": lambda _: True})
    monkeypatch.setattr(io, "TextIOWrapper", terminal)
    shown = run_here("list", cwd=pay.parent.parent, env={"COLUMNS": "44"}).out.splitlines()
    assert max(map(len, shown)) == 44
    assert "fees.md     semantic_fact  active pinned ..." in shown


def test_the_editor_of_gits_settings_is_taken_where_none_is_set(pay: Path, home: Path) -> None:
    (pay / "bad.md").write_text("---\ntags: [a\n---\n# Bad\n")
    assert run_here("tag", "bad", "x", cwd=pay).err.startswith("vaultmem: error: notes/pay/bad.md:")
    git(pay, "config", "core.editor", "touch /nonexistent/or/so")
    write = '[core]\n\teditor = "f() { echo \'Euros.\' >>\\"$1\\"; }; f"\n'
    with (home / ".gitconfig").open("a") as settings:
        settings.write(write)
    with having_no_terminal():
        assert run_here("edit", "fees", cwd=pay).err.count("no editor is set") == 1
    with sitting_at_terminal():
        assert run_here("edit", "fees", cwd=pay).out == "edited  notes/pay/b/fees.md\n"
    assert (pay / "b/fees.md").read_text().endswith("Euros.\n")
