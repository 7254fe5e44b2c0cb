"""Bare repositories of small vaults, for pools and fleets."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vaultmem.services.fleet.clone import VaultSource

#: Who commits here.
_NAMED = ("-c", "user.name=Maren", "-c", "user.email=maren@example.org")


def git(*arguments: str | Path, cwd: Path) -> str:
    """Run git as Maren would and return its output."""
    done = subprocess.run(
        ["git", *_NAMED, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=True
    )
    return done.stdout


def make_remotes(folder: Path, names: list[str], notes: int = 3) -> list[VaultSource]:
    """Make a bare repository for each name, each with so many notes that name the vault."""
    found = []
    for name in names:
        work, bare = folder / "work" / name, folder / f"{name}.git"
        (work / "notes").mkdir(parents=True)
        (work / "vaultmem.yaml").write_text("{}\n")
        for number in range(notes):
            text = f"# Berth {number}\n\n{name} moors at berth {number}, by the pier.\n"
            (work / f"notes/berth-{number}.md").write_text(text)
        git("init", "-q", "-b", "main", cwd=work)
        git("add", "-A", cwd=work)
        git("commit", "-qm", "first", cwd=work)
        git("clone", "-q", "--bare", work, bare, cwd=folder)
        found.append(VaultSource(name, str(bare)))
    return found


def push_note(folder: Path, name: str, note: str, text: str) -> None:
    """Write a note in the clone that a vault was made in, and push it past the pool."""
    work = folder / "work" / name
    (work / f"notes/{note}.md").write_text(text)
    git("add", "-A", cwd=work)
    git("commit", "-qm", note, cwd=work)
    for left in reversed(range(10)):  # Others push meanwhile.
        git("pull", "-q", "--rebase", folder / f"{name}.git", "main", cwd=work)
        try:
            git("push", "-q", folder / f"{name}.git", "main", cwd=work)
        except subprocess.CalledProcessError:
            if not left:
                raise
        else:
            return


def list_pushed(source: VaultSource) -> set[str]:
    """Return the notes that a vault's remote has."""
    listed = git("ls-tree", "-r", "--name-only", "HEAD", cwd=Path(source.remote)).splitlines()
    return {Path(each).stem for each in listed if each.startswith("notes/")}
