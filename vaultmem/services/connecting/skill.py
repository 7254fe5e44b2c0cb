"""Put the skill that teaches an agent this memory where the agent looks for skills."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path, PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.errors import RefusedError
from vaultmem.storage.files import create_file, read_file, remove_file, replace_file

#: Below the client's own folder in the project's or the user's.
SKILL_PATH = PurePosixPath("skills/vaultmem/SKILL.md")


def read_skill() -> str:
    """Return the skill's text."""
    return (files("vaultmem.services.connecting") / "SKILL.md").read_text(encoding="utf-8")


def install_skill(folder: Path, replace: bool = False) -> str:
    """Write the skill below a folder; return "added", "changed" or "unchanged".

    Raises:
        RefusedError: there is another text, which somebody may have written.
    """
    new = read_skill().encode("utf-8")
    if not (folder / SKILL_PATH).exists():
        folder.mkdir(parents=True, exist_ok=True)
        create_file(folder, SKILL_PATH, new)
        return "added"
    old = read_file(folder, SKILL_PATH)
    if old == new:
        return "unchanged"
    if not replace:
        raise RefusedError(f"{folder / SKILL_PATH}: has another text; --replace writes over it")
    replace_file(folder, SKILL_PATH, blob_id(old), new)
    return "changed"


def remove_skill(folder: Path) -> str:
    """Remove the skill if it is ours; return "removed" or "unchanged".

    Raises:
        RefusedError: somebody has changed it.
    """
    if not (folder / SKILL_PATH).exists():
        return "unchanged"
    old = read_file(folder, SKILL_PATH)
    if old != read_skill().encode("utf-8"):
        raise RefusedError(f"{folder / SKILL_PATH}: was changed; remove it yourself")
    remove_file(folder, SKILL_PATH, blob_id(old))
    return "removed"
