"""Replay every receipt that a test left: after more commits, an index rebuild, a fresh clone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support import git

from vaultmem.core.packs.receipt import digest_text
from vaultmem.services.packs.receipts import replay_receipt
from vaultmem.vault import open_vault

COMMITS = 50


def replay_all(data: Path, state: Path, clones: Path) -> None:
    """Fail unless each receipt below `data` gives the bytes that it was written for."""
    by_vault: dict[Path, list[Path]] = {}
    for file in sorted(data.glob("vaultmem/receipts/*/*.json")):
        name = json.loads(file.read_text(encoding="utf-8")).get("vault", "")
        if name and Path(name).is_dir():
            by_vault.setdefault(Path(name), []).append(file)
    for number, (root, files) in enumerate(by_vault.items()):
        add_commits(root)
        shutil.rmtree(state, ignore_errors=True)
        replay(root, files)
        if (root / ".git").is_dir() and git(
            root, "rev-parse", "-q", "--verify", "HEAD", check=False
        ):
            clone = clones / str(number)
            git(root, "clone", "-q", "--no-local", str(root), str(clone))
            replay(clone, files)


def replay(root: Path, files: list[Path]) -> None:
    """Replay these receipts in a vault."""
    vault = open_vault(root)
    try:
        for file in files:
            replay = replay_receipt(vault, str(file))
            assert digest_text(replay.text) == replay.receipt.digest
    finally:
        vault.close()


def add_commits(root: Path) -> None:
    """Commit fifty times on the branch: every file is changed, and in the end removed."""
    head = git(root, "rev-parse", "-q", "--verify", "HEAD", check=False)
    branch = git(root, "symbolic-ref", "-q", "HEAD", check=False)
    if not head or not branch:
        return
    lines = []
    for number in range(COMMITS):
        lines += [f"commit {branch}", f"committer T <t@example.org> {2_000_000_000 + number} +0000"]
        lines += ["data 4", "more", *([f"from {head}"] if number == 0 else [])]
        lines += ["deleteall", "M 100644 inline MEMORY.md", "data 6", f"new {number:02}", ""]
    git(root, "fast-import", "--quiet", stdin="\n".join(lines) + "\n")
