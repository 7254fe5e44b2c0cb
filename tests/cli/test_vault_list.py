"""The list of vaults, and commands over several of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Make, RunCli

from vaultmem.cli.output import print_styled


@pytest.fixture
def two(make_vault: Make) -> tuple[Path, Path]:
    a = make_vault({"notes/tide.md": "# Tide\n\nThe tide turns at noon.\n"}, "a")
    b = make_vault({"notes/ebb.md": "# Ebb\n\nAfter the tide comes the ebb tide.\n"}, "b")
    return a, b


def test_vaults_are_listed_by_name(run_cli: RunCli, two: tuple[Path, Path]) -> None:
    a, b = two
    assert "vault add" in run_cli("vault", "list").out
    run_cli("vault", "add", a, "--name", "work")
    added = run_cli("vault", "add", b, "--json").json
    assert (added["name"], added["path"]) == ("b", str(b))
    shown = run_cli("vault", "list", "--json").json["vaults"]
    assert [(each["name"], each["problem"]) for each in shown] == [("work", ""), ("b", "")]
    assert "work" in run_cli("vault", "list").out
    assert "tide turns" in run_cli("recall", "tide", "--vault", "work").out
    assert run_cli("vault", "remove", "work").code == 0
    assert run_cli("recall", "tide", "--vault", "work").code == 3


def test_a_folder_whose_name_is_not_utf8_is_listed(run_cli: RunCli, tmp_path: Path) -> None:
    folder = tmp_path / "v\udcff"
    assert run_cli("init", folder, "--yes").code == 0
    listed = run_cli("vault", "list")
    assert (listed.code, listed.err) == (0, "")
    assert f"v  {tmp_path}/v\\xff" in listed.out
    assert "MEMORY.md" in run_cli("list", "--vault", "v").out


def test_a_terminal_is_shown_what_has_no_colour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_styled("2 notes", "", ", trusted")
    assert capsys.readouterr().out == "2 notes, trusted\n"


def test_a_dumb_terminal_gets_no_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for terminal, shown in (("dumb", "2 notes\n"), ("xterm", "\x1b[2m2 notes\x1b[0m\n")):
        monkeypatch.setenv("TERM", terminal)
        print_styled("2 notes", "dim")
        assert capsys.readouterr().out == shown


def test_what_cannot_be_listed_says_what_to_do(run_cli: RunCli, two: tuple[Path, Path]) -> None:
    a, b = two
    run_cli("vault", "add", a)
    for words, told in (
        (("add", a.parent), "vaultmem init"),
        (("add", b, "--name", "a"), "--name"),
        (("add", b, "--name", "x/y"), "--name"),
        (("add", a, "--name", "other"), "remove a"),
        (("remove", "nobody"), "vaultmem vault list"),
    ):
        done = run_cli("vault", *words)
        assert done.code
        assert told in done.err


def test_an_error_does_not_list_many_vaults(run_cli: RunCli, tmp_path: Path) -> None:
    for number in range(7):
        vault = tmp_path / f"vault{number}"
        vault.mkdir()
        (vault / "vaultmem.yaml").touch()
        assert run_cli("vault", "add", vault).code == 0
    (tmp_path / "empty").mkdir()
    done = run_cli("list", cwd=tmp_path / "empty")
    assert done.code == 3
    assert f"vault4 ({tmp_path}/vault4), and 2 more (`vaultmem vault list`); name one" in done.err
    assert "vault5" not in done.err


def test_a_folder_goes_before_a_name_of_the_list(run_cli: RunCli, two: tuple[Path, Path]) -> None:
    a, b = two
    run_cli("vault", "add", a, "--name", "b")
    assert "ebb" in run_cli("recall", "tide", "--vault", "b", cwd=b.parent).out
    assert "ebb" not in run_cli("recall", "tide", "--vault", "b", cwd=a).out


def test_a_vault_that_is_gone_is_told_and_removed(run_cli: RunCli, two: tuple[Path, Path]) -> None:
    a, _ = two
    run_cli("vault", "add", a)
    a.rename(a.with_name("moved"))
    shown = run_cli("vault", "list", "--json").json["vaults"]
    assert "no vaultmem.yaml" in shown[0]["problem"]
    assert run_cli("vault", "remove", a).code == 0


@pytest.mark.campaign
def test_two_vaults_named_are_both_asked(run_cli: RunCli, two: tuple[Path, Path]) -> None:
    a, b = two
    for words in (("--vault", a, "--vault", b), ("--vault", b, f"--vault={a}")):
        found = run_cli("recall", "tide", *words, "--json").json["hits"]
        assert {(hit["vault"], hit["path"]) for hit in found} == {
            (str(a), "notes/tide.md"),
            (str(b), "notes/ebb.md"),
        }
    before = run_cli("--vault", a, "recall", "tide", "--vault", b, "--json").json["hits"]
    assert len(before) == 2
    assert str(a) in (text := run_cli("pack", "tide", "--vault", a, "--vault", b).out)
    assert "noon" in text
    assert "ebb tide" in text


def test_all_vaults_of_the_list_are_asked(run_cli: RunCli, two: tuple[Path, Path]) -> None:
    for each in two:
        run_cli("vault", "add", each)
    done = run_cli("recall", "tide", "--all-vaults", cwd=two[0])
    assert "a:notes/tide.md" in done.out
    assert "b:notes/ebb.md" in done.out
    assert "noon" in run_cli("show", "a:notes/tide.md", cwd=two[1]).out
    listed = run_cli("list", "--all-vaults", cwd=two[0]).out
    assert "a:notes/tide.md" in listed
    assert "b:notes/ebb.md" in listed


@pytest.mark.parametrize("words", [("status",), ("remember", "x"), ("show", "tide"), ("log",)])
def test_a_command_for_one_vault_refuses_a_second(
    run_cli: RunCli, two: tuple[Path, Path], words: tuple[str, ...]
) -> None:
    a, b = two
    done = run_cli(*words, "--vault", a, "--vault", b)
    assert done.code == 2
    assert "one vault" in done.err
    done = run_cli("--vault", a, *words, "--vault", b)
    assert done.code
    assert "one vault" in done.err


def test_one_that_cannot_be_read_is_told_and_the_rest_answers(
    run_cli: RunCli, two: tuple[Path, Path]
) -> None:
    a, b = two
    for each in two:
        run_cli("vault", "add", each)
    (b / "vaultmem.yaml").write_text("colour: blue\n")
    done = run_cli("recall", "tide", "--all-vaults", cwd=a)
    assert done.code == 0
    assert "noon" in done.out
    assert "passed over" in done.err
    assert "colour" in done.err
