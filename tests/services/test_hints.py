"""A process that answers many questions: in sync with the folder, and not by looking at it all."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem.errors import VaultError
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching import sync_hints as hints_module
from vaultmem.services.watching.lease import PendingPaths
from vaultmem.services.watching.sync_hints import ChangeHints
from vaultmem.storage.scan_files import scan_vault
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.vault import Vault

NOTES = {"notes/pier.md": "# Pier\n", "notes/pay/refunds.md": "# Refunds\n"}


@pytest.fixture
def hinted(make_vault: Make, opened: Open) -> Iterator[tuple[Vault, ChangeHints]]:
    """Give a vault that is in sync, and watched."""
    vault = opened(make_vault(NOTES))
    hints = ChangeHints(vault)
    hints.sync(vault)
    yield vault, hints
    hints.stop()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, hinted: object) -> list[Path]:
    """Give a list that grows with each look at a whole folder."""
    done: list[Path] = []

    def scan(root: Path, *rest: Any) -> Any:
        done.append(root)
        return scan_vault(root, *rest)

    monkeypatch.setattr("vaultmem.services.views.update_index.scan_vault", scan)
    return done


def test_a_saved_note_is_found_without_a_look_at_the_others(
    hinted: tuple[Vault, ChangeHints], looks: list[Path]
) -> None:
    vault, hints = hinted
    write_notes(vault.root, {"notes/buoy.md": "# Buoy\n", "notes/pier.md": "# Pier, of oak\n"})
    (vault.root / "notes/pay/refunds.md").unlink()

    hints.sync(vault)

    titles = {record.path: record.title for record in vault.view.records()}
    assert titles["notes/buoy.md"] == "Buoy"
    assert titles["notes/pier.md"] == "Pier, of oak"
    assert "notes/pay/refunds.md" not in titles
    assert not looks


def test_what_only_a_look_at_all_can_tell_is_looked_at(
    hinted: tuple[Vault, ChangeHints], looks: list[Path]
) -> None:
    vault, hints = hinted
    (vault.root / "notes/pay").rename(vault.root / "notes/money")
    hints.sync(vault)
    assert "notes/money/refunds.md" in vault.view.blobs()
    assert looks

    git(vault.root, "checkout", "-q", "--orphan", "other")
    git(vault.root, "commit", "-q", "--allow-empty", "-m", "other")
    del looks[:]
    hints.sync(vault)
    assert looks
    assert vault.state.get("head") == git(vault.root, "rev-parse", "HEAD").strip()


def test_hints_outlive_a_sync_that_failed(
    hinted: tuple[Vault, ChangeHints], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, hints = hinted

    def fail(*_: object) -> None:
        raise VaultError("the disk is full")

    write_notes(vault.root, {"notes/buoy.md": "# Buoy\n"})
    with monkeypatch.context() as failing:
        failing.setattr(hints_module, "sync_changed", fail)
        with pytest.raises(VaultError, match="full"):
            hints.sync(vault)
    hints.sync(vault)

    assert "notes/buoy.md" in vault.view.blobs()


def test_one_look_at_everything_is_enough_for_all_who_wait_for_it(
    hinted: tuple[Vault, ChangeHints], looks: list[Path]
) -> None:
    vault, _ = hinted
    pending = PendingPaths()
    number, paths = pending.begin()
    assert paths == {EVERYTHING}
    ends = threading.Timer(0.1, pending.end, [number])
    ends.start()
    pending.sync(vault, lambda: True)
    assert not looks

    pending.add(EVERYTHING)
    pending.begin()
    pending.end(0)  # It failed.
    pending.sync(vault, lambda: True)
    assert len(looks) == 1
    pending.sync(vault, lambda: True)
    assert len(looks) == 1
    pending.sync(vault, lambda: False)
    assert len(looks) == 2


@pytest.mark.parametrize("seed", range(4))
def test_any_changes_leave_what_a_look_at_all_finds(
    hinted: tuple[Vault, ChangeHints], opened: Open, seed: int
) -> None:
    vault, hints = hinted
    chance = random.Random(seed)
    root = vault.root
    names = [f"{folder}n{n}.md" for folder in ("notes/", "notes/a/", "inbox/") for n in range(4)]
    for step in range(40):
        _change(root, chance, names, step)
        if chance.random() < 0.6:
            hints.sync(vault)
    hints.sync(vault)

    seen = vault.view.blobs()
    fresh = opened(root)
    assert sync_vault(fresh).added == 0
    assert fresh.view.blobs() == seen
    assert set(seen) == set(scan_vault(root).notes)


def _change(root: Path, chance: random.Random, names: list[str], step: int) -> None:
    path, other = root / chance.choice(names), root / chance.choice(names)
    match chance.randrange(6):
        case 0 | 1 | 2:
            write_notes(root, {str(path.relative_to(root)): f"# Step {step}\n"})
        case 3:
            path.unlink(missing_ok=True)
        case 4 if path.exists() and path != other:
            other.parent.mkdir(exist_ok=True)
            path.replace(other)
        case 5:
            kept = root / "notes/a"
            if kept.is_dir() and not (root / "notes/b").exists():
                kept.rename(root / "notes/b")
