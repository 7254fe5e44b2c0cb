"""Connect a client to a vault in its own settings, disconnect it, and install the skill."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.clients.agent_client import (
    CLIENTS,
    ENTRY,
    AgentClient,
    AutoMemory,
    Hooks,
    find_client,
    find_place,
)
from vaultmem.core.clients.auto_memory import choose_folder
from vaultmem.core.clients.client_settings import (
    add_entry,
    add_hooks,
    add_memory,
    find_entry,
    make_words,
    read_entry,
    remove_entry,
    remove_hooks,
    remove_memory,
)
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import RefusedError
from vaultmem.services.projects.folder_facts import read_facts
from vaultmem.services.projects.project_table import ensure_project
from vaultmem.storage.displaced_files import drop_asides
from vaultmem.storage.files import create_file, read_file, remove_file, replace_file
from vaultmem.storage.git.head import find_git_folder
from vaultmem.vault import Vault

#: Larger files (bytes) are not settings.
_MAX_BYTES = 64 * 1024 * 1024

#: The suffix of backups of settings, keys included, that earlier versions kept.
_COPY = re.compile(r"\.vaultmem-[0-9a-f]{12}(-new)?")

#: A change of a file's text (None: no file).
Edit = Callable[[str | None], str | None]

#: The changes of each file; an empty list only removes old backups.
Edits = dict[Path, list[Edit]]


class SettingsScope(NamedTuple):
    """The scope of settings: a project's folder, or the home of a user."""

    folder: Path
    is_project: bool = False
    environment: Mapping[str, str] = {}

    def find(self, owner: AgentClient | Hooks | AutoMemory) -> Path | None:
        """Return the file of a client's settings, None if it has none of this scope."""
        if self.is_project:
            place = str(self.folder / owner.project) if owner.project else ""
        else:
            place = find_place(owner.user, str(self.folder), sys.platform, self.environment)
        if not place:
            return None
        with_comments = Path(f"{place}c")  # An existing `name.jsonc` is preferred.
        is_there = with_comments.suffix == ".jsonc" and with_comments.is_file()
        return with_comments if is_there and not Path(place).exists() else Path(place)


class SettingsChange(NamedTuple):
    """The change of one file: "added", "changed", "removed" or "unchanged".

    `dropped` are backups from an earlier version, which are removed too.
    """

    path: str
    action: str
    dropped: tuple[str, ...] = ()


class ShownConnection(NamedTuple):
    """Text to add to a file, or at a place in a client's windows."""

    place: str
    text: str


class Connection(NamedTuple):
    """A client's settings file with a vault, or with a problem."""

    client: str
    path: str
    root: str
    problem: str = ""


class ClientMemoryScope(NamedTuple):
    """The settings scope of a client's own memory, and its project ("" for all)."""

    where: SettingsScope
    project: str = ""


def connect_client(
    name: str,
    root: Path,
    where: SettingsScope,
    with_hooks: bool = False,
    dry_run: bool = False,
    memory: ClientMemoryScope | None = None,
) -> list[SettingsChange]:
    """Write the vault's entry, and the hooks if wanted, into a client's settings.

    With `memory`, the client's own memory is then in a folder of the vault.

    Raises:
        RefusedError: the client has no such settings or hooks, or its file cannot be parsed.
    """
    client = find_client(name)
    words = make_words(client, find_command(), str(root))
    file = _settings_file(client, where)
    edits: Edits = {file: [lambda text: add_entry(client, str(file), text, words)]}
    hooks = _read_hooks(client) if with_hooks else client.hooks
    place = where.find(hooks) if hooks else None
    if with_hooks and place is None:
        raise RefusedError(f"{name}: it has no hooks of a project; use --user")
    if hooks and place:
        hook_edits: list[Edit] = [lambda text: add_hooks(client, hooks, text, words)]
        edits.setdefault(place, []).extend(hook_edits if with_hooks else [])
    if memory is not None:
        folder = root / choose_folder(name, memory.project)
        owner = _read_memory(client)
        place = memory.where.find(owner)
        add: Edit = lambda text: add_memory(owner, name, text, str(folder))  # noqa: E731
        edits.setdefault(place or file, []).append(add)
        if not dry_run:
            folder.mkdir(parents=True, exist_ok=True)
    return _apply(edits, where, dry_run)


def disconnect_client(
    name: str, where: SettingsScope, dry_run: bool = False, project: SettingsScope | None = None
) -> list[SettingsChange]:
    """Remove our entry and hooks from a client's settings; every other byte stays.

    Its own memory uses its former folder again, for the user and for a `project`.

    Raises:
        RefusedError: as `connect_client` does.
    """
    client = find_client(name)
    file = _settings_file(client, where)
    edits: Edits = {file: [lambda text: remove_entry(client, str(file), text) if text else text]}
    hooks = client.hooks
    place = where.find(hooks) if hooks else None
    if hooks and place:
        edits.setdefault(place, []).append(lambda text: remove_hooks(hooks, text) if text else text)
    memory = client.memory
    for each in (where, project) if memory and memory.key else ():
        place = each.find(memory) if each and memory else None
        if memory and place:
            edits.setdefault(place, []).append(
                lambda text: remove_memory(memory, name, text) if text else text
            )
    return _apply(edits, where, dry_run)


def show_entry(
    name: str, root: Path, where: SettingsScope, with_hooks: bool = False
) -> list[ShownConnection]:
    """Return a client's settings with only our entry.

    Raises:
        RefusedError: there is no such client, or it has no hooks.
    """
    client = find_client(name)
    words = make_words(client, find_command(), str(root))
    file = where.find(client)
    connections = [
        ShownConnection(str(file or client.paste), add_entry(client, str(file), None, words))
    ]
    if with_hooks:
        hooks = _read_hooks(client)
        place = where.find(hooks)
        connections.append(ShownConnection(str(place), add_hooks(client, hooks, None, words)))
    return connections


def list_installed(user: SettingsScope) -> list[str]:
    """Return the clients whose own folders or settings exist."""
    names = []
    for client in CLIENTS.values():
        files = [user.find(each) for each in (client, client.hooks) if each]
        if any(
            each and (each.exists() or (each.parent.is_dir() and each.parent != user.folder))
            for each in files
        ):
            names.append(client.name)
    return names


def list_connections(user: SettingsScope, project: SettingsScope) -> list[Connection]:
    """Return each client's settings that name a vault, with their problems."""
    connections = []
    for client in CLIENTS.values():
        places = {where.find(client) for where in (project, user)}
        for place in sorted(each for each in places if each):
            if (connection := _read_connection(client, place)) is not None:
                connections.append(connection)
    return connections


def find_command() -> list[str]:
    """Return the command that starts vaultmem: the installed script, else this Python."""
    script = Path(sys.executable).with_name("vaultmem.exe" if os.name == "nt" else "vaultmem")
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "vaultmem"]


def _read_hooks(client: AgentClient) -> Hooks:
    if client.hooks is None:
        raise RefusedError(f"{client.name}: no hooks are known for it; leave out --hooks")
    return client.hooks


def _read_memory(client: AgentClient) -> AutoMemory:
    if client.memory is None or not client.memory.key:
        raise RefusedError(
            f"{client.name}: its manual has no setting for the folder of its own memory; "
            "leave out --auto-memory"
        )
    return client.memory


def _settings_file(client: AgentClient, where: SettingsScope) -> Path:
    file = where.find(client)
    if client.paste:
        hint = f"`vaultmem connect {client.name} --print` shows what goes there"
        raise RefusedError(f"{client.name}: only you write to {client.paste}; {hint}")
    if file is None:
        scope, other = ("a project", "--user") if where.is_project else ("a user", "--project")
        raise RefusedError(f"{client.name}: it has no settings of {scope}; use {other}")
    return file


def _apply(edits: Edits, where: SettingsScope, dry_run: bool) -> list[SettingsChange]:
    """Change all files; errors are raised before anything is written."""
    changes = [_change(file, each, where, True) for file, each in edits.items()]
    if not dry_run:
        changes = [_change(file, each, where, False) for file, each in edits.items()]
    return [each for each in changes if edits[Path(each.path)] or each.dropped]


def _change(file: Path, edits: list[Edit], where: SettingsScope, dry_run: bool) -> SettingsChange:
    """Change one file at once. A symlink's target is changed; the target is never removed."""
    target = Path(os.path.realpath(file))
    old = new = _read(target)
    for edit in edits:
        try:
            new = edit(new)
        except RefusedError as error:
            raise RefusedError(f"{file}: {error}") from None
    if new is None and file.is_symlink():
        new = "" if target.suffix in {".toml", ".yaml"} else "{}\n"
    copies = tuple(str(each) for each in _list_copies(target))
    if not dry_run:
        _write(target, old, new, None if where.is_project else 0o600)
        for copy in copies:
            Path(copy).unlink(missing_ok=True)
    if new == old:
        return SettingsChange(str(file), "unchanged", copies)
    action = "added" if old is None else "removed" if new is None else "changed"
    return SettingsChange(str(file), action, copies)


def _list_copies(target: Path) -> Iterator[Path]:
    for each in sorted(target.parent.glob(f"{target.name}.vaultmem-*")):
        if _COPY.fullmatch(each.name.removeprefix(target.name)):
            yield each


def _read(target: Path) -> str | None:
    if not target.exists():
        return None
    try:
        return read_file(target.parent, PurePosixPath(target.name), _MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(f"{target}: not UTF-8; correct it by hand") from None


def _write(target: Path, old: str | None, new: str | None, mode: int | None) -> None:
    """Write a changed text; an existing file keeps its permissions."""
    name, folder = PurePosixPath(target.name), target.parent
    if new == old:
        return
    if old is None:
        folder.mkdir(parents=True, exist_ok=True)
        create_file(folder, name, (new or "").encode("utf-8"), mode)
        return
    old_blob = blob_id(old.encode("utf-8"))
    if new is None:
        remove_file(folder, name, old_blob, _MAX_BYTES)
    else:
        replace_file(folder, name, old_blob, new.encode("utf-8"), _MAX_BYTES)
    drop_asides(target)  # Outside a vault, no later process does this.


def _read_connection(client: AgentClient, file: Path) -> Connection | None:
    """Return the connection in a client's file; None if there is none."""
    try:
        text = _read(Path(os.path.realpath(file)))
        if ENTRY not in (text or ""):
            return None
        entry = find_entry(client, file.name, text)
        if entry is None:
            return None
        words = read_entry(client, entry)
        root = words[words.index("--vault") + 1]
    except (RefusedError, OSError, IndexError, ValueError) as error:
        return Connection(client.name, str(file), "", f"not understood ({error})")
    problem = "" if Path(root).is_dir() else "the vault is not there"
    if not Path(words[0]).is_file():
        problem = f"{words[0]} is not there; connect again"
    return Connection(client.name, str(file), root, problem)


# A client's own memory: its settings, and messages for the user about it.


def find_top(folder: Path) -> Path | None:
    """Return the work tree of a folder, None if it is in no repository."""
    git_folders = find_git_folder(folder)
    return git_folders[0] if git_folders else None


def choose_memory_place(vault: Vault, where: SettingsScope, is_user: bool) -> ClientMemoryScope:
    """Return the scope for a client's own memory: the project of the caller's folder, if any.

    A project gets its own folder, so that no other project reads its memories. Outside projects,
    and with `is_user`, all share one folder.

    Raises:
        RefusedError: a project's settings are wanted, and there is no repository.
    """
    folder = None if is_user else vault.here or Path.cwd()
    facts = read_facts(vault, folder) if folder else None
    top = find_top(folder) if folder and facts and facts.has_git else None
    if top is None:
        if where.is_project:
            raise RefusedError(f"{where.folder}: not a project's repository; use --user")
        return ClientMemoryScope(where)
    project = ensure_project(vault, top)
    return ClientMemoryScope(
        SettingsScope(top, is_project=True), project.name if project else top.name
    )


def describe_memory(client: AgentClient, root: Path, place: ClientMemoryScope | None) -> list[str]:
    """Return messages on how a client's own memory and the vault work together."""
    memory = client.memory
    if memory is None:
        return []
    own = f"{client.name} also has a memory of its own ({memory.place})"
    if place is not None:
        folder = root / choose_folder(client.name, place.project)
        lines = [f"Its own memory is now in {folder}; what is in {memory.place} stays there."]
        if not place.project:
            lines.append("All projects share it; run this in a project for a folder of its own.")
        return lines
    if not memory.key:
        return [f"{own}, which vaultmem does not read; both work side by side."]
    return [
        f"{own}, which vaultmem does not read.",
        f"`vaultmem connect {client.name} --auto-memory` makes a folder of the vault that memory.",
    ]


# Install the skill that teaches an agent this memory in the agent's folder for skills.

#: Below the client's own folder in the project's or the user's.
SKILL_PATH = PurePosixPath("skills/vaultmem/SKILL.md")


def read_skill() -> str:
    """Return the skill's text."""
    return (files("vaultmem.services.clients") / "SKILL.md").read_text(encoding="utf-8")


def install_skill(folder: Path, replace: bool = False) -> str:
    """Write the skill below a folder; return "added", "changed" or "unchanged".

    Raises:
        RefusedError: the file has another text, possibly a user's.
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
        RefusedError: it was changed.
    """
    if not (folder / SKILL_PATH).exists():
        return "unchanged"
    old = read_file(folder, SKILL_PATH)
    if old != read_skill().encode("utf-8"):
        raise RefusedError(f"{folder / SKILL_PATH}: was changed; remove it yourself")
    remove_file(folder, SKILL_PATH, blob_id(old))
    return "removed"
