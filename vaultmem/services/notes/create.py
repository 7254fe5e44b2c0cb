"""Make a vault: add what is missing, change nothing that is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Unpack

from vaultmem.config import CONFIG_NAME, parse_config, read_config
from vaultmem.core.blob import blob_id
from vaultmem.core.secrets.rules import IGNORE_NAME
from vaultmem.core.settings import set_line
from vaultmem.errors import FaultError, NoteNotFoundError
from vaultmem.services.notes.plan_vault import list_missing, read_all
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport, commit_event
from vaultmem.services.writing.folder import write_to_folder
from vaultmem.services.writing.leaks import find_leaks, make_allowances
from vaultmem.services.writing.ownership import find_pending
from vaultmem.services.writing.parts import LEAK, Event
from vaultmem.storage.files import read_file
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.setup import change_kept_out, read_kept_out
from vaultmem.storage.journal import Author
from vaultmem.storage.package_files import find_package_folder
from vaultmem.vault import Vault, VaultSettings, open_vault

#: Is there while a repository is ours and has no commit yet.
_BEGUN = "new-repository"

#: Seconds without a save after which edits are committed, where the owner wants that.
EDITS_AFTER_SECONDS = 600


class Created(NamedTuple):
    """What `init` did: files added, lines added to git's exclude file and configuration, commit.

    `kept_out` are the files that git does not get because of what looks like a credential,
    `released` those that the next checkpoint commits after all. `person_problem` says under whose
    name a person's changes are committed if git knows none.
    """

    vault: Vault
    added: tuple[str, ...]
    excluded: tuple[str, ...]
    configured: tuple[str, ...]
    new_repository: bool
    report: CommitReport
    person_problem: str
    kept_out: tuple[str, ...] = ()
    released: tuple[str, ...] = ()


class CreateOptions(NamedTuple):
    """What the owner answers when a folder becomes a vault.

    With `allow_secrets`, git gets files with what looks like a credential. `commit_edits` is
    whether `watch` commits a person's edits, None for what vaultmem.yaml has.
    """

    allow_secrets: bool = False
    commit_edits: bool | None = None


def create_vault(
    folder: str | Path,
    options: CreateOptions = CreateOptions(),  # noqa: B008
    **settings: Unpack[VaultSettings],
) -> Created:
    """Make `folder` a vault: empty, inside a git repository, or an Obsidian vault.

    `settings` are those of `open_vault`. Existing files are never changed, but for settings that
    the `options` ask for. Only a repository that this call made gets a commit. A vault that is made
    here is its owner's, so its promotions count; of one that an agent made only where nothing was
    there before.

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
        added = add_missing(vault, options.commit_edits)
        excluded = tuple(_add_excludes(vault)) if had_ignore else ()
        configured = tuple(install_driver(vault.history))
        if options.allow_secrets:
            _allow_leaks(vault, new_repository)
        released = _release(vault)
        report = CommitReport()
        if new_repository:
            author = Author(vault.author.agent)
            subject = "init: new vault" if fresh else "init: the notes that were here, and a vault"
            event = Event("init", subject, author, intent="observe", without_leaks=True)
            report = commit_event(vault, event)
            _keep_out(vault, report.skipped)
            released = ()
        if fresh or (new_repository and vault.is_person):
            vault.trust.record({})
        begun.unlink(missing_ok=True)
    problem = vault.history.person().problem
    kept_out = tuple(_read_kept_out(vault))
    return Created(
        *(vault, added, excluded, configured, new_repository, report, problem),
        kept_out=kept_out,
        released=released,
    )


def add_missing(vault: Vault, commit_edits: bool | None = None) -> tuple[str, ...]:
    """Create each file that a vault lacks; return their paths.

    `commit_edits` is as `CreateOptions` has it; a vaultmem.yaml that is there gets that one line.
    """
    seconds = None if commit_edits is None else EDITS_AFTER_SECONDS * commit_edits

    def plan(change: Change) -> tuple[str, ...]:
        missing = dict(list_missing(vault.root))
        settings = PurePosixPath(CONFIG_NAME)
        for path, data in missing.items():
            change.put(path, _set_edits(data, seconds) if path == settings else data)
        if settings not in missing and seconds is not None:
            data = read_file(vault.root, settings)
            if read_config(vault.root).commit_edits_after_seconds != seconds:
                change.replace(settings, _set_edits(data, seconds), blob_id(data))
        return tuple(map(str, missing))

    return write_to_folder(vault, plan).value


def _set_edits(data: bytes, seconds: int | None) -> bytes:
    """Return a vaultmem.yaml that says after how many seconds edits are committed."""
    if not seconds and b"commit_edits_after_seconds" not in data:
        return data
    text = set_line(data.decode("utf-8"), "commit_edits_after_seconds", seconds)
    parse_config(text)
    return text.encode("utf-8")


def _allow_leaks(vault: Vault, new_repository: bool) -> None:
    """Allow each place that keeps a file out of git, by a line of .gitleaksignore."""
    files = dict(read_all(vault.root, _read_kept_out(vault)))
    if new_repository:
        pending = find_pending(vault)
        files |= {path: file[1] for path, file in pending.files.items() if file}
    lines = make_allowances(find_leaks(vault, files))
    if not lines:
        return

    def plan(change: Change) -> None:
        path, new = PurePosixPath(IGNORE_NAME), "".join(f"{line}\n" for line in lines).encode()
        try:
            old = read_file(vault.root, path)
        except NoteNotFoundError:
            change.put(path, new)
        else:
            gap = b"" if not old or old.endswith(b"\n") else b"\n"
            change.replace(path, old + gap + new, blob_id(old))

    write_to_folder(vault, plan)


def _release(vault: Vault) -> tuple[str, ...]:
    """Keep out of git no more what looks like no credential any more, or is allowed; return it."""
    kept = _read_kept_out(vault)
    if not kept:
        return ()
    leaks = find_leaks(vault, dict(read_all(vault.root, kept)))
    free = tuple(path for path in kept if path not in leaks)
    prefix = vault.history.prefix
    change_kept_out(vault.history.git_folder, (), (f"{prefix}{path}" for path in free))
    return tuple(path for path in free if (vault.root / path).is_file())


def _keep_out(vault: Vault, skipped: Mapping[str, str]) -> None:
    """Keep out of git what the first commit left out because it looks like a credential."""
    paths = [path for path, why in skipped.items() if why.startswith(LEAK)]
    if paths:
        change_kept_out(vault.history.git_folder, paths, ())


def _read_kept_out(vault: Vault) -> list[str]:
    return read_kept_out(vault.history.git_folder, vault.history.prefix)


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
