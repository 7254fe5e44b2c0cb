"""Many vaults by their remotes, from the command line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import Make, RunCli
from in_process import run_here
from support import git


@pytest.fixture
def remotes(make_vault: Make, tmp_path: Path) -> Path:
    """Make a file that names the remotes of two vaults and of one that is not there."""
    for name in ("crew", "pier"):
        root = make_vault({f"notes/{name}.md": f"# The {name}\n\nIt is at Husum.\n"}, name=name)
        git(tmp_path, "clone", "-q", "--bare", str(root), f"bare/{name}.git")
    file = tmp_path / "fleet.txt"
    file.write_text("# ours\ncrew ./bare/crew.git\npier ./bare/pier.git main\ngone ./bare/no.git\n")
    return file


@pytest.mark.campaign
def test_status_says_what_is_there_and_why_the_rest_is_not(run_cli: RunCli, remotes: Path) -> None:
    told = run_cli("fleet", "status", remotes, cwd=remotes.parent)
    assert "3 vaults, 0 ready; 1 node" in told.out
    assert "crew: not cloned yet" in told.out
    found = run_cli("fleet", "status", "bare", "--json", cwd=remotes.parent).json
    assert (found["vaults"], found["ready"]) == (2, 0)
    assert found["problems"].keys() == {"crew", "pier"}


@pytest.mark.campaign
def test_a_file_that_names_no_vaults_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "NAME.git" in run_cli("fleet", "status", "empty", cwd=tmp_path).err
    wrong = run_cli("fleet", "status", "flet.txt", cwd=tmp_path)
    assert re.search(r"error: \S*flet.txt: No such file .*; name a file", wrong.err)


def test_who_lacks_the_extra_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [name for name in sys.modules if name.startswith("vaultmem.ray_fleet.")]:
        monkeypatch.delitem(sys.modules, name)
    told = run_here("fleet", "status", "ray:auto")
    assert told.code == 1
    assert "--fleet: ray is not installed; run `" in told.err
    assert re.search(r"install.*(ray|fleet)", told.err)


@pytest.mark.campaign
def test_hits_name_their_vault_also_where_one_is_asked(run_cli: RunCli, remotes: Path) -> None:
    words = ("recall", "Husum", "--fleet", remotes, "--json")
    for chosen, vaults in (((), {"crew", "pier"}), (("--vault", "pier"), {"pier"})):
        found = run_cli(*words, *chosen, cwd=remotes.parent).json
        assert {hit["vault"] for hit in found["hits"]} == vaults
