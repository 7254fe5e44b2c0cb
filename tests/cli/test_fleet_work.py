"""Work over all vaults of a fleet, from the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from remote_vaults import Remotes, Told

Run = Callable[..., Any]

NOW = 1_790_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the remotes of two vaults, and a file that names them and one that is not there."""
    made = Remotes(tmp_path / "bare")
    first = {"notes/refunds.md": "Refunds over 50 euros need the approval of two people.\n"}
    made.make("crew", Told("dock-bot", first, NOW, "s1"))
    then = {"notes/limits.md": "Refunds over 80 euros need the approval of two people.\n"}
    made.make("pier", Told("quay-bot", then, NOW + 900, "s2"))
    (tmp_path / "fleet.txt").write_text(
        "crew ./bare/crew.git\npier ./bare/pier.git\ngone ./bare/gone.git\n"
    )
    return tmp_path


@pytest.mark.campaign
def test_what_vaults_say_and_since_when(
    run_cli: Run, folder: Path, make_vault: Callable[..., Path]
) -> None:
    """Paths are of the vaults that are asked, not of one in whose folder somebody asks."""
    here = make_vault({"sub/notes/limits.md": "# Limits\n"}) / "sub"

    file = folder / "fleet.txt"

    def fleet(command: str, *words: str) -> Any:
        return run_cli("fleet", command, file, *words, cwd=here)

    def check(*words: str) -> Any:
        return run_cli("assert", *words, "--fleet", file, cwd=here)

    told = fleet("bisect", "refunds", "--contains", "approval of two")
    assert told.code == 0
    heads, first, second, *rest = told.out.splitlines()
    assert heads.split() == ["since", "vault", "who", "session", "note", "source"]
    assert first.split()[2:6] == ["crew", "dock-bot", "s1", "notes/refunds.md"]
    assert second.split()[2:6] == ["pier", "quay-bot", "s2", "notes/limits.md"]
    assert rest[0] == "2 of 2 vaults have it; crew was the first:"
    assert "vaultmem: gone: not asked: " in told.err

    judged = check("refunds", "--contains", "80 euros")
    assert judged.code == 1
    assert judged.out == (
        'crew  no section of the pack contains "80 euros"\n1 of 2 vaults as expected\n'
    )
    assert check("refunds", "--contains", "approval").code == 125
    at = ("--contains", "approval", "--contains-note", "notes/limits.md", "--vault", "pier")
    assert check("refunds", *at).code == 0

    found = fleet("contradictions")
    assert found.out.startswith("contradicts  number: 50 euros, then 80 euros\n  2026-09-21  crew:")
    (pair,) = fleet("contradictions", "--json").json["contradictions"]
    assert pair["newer"]["path"] == "notes/limits.md"
    assert pair["differences"] == [{"kind": "number", "older": "50 euros", "newer": "80 euros"}]
    assert fleet("contradictions", "--json").json["asked"] == 0
    assert fleet("contradictions", "--json", "--restart").json["asked"] == 2
