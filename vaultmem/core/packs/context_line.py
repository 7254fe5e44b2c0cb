"""What vaultmem.yaml says of generated packs: which further ones, and where one is kept too."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.paths import GENERATED, check_new_name, fold_name, parse_note_path
from vaultmem.errors import RefusedError

_LINE = re.compile(r"(?P<path>[^:]+):(?:\s+(?P<rest>.*))?", re.DOTALL)
_BUDGET = re.compile(r"--budget(?:[ =]+(?P<tokens>\S*)|$)\s*(?P<query>.*)", re.DOTALL)
_EXAMPLE = '"agents/DEPLOY.md: --budget 800 how do we deploy"'


class ContextLine(NamedTuple):
    """A generated pack: its file in the vault, its budget (None: the vault's), its question."""

    path: str
    budget: int | None
    query: str


def parse_contexts(texts: tuple[str, ...]) -> tuple[ContextLine, ...]:
    """Return the packs that the items of `contexts` describe.

    Raises:
        RefusedError: an item is not `PATH: [--budget N] QUERY`, or two have one path.
    """
    found: dict[str, ContextLine] = {}
    for text in texts:
        line = parse_context(text)
        name = fold_name(PurePosixPath(line.path))
        if name in found:
            raise RefusedError(f'"{line.path}" is there twice; give each pack a file of its own')
        found[name] = line
    return tuple(found.values())


def parse_context(text: str) -> ContextLine:
    """Return the pack that one item of `contexts` describes.

    Raises:
        RefusedError: it is not `PATH: [--budget N] QUERY`.
    """
    match = _LINE.fullmatch(text.strip())
    if match is None or "\n" in text.strip():
        raise RefusedError(f'"{text}" is not PATH: QUERY; write it in quotes, like {_EXAMPLE}')
    path = _parse_path(match["path"])
    query, tokens = (match["rest"] or "").strip(), ""
    if option := _BUDGET.fullmatch(query):
        tokens, query = option["tokens"] or "none", option["query"].strip()
    if tokens and not re.fullmatch(r"[1-9][0-9]{0,8}", tokens):
        raise RefusedError(f'"{path}" cannot have a budget of {tokens}; give a whole number')
    if query.startswith("--"):
        option_name = query.split()[0]
        raise RefusedError(f'"{path}" has an unknown option {option_name}; only --budget is known')
    return ContextLine(path, int(tokens) if tokens else None, query)


def check_keep_in(names: tuple[str, ...]) -> None:
    """Make sure that the items of `keep_in` can be names of files.

    Raises:
        RefusedError: one is empty, or holds a control character.
    """
    for name in names:
        if not name.strip() or not name.isprintable():
            raise RefusedError(
                f"{name!r} is not a file's name; name a file, such as ~/code/AGENTS.md"
            )


def _parse_path(text: str) -> str:
    path = parse_note_path(text.strip())
    if path.suffix.lower() != ".md":
        raise RefusedError(f'"{path}" does not end in .md; name a markdown file of the vault')
    if fold_name(path) in {name.casefold() for name in GENERATED}:
        raise RefusedError(f'"{path}" is made already; name another file')
    check_new_name(path)
    return str(path)
