"""Write the vault into a client's own settings, and take it out again byte for byte."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.clients.client import (
    CLIENTS,
    ENTRY,
    HOOKS,
    Client,
    ClientName,
    make_entry,
    make_hook,
)
from vaultmem.core.clients.jsonc import (
    append_item,
    read_jsonc,
    remove_items,
    remove_member,
    set_member,
)
from vaultmem.core.clients.toml_table import read_toml, remove_table, set_table
from vaultmem.errors import RefusedError
from vaultmem.storage.files import create_file, read_file, remove_file, replace_file

#: Settings larger than this (bytes) are nobody's settings.
_MAX_BYTES = 16 * 1024 * 1024

#: What our hooks have in common, by which they are found again.
_HOOK_MARK = " hook "


class SettingsChange(NamedTuple):
    """What happens to one file: "added", "changed", "removed" or "unchanged".

    `backup` is the file that has the bytes from before, empty if there is none.
    """

    path: str
    action: str
    backup: str = ""


class Connection(NamedTuple):
    """Whether a client's settings name a vault, and which one."""

    client: str
    path: str
    root: str
    problem: str = ""


def connect_client(
    name: ClientName,
    root: Path,
    folder: Path,
    is_project: bool,
    with_hooks: bool = False,
    dry_run: bool = False,
) -> list[SettingsChange]:
    """Write the vault's entry, and the hooks if wanted, into the settings below `folder`.

    `folder` is the project's, or the user's home.

    Raises:
        RefusedError: the client has no such settings or hooks, or its file cannot be understood.
    """
    client = CLIENTS[name]
    command = find_command()
    entry = make_entry(client, command, str(root))

    def add(text: str) -> str:
        if _is_toml(client):
            return set_table(text, (client.key, ENTRY), entry)
        return set_member(text, (client.key,), ENTRY, entry)

    changes = [_change(_settings_file(client, folder, is_project), client, add, dry_run)]
    if with_hooks:
        changes.append(_change(_hooks_file(client, folder), client, _adder(command, root), dry_run))
    return changes


def disconnect_client(
    name: ClientName, folder: Path, is_project: bool, dry_run: bool = False
) -> list[SettingsChange]:
    """Take our entry and hooks out; where nobody else changed the file, its old bytes come back."""
    client = CLIENTS[name]
    files = [_settings_file(client, folder, is_project)]
    if client.hooks:
        files.append(_hooks_file(client, folder))
    return [_change(file, client, None, dry_run) for file in files]


def list_connections(home: Path, project: Path) -> list[Connection]:
    """Return each client's settings that name a vault, and what is wrong with them."""
    found = []
    for client in CLIENTS.values():
        places = {
            str(folder / name)
            for folder, name in ((project, client.project), (home, client.user_file(sys.platform)))
            if name
        }
        for place in sorted(places):
            if (connection := _read_connection(client, Path(place))) is not None:
                found.append(connection)
    return found


def find_command() -> list[str]:
    """Return how to start vaultmem from anywhere: the installed script, else this Python."""
    script = Path(sys.executable).with_name("vaultmem.exe" if os.name == "nt" else "vaultmem")
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "vaultmem"]


def _adder(command: list[str], root: Path) -> Callable[[str], str]:
    def add(text: str) -> str:
        for event in HOOKS:
            text = append_item(text, ("hooks", event), make_hook(command, str(root), event))
        return text

    return add


def _settings_file(client: Client, folder: Path, is_project: bool) -> Path:
    name = client.project if is_project else client.user_file(sys.platform)
    if not name:
        raise RefusedError(f"{client.name}: it has no settings of a project; use --user")
    return folder / name


def _hooks_file(client: Client, folder: Path) -> Path:
    if not client.hooks:
        raise RefusedError(f"{client.name}: no hooks are known for it; leave out --hooks")
    return folder / client.hooks


def _is_toml(client: Client) -> bool:
    return client.project.endswith(".toml")


def _change(
    file: Path, client: Client, add: Callable[[str], str] | None, dry_run: bool
) -> SettingsChange:
    """Bring one file to what it shall be: as it was before us, and with our part if there is one.

    A link is followed, so that settings kept elsewhere stay there.
    """
    target = Path(os.path.realpath(file))
    old = _read(target)
    backup = _backup_of(target, old)
    clean = _restore(target, old, backup, client)
    new = clean if add is None else add((clean or b"").decode("utf-8")).encode("utf-8")
    if new == old:
        return SettingsChange(str(file), "unchanged")
    action = "added" if old is None else "removed" if add is None else "changed"
    if dry_run:
        return SettingsChange(str(file), action)
    kept = ""
    if add is not None and new is not None:
        kept = str(_keep(target, clean, new))
    _write(target, old, new)
    if backup is not None and str(backup) != kept:
        backup.unlink(missing_ok=True)
    return SettingsChange(str(file), action, kept if clean is not None else "")


def _restore(target: Path, old: bytes | None, backup: Path | None, client: Client) -> bytes | None:
    """Return the file's bytes without our part, None for no file."""
    if old is None:
        return None
    if backup is not None:
        return None if backup.name.endswith("-new") else backup.read_bytes()
    try:
        text = old.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(f"{target}: not UTF-8; correct it by hand") from None
    _check_ours(target, client, text)
    if target.suffix == ".toml":
        return remove_table(text, (client.key, ENTRY)).encode("utf-8")
    if not text.strip("\ufeff \t\r\n"):
        return old
    text = remove_member(text, (client.key,), ENTRY)
    for event in HOOKS if client.hooks and target.match(client.hooks) else ():
        text = remove_items(text, ("hooks", event), f"{_HOOK_MARK}{HOOKS[event]}")
    return text.encode("utf-8")


def _check_ours(target: Path, client: Client, text: str) -> None:
    """Leave an entry of our name alone that somebody else wrote: it could not be brought back.

    Raises:
        RefusedError: there is one.
    """
    blank = not text.strip("\ufeff \t\r\n")
    entry = None if blank else _find_entry(client, target, text)
    if entry is None:
        return
    given = entry.get("args") if isinstance(entry, dict) else None
    is_ours = isinstance(given, list) and {"mcp", "--vault", "--agent"} <= set(map(str, given))
    if not is_ours or not entry.keys() <= {"type", "command", "args"}:
        raise RefusedError(
            f'{target}: has a server "{ENTRY}" that somebody else wrote; rename or remove it first'
        )


def _find_entry(client: Client, file: Path, text: str) -> Any:
    """Return the entry of our name, None if there is none."""
    whole = read_toml(text) if file.suffix == ".toml" else read_jsonc(text).value
    servers = whole.get(client.key) if isinstance(whole, dict) else None
    return servers.get(ENTRY) if isinstance(servers, dict) else None


def _backup_of(target: Path, data: bytes | None) -> Path | None:
    """Return the backup that was made when the file came to have just these bytes."""
    if data is None:
        return None
    plain = _backup_path(target, data)
    for path in (plain, plain.with_name(plain.name + "-new")):
        if path.is_file():
            return path
    return None


def _keep(target: Path, before: bytes | None, after: bytes) -> Path:
    """Keep the bytes from before in a file next to it, named by the digest of those after."""
    path = _backup_path(target, after)
    if before is None:
        path = path.with_name(path.name + "-new")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        create_file(path.parent, PurePosixPath(path.name), before or b"")
    return path


def _backup_path(target: Path, after: bytes) -> Path:
    return target.with_name(f"{target.name}.vaultmem-{hashlib.sha256(after).hexdigest()[:12]}")


def _read(target: Path) -> bytes | None:
    if not target.exists():
        return None
    return read_file(target.parent, PurePosixPath(target.name), _MAX_BYTES)


def _write(target: Path, old: bytes | None, new: bytes | None) -> None:
    name = PurePosixPath(target.name)
    if new is None:
        if old is not None:
            remove_file(target.parent, name, blob_id(old))
    elif old is None:
        create_file(target.parent, name, new)
    else:
        replace_file(target.parent, name, blob_id(old), new)


def _read_connection(client: Client, file: Path) -> Connection | None:
    """Return what a client's file says of a vault; None if it says nothing."""
    try:
        data = _read(Path(os.path.realpath(file)))
        text = (data or b"").decode("utf-8", "replace")
        if ENTRY not in text:
            return None
        entry = _find_entry(client, file, text)
        if entry is None:
            return None
        arguments = list(entry["args"])
        root = str(arguments[arguments.index("--vault") + 1])
    except (RefusedError, OSError, AttributeError, TypeError, KeyError, ValueError) as error:
        return Connection(client.name, str(file), "", f"not understood ({error})")
    problem = "" if Path(root).is_dir() else "the vault is not there"
    if not Path(str(entry.get("command"))).is_file():
        problem = f"{entry.get('command')} is not there; connect again"
    return Connection(client.name, str(file), root, problem)
