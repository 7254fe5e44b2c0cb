"""Make a vault: add what is missing, change nothing that is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Unpack

from vaultmem.errors import FaultError
from vaultmem.services.notes.plan_vault import list_missing
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport, commit_event
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.folder import write_to_folder
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.journal import Author
from vaultmem.storage.package_files import find_package_folder
from vaultmem.vault import Vault, VaultSettings, open_vault

#: Is there while a repository is ours and has no commit yet.
_BEGUN = "new-repository"


class Created(NamedTuple):
    """What `init` did: files added, lines added to git's exclude file and configuration, commit.

    `person_problem` says under whose name a person's changes are committed if git knows none.
    """

    vault: Vault
    added: tuple[str, ...]
    excluded: tuple[str, ...]
    configured: tuple[str, ...]
    new_repository: bool
    report: CommitReport
    person_problem: str


def create_vault(folder: str | Path, **settings: Unpack[VaultSettings]) -> Created:
    """Make `folder` a vault: empty, inside a git repository, or an Obsidian vault.

    `settings` are those of `open_vault`. Existing files are never changed. Only a repository that
    this call made gets a commit. A vault that is made here is its owner's, so its promotions count;
    of one that an agent made only where nothing was there before.

    One that was interrupted is made to its end by the next call.

    Raises:
        VaultError: the folder cannot be made or written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FaultError(f"{folder}: cannot be made ({error.strerror})") from error
    fresh = not any(name for name in folder.iterdir() if name.name != ".git")
    vault = open_vault(folder, **settings)
    begun = vault.state_folder / _BEGUN
    is_resumed = begun.exists()
    new_repository = is_resumed or find_git_folder(vault.root) is None
    from vaultmem.storage.git.setup import install_driver
    from vaultmem.storage.git.vault_history import init_repository

    with vault.lock():
        if new_repository:
            begun.touch()
            init_repository(vault.root, is_resumed)
        had_ignore = (vault.root / ".gitignore").exists()
        added = add_missing(vault)
        excluded = tuple(_add_excludes(vault)) if had_ignore else ()
        configured = tuple(install_driver(vault.history))
        report = CommitReport()
        if new_repository:
            author = Author(vault.author.agent)
            subject = "init: new vault" if fresh else "init: the notes that were here, and a vault"
            report = commit_event(vault, Event("init", subject, author, intent="observe"))
        if fresh or (new_repository and vault.is_person):
            vault.trust.record({})
        begun.unlink(missing_ok=True)
    problem = vault.history.person().problem
    return Created(vault, added, excluded, configured, new_repository, report, problem)


def add_missing(vault: Vault) -> tuple[str, ...]:
    """Create each file that a vault lacks; return their paths."""

    def plan(change: Change) -> None:
        for path, data in list_missing(vault.root):
            change.put(path, data)

    return write_to_folder(vault, plan).report.paths


def _add_excludes(vault: Vault) -> Iterator[str]:
    """Add the lines that the vault's .gitignore lacks to the repository's own exclude file."""
    from vaultmem.storage.git.setup import add_lines

    prefix = vault.history.prefix
    wanted = [
        line
        for line in (find_package_folder("templates") / "gitignore").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    here = (vault.root / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    lacking = [line.lstrip("/") for line in wanted if not {line, line.lstrip("/")} & set(here)]
    file = vault.history.git.work_tree / vault.history.exclude_file()
    yield from add_lines(file, [f"/{prefix}{name}" for name in lacking])
