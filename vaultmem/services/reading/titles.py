"""Notes by what people call them besides their paths: titles and aliases, and names nearly so."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import PurePosixPath

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.notes.record import has_tag
from vaultmem.core.suggest import ask_meant
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault


def find_titled(vault: Vault, name: str) -> list[str]:
    """Return the paths of the notes of this title or alias, whatever the case of ASCII letters."""
    names = list(dict.fromkeys(unicodedata.normalize(f, name.strip()) for f in ("NFC", "NFD")))
    by_alias = ", ".join(map(str, LinkStore(vault.state).aliases_among(names)))
    marks = ", ".join("?" * len(names))
    where = f"d.title COLLATE NOCASE IN ({marks}) OR d.id IN ({by_alias})"
    return sorted(set(vault.view.paths(where, names).values()))


def tell_unknown(vault: Vault, name: str) -> str:
    """Return that no note has a name, with those that may be meant."""
    paths = vault.view.paths()
    stems = Counter(PurePosixPath(path).stem for path in paths.values())
    known: dict[str, str] = {}
    for document, names in _list_names(vault).items():
        if path := paths.get(document):
            stem = PurePosixPath(path).stem
            shown = stem if stems[stem] == 1 else path
            known |= dict.fromkeys((*names, stem, path), shown)
    wanted = name if name in known else PurePosixPath(name).stem
    return f'no note is called "{name}"' + ask_meant(wanted, known, "; see `vaultmem list`")


def _list_names(vault: Vault) -> dict[int, list[str]]:
    names = {record.document: [record.title] for record in vault.view.records()}
    for document, aliases in LinkStore(vault.state).aliases().items():
        names.get(document, []).extend(aliases)
    return names


def tell_unmatched(vault: Vault, wanted: NoteFilter) -> list[str]:
    """Return which tags and contexts of a filter no note has, with those that may be meant."""
    if not (wanted.tags or wanted.context):
        return []
    records = vault.view.records()
    tags = dict.fromkeys(tag for record in records for tag in record.tags)
    contexts = dict.fromkeys(record.context for record in records if record.context)
    told = [
        f'no note has the tag "{tag}"{ask_meant(tag, [*tags])}'
        for tag in wanted.tags
        if not has_tag(tuple(tags), tag)
    ]
    inside = f"{wanted.context}/"
    if wanted.context and not any(f"{each}/".startswith(inside) for each in contexts):
        near = ask_meant(wanted.context, [*contexts])
        told.append(f'no note is of the context "{wanted.context}"{near}')
    return told
