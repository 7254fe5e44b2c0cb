"""Generated packs: their lines in vaultmem.yaml, and the managed block in a file."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.link_syntax import LinkKind, find_links
from vaultmem.core.text.paths import GENERATED, check_new_name, fold_name, parse_note_path
from vaultmem.errors import RefusedError

BEGIN = "<!-- vaultmem:begin -->"
END = "<!-- vaultmem:end -->"

_BOM = b"\xef\xbb\xbf"


def replace_block(data: bytes, text: str) -> bytes:
    """Return a file's bytes with `text` between the two marker lines; all else is unchanged.

    The text gets the line ending of the first marker's line.

    Raises:
        RefusedError: the file is not UTF-8, it does not have each marker line once and in order, or
            the text contains a marker line.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError("it is not UTF-8; save it as UTF-8") from None
    if any(line.strip() in {BEGIN, END} for line in text.splitlines()):
        raise RefusedError("the pack has a line that is a marker; nothing was written")
    lines = data.split(b"\n")
    begins, ends = _find_lines(lines, BEGIN), _find_lines(lines, END)
    if not begins or not ends:
        missing_marks = " and ".join(
            f'"{mark}"' for mark, numbers in ((BEGIN, begins), (END, ends)) if not numbers
        )
        raise RefusedError(f"it has no line {missing_marks}; add both lines where the pack belongs")
    if len(begins) > 1 or len(ends) > 1:
        repeated_mark = BEGIN if len(begins) > 1 else END
        raise RefusedError(f'it has the line "{repeated_mark}" more than once; leave one of each')
    if begins[0] > ends[0]:
        raise RefusedError(f'"{END}" comes before "{BEGIN}"; exchange the two lines')
    eol = b"\r\n" if lines[begins[0]].endswith(b"\r") else b"\n"
    body = text.rstrip("\n").encode("utf-8").replace(b"\n", eol) + eol
    before = b"\n".join(lines[: begins[0] + 1]) + b"\n"
    return before + body + b"\n".join(lines[ends[0] :])


def _find_lines(lines: list[bytes], mark: str) -> list[int]:
    """Return the numbers of the lines that contain only the marker."""
    marker = mark.encode()
    numbers = [number for number, line in enumerate(lines) if line.rstrip() == marker]
    if lines[0].removeprefix(_BOM).rstrip() == marker and 0 not in numbers:
        numbers.insert(0, 0)
    return numbers


#: Lines of a generated pack that differ each time: its source and its token usage.
_ACCOUNT = re.compile(rb"(?m)^(?:# Context  \(vault |<!-- vaultmem: ).*\n?")
_QUOTE = re.compile(r"> ?")


def says_the_same(old: bytes, new: bytes) -> bool:
    """Return whether two files are equal, ignoring the source and usage lines of packs."""
    return _ACCOUNT.sub(b"", old) == _ACCOUNT.sub(b"", new)


def write_plainly(pack: str) -> str:
    """Return a pack with links as plain text, so that its file links and embeds nothing.

    Code is unchanged, because it contains no links.
    """
    lines = pack.split("\n")
    quotes = [match[0] if (match := _QUOTE.match(line)) else "" for line in lines]
    text = "\n".join(line[len(quote) :] for line, quote in zip(lines, quotes, strict=True))
    parts, place = [], 0
    for link in find_links(text, read_frontmatter("")):
        is_wiki = link.kind is LinkKind.WIKILINK
        start = text.rfind("[[" if is_wiki else f"[{link.text}](", place, link.start)
        end = text.find("]]" if is_wiki else ")", link.end)
        name = f"{link.path}#{link.subpath}" if link.subpath else link.path
        label = f"{link.text} ({name})" if link.text not in {"", name} else name
        parts += [text[place : start - link.is_embed], label]
        place = end + (2 if is_wiki else 1)
    plain = "".join([*parts, text[place:]]).split("\n")
    return "\n".join(quote + line for quote, line in zip(quotes, plain, strict=True))


_LINE = re.compile(r"(?P<path>[^:]+):(?:\s+(?P<rest>.*))?", re.DOTALL)
_BUDGET = re.compile(r"--budget(?:[ =]+(?P<tokens>\S*)|$)\s*(?P<query>.*)", re.DOTALL)
_EXAMPLE = '"agents/DEPLOY.md: --budget 800 how do we deploy"'


class ContextLine(NamedTuple):
    """A generated pack: its file in the vault, its budget (None: the vault's), and its query."""

    path: str
    budget: int | None
    query: str


def parse_contexts(texts: tuple[str, ...]) -> tuple[ContextLine, ...]:
    """Return the packs that the items of `extra_packs` define.

    Raises:
        RefusedError: an item is not `PATH: [--budget N] QUERY`, or two have one path.
    """
    lines: dict[str, ContextLine] = {}
    for text in texts:
        line = parse_context(text)
        name = fold_name(PurePosixPath(line.path))
        if name in lines:
            raise RefusedError(f'"{line.path}" is there twice; give each pack a file of its own')
        lines[name] = line
    return tuple(lines.values())


def parse_context(text: str) -> ContextLine:
    """Return the pack that one item of `extra_packs` defines.

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


def check_context_file(name: str) -> None:
    """Check that `context_file` names a markdown file of the vault; its folder can be hidden.

    Raises:
        RefusedError: it does not.
    """
    path = parse_note_path(name)
    if path.suffix.lower() != ".md":
        raise RefusedError(f'"{name}" does not end in .md; name a markdown file of the vault')
    if str(path) not in GENERATED:
        check_new_name(PurePosixPath(*(part.lstrip(".") or part for part in path.parts)))


def check_keep_in(names: tuple[str, ...]) -> None:
    """Check that the items of `inject_context_into` are valid file names.

    Raises:
        RefusedError: one is empty, or contains a control character.
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


@lru_cache(maxsize=8)
def list_paths(
    contexts: tuple[str, ...], inject_context_into: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Return the files of `extra_packs`, and those of `inject_context_into`, as paths."""
    paths = (PurePosixPath(each).as_posix() for each in inject_context_into)
    return tuple(line.path for line in parse_contexts(contexts)), tuple(paths)
