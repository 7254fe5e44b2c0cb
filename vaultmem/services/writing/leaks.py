"""What looks like a credential in what is to be written or committed: one check for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.secrets.scan import ALLOW_MARK, SecretFinding, find_secrets, mask_secrets
from vaultmem.errors import RefusedError
from vaultmem.storage.git.commit_draft import File
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.secret_rules import find_in_texts

if TYPE_CHECKING:
    from pathlib import Path

    from vaultmem.config import Config
    from vaultmem.storage.journal import Author
    from vaultmem.vault import Vault

#: How to get on where something that looks like a credential is none, or has to be there.
HOW_TO_ALLOW = (
    "remove it, or allow it: `gitleaks:allow` on its line, PATH:RULE:LINE in .gitleaksignore, "
    "or the note under allow_secrets in vaultmem.yaml"
)

#: What was in a file before, None where there was none.
Before = Callable[[str], bytes | None]


def find_leaks(
    vault: Vault,
    files: Mapping[str, bytes | None],
    before: Before = lambda _: None,
    mark: str = ALLOW_MARK,
) -> dict[str, list[str]]:
    """Return, by path, where something looks like a credential and what like.

    What was there `before`, or in a file that goes now, is no leak: it has happened.
    """
    return find_leaks_in(vault.root, vault.config, files, before, mark)


def find_leaks_in(
    root: Path,
    config: Config,
    files: Mapping[str, bytes | None],
    before: Before = lambda _: None,
    mark: str = ALLOW_MARK,
) -> dict[str, list[str]]:
    """Do as `find_leaks` for a folder, under these settings."""
    looked = {
        path: decode_text(data).text
        for path, data in files.items()
        if data is not None and not config.allows_secrets(path)
    }

    @cache
    def read_gone() -> str:
        gone = (before(path) for path, data in files.items() if data is None)
        return "\n".join(decode_text(data).text for data in gone if data is not None)

    places: dict[str, list[str]] = {}
    all_found = find_in_texts(root, list(looked.items()), mark)
    for (path, text), found in zip(looked.items(), all_found, strict=True):
        shown = mask_secrets(path)
        if not found and shown == path:
            continue
        old = before(path)
        if shown != path and old is None:
            places.setdefault(path, []).append(f"{shown}: its name")
        known = "" if old is None else decode_text(old).text
        for each in found:
            secret = text[each.start : each.end]
            if not secret or (secret not in known and secret not in read_gone()):
                places.setdefault(path, []).append(f"{shown}:{each.line}: {each.rule}")
    return places


def make_allowances(leaks: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the lines of a .gitleaksignore that allow these places; a file's name has none."""
    found = []
    for path, places in leaks.items():
        for place in places:
            line, mark, rule = place.removeprefix(f"{path}:").partition(": ")
            found += [f"{path}:{rule}:{line}"] if mark and line.isdecimal() else []
    return found


def find_leaks_since(vault: Vault, files: Mapping[str, File], commit: str) -> dict[str, list[str]]:
    """Do as `find_leaks` for files of which `commit` has what was before ("" for none)."""

    def before(path: str) -> bytes | None:
        entry = find_entry(vault.history, commit, path) if commit else None
        return None if entry is None else vault.history.objects.read(entry.blob)[1]

    return find_leaks(vault, {path: file and file[1] for path, file in files.items()}, before)


def refuse_leaks(vault: Vault, files: Mapping[str, bytes | None], before: Before) -> None:
    """Write no file that brings in what looks like a credential; an agent's mark allows nothing.

    Raises:
        RefusedError: one does; the text says where, by which rule, and what to do.
    """
    found = find_leaks(vault, files, before, _choose_mark(vault))
    if places := [place for each in found.values() for place in each]:
        how = f", or {HOW_TO_ALLOW}" if vault.is_person else ""
        raise RefusedError(
            f"not written, this looks like a credential: {'; '.join(places)}. "
            f"Write where it is kept, not the value{how}"
        )


def refuse_named(author: Author, subject: str = "", body: Iterable[str] = ()) -> None:
    """Let nothing that looks like a credential get into a commit's message, nor into a name.

    Raises:
        RefusedError: it would.
    """
    if any(map(find_secrets, (author.agent, author.session, author.tool_call))):
        raise RefusedError("the name of the agent or session looks like a credential; rename it")
    for found in find_secrets("\n".join((subject, *body))):
        raise RefusedError(
            f"nothing was done: the message or reason looks like a credential ({found.rule}); "
            "reword it"
        )


def look_for_leaks(vault: Vault, path: str, text: str) -> list[SecretFinding]:
    """Return what looks like a credential in a text that is to be written as a note, or in it.

    For whoever can say better than `refuse_leaks` where it came from.
    """
    if vault.config.allows_secrets(path):
        return []
    return find_in_texts(vault.root, [(path, text)], _choose_mark(vault))[0]


def _choose_mark(vault: Vault) -> str:
    """Return what allows a line: an agent cannot allow itself one, which anybody could tell it."""
    return ALLOW_MARK if vault.is_person else ""
