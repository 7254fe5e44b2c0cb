"""Create a vault in a folder: add missing files without changing existing ones."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple, Unpack

from vaultmem.config import CONFIG_NAME, parse_config, read_config
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.obsidian import EXCLUDED, ExclusionFilter
from vaultmem.core.secrets.rules import IGNORE_NAME
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.settings import set_line
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import NoteNotFoundError, SystemFailureError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport, commit_event
from vaultmem.services.changes.commit_parts import LEAK, Event
from vaultmem.services.changes.ownership import (
    HIDDEN_FILES,
    find_leaks_in,
    find_note_secrets,
    find_pending,
    make_allowances,
)
from vaultmem.services.changes.write import write_to_folder
from vaultmem.storage.displaced_files import is_leftover
from vaultmem.storage.files import MAX_FILE_BYTES, UnsafeFileError, find_max_bytes, read_file
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.runner import GitRunner, make_repository
from vaultmem.storage.git.setup import change_kept_out, read_kept_out
from vaultmem.storage.journal import Author
from vaultmem.storage.scan_files import (
    Scan,
    find_template_folder,
    read_obsidian,
    scan_vault,
)
from vaultmem.storage.user_files import find_package_folder
from vaultmem.vault import Vault, VaultSettings, open_vault

# Plan what `init` adds, commits and leaves out, without changing anything.

#: The package's folder with the files of a new vault, and in it the folder for Obsidian vaults. The
#: first name is also that of the folder of note templates in it.
_TEMPLATES, _OBSIDIAN = "templates", "obsidian"

#: Folders at the root that are local to this machine.
_LOCAL = ("media", "transcripts")

#: Files that identify a folder as a code project.
_PROJECT_FILES = (
    *("pyproject.toml", "setup.py", "manage.py", "package.json", "Cargo.toml", "go.mod"),
    *("pom.xml", "build.gradle", "CMakeLists.txt", "Makefile", "Gemfile", "composer.json"),
)

_PRIVATE = re.compile(
    r"(?i)\b(private?|diary|secrets?|passwords?|credentials|tagebuch|geheim|passwort)(?![a-z])"
    r"|\.(pem|key|p12|pfx|kdbx|ovpn|gpg)$|(^|/)id_(rsa|dsa|ecdsa|ed25519)$"
)
_KINDS = {
    "pictures": "jpg jpeg png gif webp heic tif tiff bmp svg psd",
    "videos": "mp4 mov mkv avi webm m4v",
    "recordings": "mp3 m4a wav flac ogg",
    "PDFs": "pdf",
}


#: Maximum characters of a line to show.
_LINE = 100


class InitPlan(NamedTuple):
    """The changes that `init` would make in the folder `root`; paths are relative to it.

    `repository` is the existing work tree. If it is None, a repository will be created, with
    `files` (`size` bytes in total) in its first commit. `private` are those files that have a
    private-looking name or are excluded in Obsidian. `credentials` are the places (path:line: rule)
    that look like a credential. `kept_out` are the files with them, which are not committed unless
    allowed. `omitted_counts` are the numbers of other files that are not committed, by reason.
    `suggests_edits` is true for an Obsidian vault, where a person's edits should be committed.
    """

    root: Path
    is_vault: bool
    repository: Path | None
    added: tuple[str, ...]
    files: tuple[str, ...] = ()
    size: int = 0
    private: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    kept_out: tuple[str, ...] = ()
    omitted_counts: Mapping[str, int] = MappingProxyType({})
    suggests_edits: bool = False


def plan_vault(folder: str | Path) -> InitPlan:
    """Return what `create_vault` would do to a folder, which might not exist.

    Raises:
        VaultError: its settings cannot be read, or git cannot list ignored files.
    """
    root = Path(folder).resolve()
    repository = find_git_folder(root)
    added_files = tuple(str(path) for path, _ in list_missing(root))
    is_vault = (root / CONFIG_NAME).is_file()
    plan = InitPlan(
        *(root, is_vault, repository[0] if repository else None, added_files),
        suggests_edits=read_obsidian(root).is_there,
    )
    if repository is None:
        return _plan_commit(plan) if root.is_dir() else plan
    return _plan_kept_out(plan, repository) if is_vault else plan


def allow_leaks(plan: InitPlan) -> InitPlan:
    """Return the plan with the files that contain credentials in the commit."""
    files = plan.files if plan.repository else tuple(sorted((*plan.files, *plan.kept_out)))
    size = plan.size + sum(_measure(plan.root / path) for path in set(files) - set(plan.files))
    return plan._replace(files=files, size=size, credentials=(), kept_out=())


def show_leaks(root: Path, places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each place (path:line: rule) with its line, in which the credential is masked.

    The line is "" if nothing in the line alone looks like a credential.
    """
    for place in places:
        path, _, number = place.rpartition(": ")[0].rpartition(":")
        data = dict(read_all(root, [path])).get(path, b"")
        lines = decode_text(data).text.splitlines()
        line = lines[int(number) - 1] if number.isdecimal() and int(number) <= len(lines) else ""
        masked_line = mask_secrets(line).strip()
        yield place, masked_line[:_LINE] if masked_line != line.strip() else ""


def find_project_file(root: Path) -> str:
    """Return the file that identifies a folder as a code project in git, or ""."""
    if find_git_folder(root) is None:
        return ""
    return next((name for name in _PROJECT_FILES if (root / name).is_file()), "")


def list_missing(root: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield each file that the vault lacks. A name that differs only in case counts as existing.

    Note templates are skipped if the templates folder has files, or in a code project.
    """
    settings = read_obsidian(root)
    own = find_template_folder(root, settings)
    has_templates = _has_files(root / own) or find_project_file(root)
    source = find_package_folder(_TEMPLATES)
    for file in sorted(each for each in source.rglob("*") if each.is_file()):
        path, data = PurePosixPath(file.relative_to(source).as_posix()), file.read_bytes()
        if path.parts[0] == _OBSIDIAN:
            if not settings.is_there:
                continue
            path, data = PurePosixPath(path.name), data.replace(b"{{templates}}", own.encode())
        elif path.parts[0] == _TEMPLATES:
            if has_templates:
                continue
            path = PurePosixPath(own, path.name)
        elif path.name == "gitignore":
            path = PurePosixPath(".gitignore")
        if not _exists(root, path):
            yield path, data


def _has_files(folder: Path) -> bool:
    """Return whether a folder has files other than leftovers of a killed command."""
    return folder.is_dir() and not all(is_leftover(each.name) for each in folder.iterdir())


def _exists(root: Path, path: PurePosixPath) -> bool:
    """Return whether the file, or a part of its path in other case (`Templates`), exists."""
    folder = root
    for part in path.parts:
        try:
            names = {entry.name.casefold(): entry.name for entry in folder.iterdir()}
        except (FileNotFoundError, NotADirectoryError):
            return False
        if part.casefold() not in names:
            return False
        if names[part.casefold()] != part:
            return True
        folder = folder / names[part.casefold()]
    return True


def _plan_commit(plan: InitPlan) -> InitPlan:
    """Add the contents of the first commit to the plan."""
    config = read_config(plan.root)
    ignored = config.ignores if config.ignore else None
    scan = scan_vault(plan.root, (ignored, None))
    sizes = {path: stat[0] for path, stat in (scan.notes | scan.others).items()}
    sizes |= {name: size for name in HIDDEN_FILES if (size := _measure(plan.root / name)) >= 0}
    by_git = _find_ignored(plan.root, list(sizes))
    limits = {path: find_max_bytes(path, config.attachments_max_mib) for path in sizes}
    fits = [path for path in sizes if sizes[path] <= limits[path] and path not in by_git]
    excluded = ExclusionFilter(read_obsidian(plan.root))
    leaks = find_leaks_in(plan.root, config, dict(read_all(plan.root, fits, limits)))
    files = sorted(set(fits) - leaks.keys())
    large = {path: limits[path] for path in sizes.keys() - set(fits) - by_git}
    return plan._replace(
        files=tuple(files),
        size=sum(sizes[path] for path in files),
        private=tuple(
            path for path in files if _PRIVATE.search(path) or excluded.why(path) == EXCLUDED
        ),
        credentials=tuple(place for places in leaks.values() for place in places),
        kept_out=tuple(sorted(leaks)),
        omitted_counts=_count_omitted_counts(plan.root, scan, sizes, by_git, large),
    )


def _plan_kept_out(plan: InitPlan, repository: tuple[Path, Path]) -> InitPlan:
    """Add the files kept out of git that still look like they contain a credential."""
    work_tree, git_folder = repository
    inside = plan.root.relative_to(work_tree).as_posix()
    kept_out = read_kept_out(git_folder, "" if inside == "." else f"{inside}/")
    data = dict(read_all(plan.root, kept_out))
    leaks = find_leaks_in(plan.root, read_config(plan.root), data) if data else {}
    places = tuple(place for group in leaks.values() for place in group)
    return plan._replace(credentials=places, kept_out=tuple(sorted(leaks)))


def read_all(
    root: Path, paths: Iterable[str], limits: Mapping[str, int] = MappingProxyType({})
) -> Iterator[tuple[str, bytes]]:
    """Yield the readable files with their bytes."""
    for path in paths:
        with contextlib.suppress(NoteNotFoundError, UnsafeFileError):
            yield path, read_file(root, PurePosixPath(path), limits.get(path, MAX_FILE_BYTES))


def _count_omitted_counts(
    root: Path, scan: Scan, sizes: dict[str, int], by_git: set[str], large: Mapping[str, int]
) -> dict[str, int]:
    counts = Counter(
        f"{_format_kind(path)} over {limit // 1024**2} MiB" for path, limit in large.items()
    )
    unsafe = (reason for path, reason in scan.unsafe.items() if path not in sizes)
    counts.update(reason.removeprefix("it is ") for reason in unsafe)
    counts["ignored by git"] = len(by_git)
    counts["hidden by name"] = len(scan.skipped.hidden)
    local_folders = (root / name for name in _LOCAL)
    counts["in media and transcripts"] = sum(
        len(names) for folder in local_folders for _, _, names in os.walk(folder)
    )
    return {reason: count for reason, count in counts.most_common() if count}


def _measure(file: Path) -> int:
    """Return the size of a regular file in bytes, or -1 if there is none."""
    return file.stat().st_size if file.is_file() and not file.is_symlink() else -1


def _format_kind(path: str) -> str:
    ending = path.rpartition(".")[2].lower()
    return next((kind for kind, each in _KINDS.items() if ending in each.split()), "files")


def _find_ignored(root: Path, paths: list[str]) -> set[str]:
    """Return the paths that git would ignore in a new repository, using a temporary one."""
    if not any(name == ".gitignore" for _, _, names in os.walk(root) for name in names):
        return set()
    with tempfile.TemporaryDirectory() as place:
        make_repository(Path(place))
        request = os.fsencode("".join(f"./{path}\0" for path in paths))
        command = ("--no-literal-pathspecs", "check-ignore", "-z", "--stdin", "--no-index")
        git = GitRunner(root, Path(place) / ".git")
        out = git.run(*command, stdin=request, fine=(0, 1))
    return {path.removeprefix("./") for path in out.split("\0") if path}


#: Marker file of a new repository without a commit.
_NEW_REPOSITORY_MARKER = "new-repository"

#: Seconds after the last save before edits are committed, if the owner enables it.
EDITS_AFTER_SECONDS = 600


class CreateResult(NamedTuple):
    """The result of `init`: added files, lines added to git's exclude file and config, commit.

    `kept_out` are files that are not committed because they look like they contain a credential.
    `released` are those that the next checkpoint will commit. `person_problem` reports the name
    used for a person's commits if git has no identity.
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
    """The owner's choices for a new vault.

    `allow_secrets` commits files that look like they contain a credential. `commit_edits` sets
    whether `watch` commits a person's edits; None keeps the setting in vaultmem.yaml.
    """

    allow_secrets: bool = False
    commit_edits: bool | None = None


def create_vault(
    folder: str | Path,
    options: CreateOptions = CreateOptions(),  # noqa: B008
    **settings: Unpack[VaultSettings],
) -> CreateResult:
    """Make `folder` a vault: a new folder, one inside a git repository, or an Obsidian vault.

    `settings` are those of `open_vault`. Existing files are not changed, except for settings that
    `options` set. A commit is made only in a repository that this call created. Promotions count in
    the new vault if the folder was empty, or if a person created it with its repository. An
    interrupted call is completed by the next one.

    Raises:
        VaultError: the folder cannot be created or written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemFailureError(f"{folder}: cannot be made ({error.strerror})") from error
    fresh = not any(name for name in folder.iterdir() if name.name != ".git")
    vault = open_vault(folder, **settings)
    marker = vault.state_folder / _NEW_REPOSITORY_MARKER
    is_resumed = marker.exists()
    new_repository = is_resumed or find_git_folder(vault.root) is None
    from vaultmem.storage.git.setup import install_driver
    from vaultmem.storage.git.vault_history import init_repository

    with vault.lock():
        if new_repository:
            marker.touch()
            init_repository(vault.root, is_resumed)
        had_ignore = (vault.root / ".gitignore").exists()
        added_files = add_missing(vault, options.commit_edits)
        excluded_lines = tuple(_add_excludes(vault)) if had_ignore else ()
        configured = tuple(install_driver(vault.history))
        if options.allow_secrets:
            _allow_leaks(vault, new_repository)
        released_files = _release(vault)
        report = CommitReport()
        if new_repository:
            author = Author(vault.author.agent)
            subject = "init: new vault" if fresh else "init: the notes that were here, and a vault"
            event = Event("init", subject, author, intent="observe", without_leaks=True)
            report = commit_event(vault, event)
            _ignore_secrets(vault, report.skipped)
            released_files = ()
        if fresh or (new_repository and vault.is_person):
            vault.trust.record({})
        marker.unlink(missing_ok=True)
    problem = vault.history.person().problem
    kept_out = tuple(_read_kept_out(vault))
    return CreateResult(
        *(vault, added_files, excluded_lines, configured, new_repository, report, problem),
        kept_out=kept_out,
        released=released_files,
    )


def add_missing(vault: Vault, commit_edits: bool | None = None) -> tuple[str, ...]:
    """Create each file that the vault lacks; return their paths.

    `commit_edits` is as in `CreateOptions`; it sets one line of an existing vaultmem.yaml.
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
    """Return a vaultmem.yaml with the seconds after which edits are committed."""
    if not seconds and b"commit_edits_after_seconds" not in data:
        return data
    text = set_line(data.decode("utf-8"), "commit_edits_after_seconds", seconds)
    parse_config(text)
    return text.encode("utf-8")


def _allow_leaks(vault: Vault, new_repository: bool) -> None:
    """Allow each place that keeps a file out of git, by a line in .gitleaksignore."""
    files = dict(read_all(vault.root, _read_kept_out(vault)))
    if new_repository:
        pending = find_pending(vault)
        files |= {path: file[1] for path, file in pending.files.items() if file}
    lines = make_allowances(find_note_secrets(vault, files))
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
    """Release files that no longer contain a credential, or are allowed; return them."""
    kept_out = _read_kept_out(vault)
    if not kept_out:
        return ()
    leaks = find_note_secrets(vault, dict(read_all(vault.root, kept_out)))
    free_paths = tuple(path for path in kept_out if path not in leaks)
    prefix = vault.history.prefix
    change_kept_out(vault.history.git_folder, (), (f"{prefix}{path}" for path in free_paths))
    return tuple(path for path in free_paths if (vault.root / path).is_file())


def _ignore_secrets(vault: Vault, skipped: Mapping[str, str]) -> None:
    """Keep files out of git that the first commit skipped because of credentials."""
    paths = [path for path, reason in skipped.items() if reason.startswith(LEAK)]
    if paths:
        change_kept_out(vault.history.git_folder, paths, ())


def _read_kept_out(vault: Vault) -> list[str]:
    return read_kept_out(vault.history.git_folder, vault.history.prefix)


def _add_excludes(vault: Vault) -> Iterator[str]:
    """Add the lines missing in the vault's .gitignore to the repository's exclude file."""
    from vaultmem.storage.git.setup import add_lines

    prefix = vault.history.prefix
    template_lines = [
        line
        for line in (find_package_folder("templates") / "gitignore").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    own_lines = (
        (vault.root / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    )
    missing_lines = [
        line.lstrip("/") for line in template_lines if not {line, line.lstrip("/")} & set(own_lines)
    ]
    file = vault.history.git.work_tree / vault.history.exclude_file()
    yield from add_lines(file, [f"/{prefix}{name}" for name in missing_lines])
