"""A look at the folder by a child process: the same as one's own, or no answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import RunCli
from support import wait_until, write_notes

from vaultmem.services.reading.sync import sync_vault
from vaultmem.storage.scan import scan_vault
from vaultmem.storage.scan_ahead import begin_scan, take_signature
from vaultmem.vault import Vault

Make = Callable[..., Path]
Open = Callable[..., Vault]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def test_the_child_sees_what_a_scan_sees(tmp_path: Path) -> None:
    write_notes(tmp_path, {f"notes/n{n}.md": f"# N{n}\n" for n in range(50)})

    begin_scan(str(tmp_path))

    assert take_signature(str(tmp_path)) == scan_vault(tmp_path).signature()
    assert take_signature(str(tmp_path)) == ""


def test_nobody_else_is_answered(tmp_path: Path) -> None:
    begin_scan(str(tmp_path))

    assert take_signature(str(tmp_path / "elsewhere")) == ""


def test_a_child_that_is_killed_or_fails_gives_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.storage.scan.scan_vault", lambda root: 1 / 0)

    begin_scan(str(tmp_path))

    assert take_signature(str(tmp_path)) == ""


def test_a_sync_believes_only_a_signature_that_is_its_last(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/one.md": "# One\n"})
    vault = opened(root)
    wait_until(lambda: sync_vault(vault).read == 0 and bool(vault.state.get("scan")))
    before = vault.state.get("scan")
    write_notes(root, {"notes/two.md": "# Two\n"})

    assert sync_vault(vault, seen=before).added == 0
    assert sync_vault(vault, seen="another").added == 1


def test_commands_find_what_was_saved_just_before_them(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault()
    for number in range(5):
        write_notes(root, {"notes/tide.md": f"# Tide\n\nAt ebb number{number} holds.\n"})
        found = run_cli("recall", f"number{number}", "--json", cwd=root).json
        assert [hit["path"] for hit in found["hits"]] == ["notes/tide.md"], number
