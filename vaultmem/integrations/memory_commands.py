"""The six commands of Anthropic's memory tool (`memory_20250818`) on a vault.

`/memories` is the vault. Names without `.md` get it, because only notes are memories. Results have
the wording of the tool's own description, which the model expects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.text.paths import is_note_path, parse_note_path
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.changes.edit_notes import check_rewrite, check_text, edit_note, write_note
from vaultmem.services.memory.forget import forget_notes
from vaultmem.services.memory.rename import rename_note
from vaultmem.services.similarity.known import reject_quarantined
from vaultmem.services.similarity.similar import SimilarityQuery
from vaultmem.services.views.read_notes import read_note
from vaultmem.services.views.update_index import sync_vault, update_index_nonblocking
from vaultmem.vault import Vault

ROOT = "/memories"

_PATH_REMEDY = "Please provide a valid path."
_NUMBER_WIDTH = 6
_DEPTH = 2


def run_command(vault: Vault, arguments: Mapping[str, Any]) -> str:
    """Run one command and return its text; the index need not be up to date.

    Raises:
        VaultError: the command failed; the text is for the model.
    """
    name = str(arguments.get("command"))
    if name not in _COMMANDS:
        raise RefusedError(f"Unknown command: {name}. There are {', '.join(_COMMANDS)}.")
    command, required_keys = _COMMANDS[name]
    missing_keys = [key for key in required_keys if not isinstance(arguments.get(key), (str, int))]
    if missing_keys:
        raise RefusedError(f"The command {name} needs {', '.join(missing_keys)}.")
    (update_index_nonblocking if name == "view" else sync_vault)(vault)
    return command(vault, arguments)


def _view(vault: Vault, arguments: Mapping[str, Any]) -> str:
    path = _parse(arguments["path"])
    record = _find(vault, path)
    if record is not None:
        return _view_note(vault, record, arguments)
    records = _below(vault, path)
    if not records and path != PurePosixPath("."):
        raise NoteNotFoundError(f"The path {arguments['path']} does not exist. {_PATH_REMEDY}")
    return _view_folder(str(arguments["path"]).rstrip("/") or ROOT, path, records)


def _view_note(vault: Vault, record: NoteRecord, arguments: Mapping[str, Any]) -> str:
    lines = read_note(vault, PurePosixPath(record.path)).text.split("\n")
    first, last = 1, len(lines)
    span = arguments.get("view_range")
    if isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 2:
        first = max(1, int(span[0]))
        last = len(lines) if int(span[1]) == -1 else int(span[1])
    text = _number(lines[first - 1 : last], first)
    return f"Here's the content of {_name(record.path)} with line numbers:\n{text}"


def _view_folder(label: str, path: PurePosixPath, records: Sequence[NoteRecord]) -> str:
    """List a folder and its subfolders, two levels deep: size, then name."""
    sizes: dict[str, int] = {}
    for record in records:
        parts = PurePosixPath(record.path).relative_to(path).parts
        for depth in range(1, min(len(parts), _DEPTH) + 1):
            name = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[name] = sizes.get(name, 0) + record.tokens * 4
    rows = [f"{_size(sum(record.tokens * 4 for record in records))}\t{label}"]
    rows += [f"{_size(size)}\t{label}/{name}" for name, size in sorted(sizes.items())]
    head = f"Here're the files and directories up to 2 levels deep in {label}, "
    return f"{head}excluding hidden items:\n" + "\n".join(rows)


def _create(vault: Vault, arguments: Mapping[str, Any]) -> str:
    path = _with_suffix(_parse(arguments["path"]))
    text = str(arguments["file_text"])
    check_rewrite(path, None, text)
    if duplicate := reject_quarantined(
        vault, SimilarityQuery(parse_note(path, text.encode("utf-8")).body)
    ):
        raise RefusedError(
            f"{duplicate.path} states nearly the same, and is quarantined; nothing was written"
        )
    try:
        write_note(vault, path, text)
    except ConflictError:
        raise ConflictError(f"File {_name(path)} already exists") from None
    return f"File created successfully at: {_name(path)}"


def _str_replace(vault: Vault, arguments: Mapping[str, Any]) -> str:
    record = _need(vault, arguments["path"])
    old, new = str(arguments["old_str"]), str(arguments.get("new_str", ""))
    path = PurePosixPath(record.path)
    line = 0
    text = ""

    def change(note: Note) -> str:
        nonlocal line, text
        places = [n + 1 for n, part in enumerate(_starts(note.text, old)) for _ in range(part)]
        if not places:
            raise NoteNotFoundError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                f"{_name(path)}."
            )
        if len(places) > 1:
            line_numbers = ", ".join(map(str, places))
            raise ConflictError(  # The SDK's text.
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{line_numbers}. Please ensure it is unique"
            )
        line, text = places[0], note.text.replace(old, new)
        check_text(path, text)
        check_rewrite(path, note, text)
        return text

    edit_note(vault, path, change)
    first = max(1, line - 2)
    snippet = _number(text.split("\n")[first - 1 : line + 2], first)
    return (
        "The memory file has been edited. Here is the snippet showing the change "
        f"(with line numbers):\n{snippet}"
    )


def _insert(vault: Vault, arguments: Mapping[str, Any]) -> str:
    record = _need(vault, arguments["path"])
    position, new = arguments["insert_line"], str(arguments["insert_text"])
    path = PurePosixPath(record.path)

    def change(note: Note) -> str:
        lines = note.text.split("\n")
        count = len(lines) - (lines[-1] == "")
        if not isinstance(position, int) or not 0 <= position <= count:
            raise NoteNotFoundError(
                f"Invalid `insert_line` parameter: {position}. It should be within the range "
                f"[0, {count}]."
            )
        lines.insert(position, new.rstrip("\n"))
        text = "\n".join(lines)
        text += "\n" * (not text.endswith("\n"))
        check_text(path, text)
        check_rewrite(path, note, text)
        return text

    edit_note(vault, path, change)
    return f"The file {_name(path)} has been edited."


def _delete(vault: Vault, arguments: Mapping[str, Any]) -> str:
    records = _choose(vault, arguments["path"], "delete")
    forget_notes(vault, records)
    _remove_folders(vault, _parse(arguments["path"]), records)
    return f"Successfully deleted {arguments['path']}"


def _rename(vault: Vault, arguments: Mapping[str, Any]) -> str:
    old, new = _parse(arguments["old_path"]), _parse(arguments["new_path"])
    records = _choose(vault, arguments["old_path"], "rename")
    note_record = _find(vault, old)
    targets = {
        record.path: _with_suffix(new)
        if note_record is not None
        else new / PurePosixPath(record.path).relative_to(old)
        for record in records
    }
    existing = [target for target in targets.values() if _find(vault, target) is not None]
    if existing or (note_record is None and _below(vault, new)):
        raise ConflictError(f"The destination {arguments['new_path']} already exists")
    for path, target in targets.items():
        rename_note(vault, path, str(target))
    _remove_folders(vault, old, records)
    label = _name(targets[note_record.path]) if note_record is not None else arguments["new_path"]
    return f"Successfully renamed {arguments['old_path']} to {label}"


#: The function of each command, and its required fields.
_COMMANDS: dict[str, tuple[Callable[[Vault, Mapping[str, Any]], str], tuple[str, ...]]] = {
    "view": (_view, ("path",)),
    "create": (_create, ("path", "file_text")),
    "str_replace": (_str_replace, ("path", "old_str")),
    "insert": (_insert, ("path", "insert_line", "insert_text")),
    "delete": (_delete, ("path",)),
    "rename": (_rename, ("old_path", "new_path")),
}


def _parse(value: object) -> PurePosixPath:
    """Return a path below /memories as a path in the vault.

    Raises:
        RefusedError: it is not below /memories, in any encoding.
    """
    text = str(value)
    if not text.startswith(ROOT):
        raise RefusedError(f"Path must start with {ROOT}, got: {text}")
    for form in {text, unquote(text), unquote(unquote(text))}:
        parts = PurePosixPath(form).parts
        if parts[:2] != ("/", "memories") or ".." in form.replace("\\", "/").split("/"):
            raise RefusedError(f"Path {text} would escape {ROOT} directory")
    relative_path = text.removeprefix(ROOT).strip("/")
    return parse_note_path(relative_path) if relative_path else PurePosixPath(".")


def _find(vault: Vault, path: PurePosixPath) -> NoteRecord | None:
    """Return the note of a path, or of the path with `.md`."""
    names = {str(path), f"{path}.md"}
    records = {record.path: record for record in _visible(vault) if record.path in names}
    return records.get(str(path)) or records.get(f"{path}.md")


def _need(vault: Vault, value: object) -> NoteRecord:
    record = _find(vault, _parse(value))
    if record is not None:
        return record
    if _below(vault, _parse(value)):
        raise RefusedError(f"The path {value} is not a file.")
    raise NoteNotFoundError(f"The path {value} does not exist. {_PATH_REMEDY}")


def _choose(vault: Vault, value: object, verb: str) -> list[NoteRecord]:
    """Return the note of a path, or all in a folder, for deleting or renaming.

    Raises:
        RefusedError: it is the vault's root folder, or a note is pinned.
        NoteNotFoundError: there is no such path.
    """
    path = _parse(value)
    if path == PurePosixPath("."):
        raise RefusedError(f"Cannot {verb} the {ROOT} directory itself")
    note_record = _find(vault, path)
    records = [note_record] if note_record is not None else _below(vault, path)
    if not records:
        raise NoteNotFoundError(f"The path {value} does not exist")
    if pinned_paths := [record.path for record in records if record.pinned]:
        raise RefusedError(f"{_name(pinned_paths[0])} is pinned by its owner and is not {verb}d")
    return records


def _remove_folders(vault: Vault, top: PurePosixPath, records: Sequence[NoteRecord]) -> None:
    """Remove the folders of these notes, up to `top`, that are now empty."""
    folders = {each for record in records for each in PurePosixPath(record.path).parents}
    for folder in sorted(folders, key=lambda each: -len(each.parts)):
        if folder.is_relative_to(top):
            with contextlib.suppress(OSError):
                (vault.root / folder).rmdir()


def _below(vault: Vault, path: PurePosixPath) -> list[NoteRecord]:
    return [
        record
        for record in _visible(vault)
        if path == PurePosixPath(".") or PurePosixPath(record.path).is_relative_to(path)
    ]


def _visible(vault: Vault) -> list[NoteRecord]:
    return [record for record in vault.view.records() if record.state != NoteState.QUARANTINED]


def _with_suffix(path: PurePosixPath) -> PurePosixPath:
    return path if is_note_path(path) else path.with_name(f"{path.name}.md")


def _name(path: object) -> str:
    return f"{ROOT}/{path}"


def _starts(text: str, part: str) -> list[int]:
    """Return for each line of a text how many times `part` starts in it."""
    counts = [0] * (text.count("\n") + 1)
    position = text.find(part) if part else -1
    while position >= 0:
        counts[text.count("\n", 0, position)] += 1
        position = text.find(part, position + 1)
    return counts


def _number(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{n:>{_NUMBER_WIDTH}}\t{line}" for n, line in enumerate(lines, first))


def _size(count: int) -> str:
    return f"{count}B" if count < 1024 else f"{count / 1024:.1f}K".replace(".0K", "K")
