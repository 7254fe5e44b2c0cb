"""Completions for a shell: notes, headings and other values of a vault.

They are read from existing data, without indexing, writing or waiting. On an error, nothing is
offered. A parameter's metavar determines the type of its values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from vaultmem.cli.addresses import NOTES, PathResolver, format_values
from vaultmem.environment import current_environment, current_folder
from vaultmem.storage.git.head import find_git_folder, read_refs
from vaultmem.storage.state import query_state
from vaultmem.storage.vault_id import make_key
from vaultmem.vault import find_user_folders

#: Maximum number of completions, and bytes of a note searched for headings.
_MAX_COMPLETIONS, _BYTES = 300, 1024 * 1024

_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)? *\r?$", re.MULTILINE)

#: Characters that a shell does not read as a part of a word.
_SPECIAL = re.compile(r"([^\w@%+=:,./#-])")


def offer_values(ctx: Any, param: Any) -> None:
    """Add a completion to a parameter if the type of its values is known."""
    if offer := _find_offer(ctx, param):

        def complete(ctx: Any, incomplete: str) -> list[Any]:
            from typer._click.shell_completion import CompletionItem

            try:
                offered = offer(_Asked(ctx), incomplete)
                names = (each for each in offered if each.startswith(incomplete))
                return [
                    CompletionItem(_quote(each))
                    for each in list(dict.fromkeys(names))[:_MAX_COMPLETIONS]
                ]
            except Exception:  # noqa: BLE001 - no errors while the user types.
                return []

        param.shell_complete = complete


class _Asked:
    """The vault for completions: the one in the preceding words, or the one around."""

    def __init__(self, ctx: Any) -> None:
        self._vault = ctx.params.get("vault") or ""
        self.folders = find_user_folders(current_environment())
        self.command = ctx.command.name

    @cached_property
    def root(self) -> Path:
        from vaultmem.cli.opening import find_named_root

        return find_named_root(self._vault)

    @property
    def place(self) -> PathResolver:
        return PathResolver(self.root, current_folder())

    @property
    def key(self) -> str:
        return make_key(self.root)

    def query(self, sql: str) -> list[str]:
        """Return the first column of a query on the vault's database."""
        rows = query_state(self.folders.state / "vaults" / self.key, sql)
        return [row[0] for row in rows]


_Offer = Callable[[_Asked, str], Iterable[str]]


def _offer_notes(request: _Asked, word: str) -> Iterable[str]:
    """Return note paths from the current folder or the root, and names; headings after `#`."""
    if "#" in word:
        name = word.partition("#")[0]
        return [f"{name}#{each}" for each in _list_headings(request, name)]
    folder = current_folder()
    names = [*_list_folder(folder, word, request.root)]
    if not names:
        names = [*_list_folder(request.root, word, request.root)]
    if word and "/" not in word:
        paths = request.query("SELECT path FROM view_documents WHERE view = 0 ORDER BY path")
        names += [Path(path).stem for path in paths]
    return names


def _list_folder(base: str | Path, word: str, root: Path) -> Iterable[str]:
    """Return the notes and folders that start with `word`; a single folder is opened."""
    before, _, prefix = word.rpartition("/")
    lead = f"{before}/" if "/" in word else ""
    folder = os.path.realpath(os.path.join(base, lead))
    if not (f"{folder}/".startswith(f"{root}/") and os.path.isdir(folder)):
        return []
    names = []
    for entry in os.scandir(folder):
        if not entry.name.startswith(prefix) or entry.name[0] in ".~":
            continue
        if entry.is_dir():
            names.append(f"{lead}{entry.name}/")
        elif entry.name.lower().endswith(".md"):
            names.append(lead + entry.name)
    if len(names) == 1 and names[0].endswith("/"):  # Otherwise the shell would end the word.
        return [*_list_folder(base, names[0], root)] or names
    return sorted(names)


def _list_headings(request: _Asked, name: str) -> list[str]:
    path = request.place.find(name)
    if path is None:
        paths = request.query("SELECT path FROM view_documents WHERE view = 0")
        path = next(
            each for each in (name, f"{name}.md", *paths) if _is_called(request, each, name)
        )
    with open(request.root / path, encoding="utf-8", errors="replace") as file:
        return _HEADING.findall(file.read(_BYTES))


def _is_called(request: _Asked, path: str, name: str) -> bool:
    return (request.root / path).is_file() and f"/{path}".endswith((f"/{name}.md", f"/{name}"))


def _offer_inside(folder: str) -> _Offer:
    def offer(request: _Asked, word: str) -> Iterable[str]:
        names = sorted(os.listdir(request.root / folder), reverse=True)
        return [name.removesuffix(".md") for name in names if name[0] != "."]

    return offer


def _offer_tags(request: _Asked, word: str) -> Iterable[str]:
    return request.query(
        "SELECT DISTINCT j.value FROM view_documents v JOIN documents d ON d.id = v.document, "
        "json_each(d.tags) j WHERE v.view = 0 ORDER BY j.value"
    )


def _offer_contexts(request: _Asked, word: str) -> Iterable[str]:
    return request.query(
        "SELECT DISTINCT d.context FROM view_documents v JOIN documents d ON d.id = v.document "
        "WHERE v.view = 0 AND d.context <> '' ORDER BY d.context"
    )


def _offer_refs(request: _Asked, word: str) -> Iterable[str]:
    before, mark, _ = word.rpartition("..")
    git_folders = find_git_folder(request.root)
    refs = (git_folders and read_refs(git_folders[1])) or {}
    full_names = (ref for ref in refs if ref.startswith(("refs/heads/", "refs/tags/")))
    names = sorted({ref.split("/", 2)[2] for ref in full_names})
    return [before + mark + name for name in ("HEAD", *names)]


def _offer_receipts(request: _Asked, word: str) -> Iterable[str]:
    folder = request.folders.data / "receipts" / request.key
    return sorted((name[:-5] for name in os.listdir(folder) if name[-5:] == ".json"), reverse=True)


def _offer_kinds(request: _Asked, word: str) -> Iterable[str]:
    if request.command == "import":
        from vaultmem.core.imports.export_formats import KINDS

        return ("archive", *KINDS)
    from vaultmem.core.lifecycle import NoteKind

    return [each.value for each in NoteKind]


def _offer_states(request: _Asked, word: str) -> Iterable[str]:
    from vaultmem.core.lifecycle import NoteState

    return [each.value for each in NoteState]


def _offer_settings(request: _Asked, word: str) -> Iterable[str]:
    from vaultmem.config import Config

    return [f"{name}=" for name in Config._fields]


_OFFERS: Mapping[str, _Offer] = {
    **dict.fromkeys(NOTES, _offer_notes),
    **dict.fromkeys(("REF", "BRANCH", "COMMIT", "WHEN", "A", "B", "A..B", "TO"), _offer_refs),
    "KIND": _offer_kinds,
    "STATE": _offer_states,
    "TAG": _offer_tags,
    "TASK": _offer_inside("tasks"),
    "SESSION": _offer_inside("sessions"),
    "SOURCE": _offer_inside("primed"),
    "RECEIPT": _offer_receipts,
    "KEY=VALUE": _offer_settings,
}


def _find_offer(ctx: Any, param: Any) -> _Offer | None:
    """Return the completion of a parameter, None if the shell completes it better."""
    kind, command = format_values(param), ctx.command.name
    if kind == "NAME":
        kind_name = {"context": "CONTEXT", "source": "SOURCE"}.get(param.name, "")
        kind = "BRANCH" if command in {"branch", "switch"} else kind_name
        return _offer_contexts if kind == "CONTEXT" else _OFFERS.get(kind)
    if kind == "ID":
        is_session = not (param.name.endswith("agent") or param.opts == ["--id"])
        return _OFFERS["SESSION"] if is_session and command != "review" else None
    if kind == "KIND" and command == "review":
        return None
    if kind == "CLIENT":
        from vaultmem.core.clients.agent_client import CLIENTS

        return lambda request, word: CLIENTS
    if kind == "DIR" and param.name == "vault":
        return _offer_vaults
    return _OFFERS.get(kind)


def _offer_vaults(request: _Asked, word: str) -> Iterable[str]:
    from vaultmem.storage.user_files import read_vaults

    return read_vaults(request.folders.config, anyway=True)


def _quote(word: str) -> str:
    """Return a word quoted for bash; other shells quote completions themselves."""
    is_bash = os.environ.get("_VAULTMEM_COMPLETE", "").endswith("bash")
    return _SPECIAL.sub(r"\\\1", word) if is_bash else word
