"""Which file a link means and where in it, as Obsidian finds it, and how such a link is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from vaultmem.core.links.link import Link, LinkKind, encode_destination
from vaultmem.core.paths import fold

#: A name with one of these cannot be written as a wikilink.
UNLINKABLE = frozenset("#^[]|")


class Names:
    """The paths of a vault's files and the notes' aliases, ready to be looked up."""

    def __init__(
        self, paths: Iterable[str], aliases: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        for path in paths:
            folded = fold(path)
            self._by_name.setdefault(folded.rpartition("/")[2], []).append((folded, path))
        self._aliases: dict[str, list[tuple[str, str]]] = {}
        for path, names in (aliases or {}).items():
            for name in names:
                self._aliases.setdefault(fold(name.strip()), []).append((fold(path), path))

    def find(self, link: Link, source: str) -> str | None:
        """Return the path that a link in the note `source` means, None if there is no such file."""
        if not link.path:
            return source
        if link.kind is LinkKind.PATH:
            return self._find_exact(fold(link.path), link.path)
        return self.resolve(link.path, source)

    def resolve(self, target: str, source: str) -> str | None:
        """Return what a link's path means in the note `source`."""
        wanted = fold(target)
        folder = fold(source).rpartition("/")[0]
        for name, written in ((wanted, target), (f"{wanted}.md", f"{target}.md")):
            if "." in name.rpartition("/")[2] and (found := self._look_up(name, written, folder)):
                return found
        return _choose(self._aliases.get(wanted, []), folder, "")

    def is_alone(self, path: str) -> bool:
        """Tell whether no other file has the name of this one."""
        return len(self._by_name.get(fold(path).rpartition("/")[2], [])) <= 1

    def _look_up(self, name: str, written: str, folder: str) -> str | None:
        if name.startswith(("./", "../")):
            joined = _join(folder, name)
            return None if joined is None else self._find_exact(joined, "")
        if name.startswith("/"):
            return self._find_exact(name[1:], written[1:])
        if exact := self._find_exact(name, written):
            return exact
        ending = f"/{name}"
        candidates = self._by_name.get(name.rpartition("/")[2], [])
        return _choose([each for each in candidates if each[0].endswith(ending)], folder, name)

    def _find_exact(self, name: str, written: str) -> str | None:
        """Return the file at a path; of twins that differ in case, the one as written."""
        candidates = self._by_name.get(name.rpartition("/")[2], [])
        found = sorted(path for folded, path in candidates if folded == name)
        return written if written in found else found[0] if found else None


def spell(link: Link, target: str, source: str, names: Names) -> str | None:
    """Return a link's path as it is to be written so that it means `target` in `source`.

    The way it was written is kept: relative, from the root, with folders, or the bare name, with
    or without `.md`. None: no path that this kind of link can hold means the target.
    """
    has_ending = link.path.lower().endswith(".md") or not target.lower().endswith(".md")
    whole = target if has_ending else target[:-3]
    bare = whole.rpartition("/")[2]
    if link.kind is LinkKind.PATH:
        return target
    if link.path.startswith(("./", "../")):
        wanted = [_relative(whole, source), whole]
    elif link.path.startswith("/"):
        wanted = [f"/{whole}", whole]
    elif "/" in link.path:
        wanted = [whole]
    else:
        wanted = [bare, whole]
    for path in (*wanted, target):
        if link.kind is LinkKind.WIKILINK and UNLINKABLE & set(path):
            continue
        if names.resolve(path, source) == target:
            return encode_destination(path) if link.kind is LinkKind.MARKDOWN else path
    return None


def spell_new(target: str, source: str, names: Names, *, is_relative: bool) -> str:
    """Return the path of a new link to a note, without its ending, as Obsidian writes it.

    It is the bare name where no other file has that, else the whole path; or the way from the
    folder of `source`, without a leading `./`. What would mean another file is the whole path.
    """
    whole = target.removesuffix(".md")
    if is_relative:
        written = _relative(whole, source).removeprefix("./")
    else:
        written = whole.rpartition("/")[2] if names.is_alone(target) else whole
    return written if names.resolve(written, source) == target else whole


def _choose(candidates: list[tuple[str, str]], folder: str, name: str) -> str | None:
    """Return the best of these (folded, path): own folder, then shortest, then alphabet."""
    if not candidates:
        return None
    own = f"{folder}/{name}" if folder else name
    best = min(
        candidates,
        key=lambda each: (
            each[0] != own if name else each[0].rpartition("/")[0] != folder,
            len(each[1]),
            each[1],
        ),
    )
    return best[1]


def _join(folder: str, name: str) -> str | None:
    """Return where a relative path leads, None if out of the vault."""
    parts = folder.split("/") if folder else []
    for part in name.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in {".", ""}:
            parts.append(part)
    return "/".join(parts)


def _relative(target: str, source: str) -> str:
    here, there = source.split("/")[:-1], target.split("/")
    shared = 0
    while shared < min(len(here), len(there) - 1) and here[shared] == there[shared]:
        shared += 1
    up = [".."] * (len(here) - shared) or ["."]
    return "/".join([*up, *there[shared:]])


#: The name of a block, at its end.
BLOCK_NAME = re.compile(r"(?:^|(?<=\s))\^([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE)


class Place(Protocol):
    """What a section has to tell."""

    @property
    def heading(self) -> str:
        """Its heading, "" where it has none."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The headings above it, outermost first."""

    @property
    def start(self) -> int:
        """Where its text begins in the note's."""

    @property
    def end(self) -> int:
        """Where its text ends."""


S = TypeVar("S", bound=Place)


def find_place(sections: Sequence[S], subpath: str, text: str) -> S | None:
    """Return the section that a link's subpath means, None if there is none.

    Without a subpath it is the first section. A heading with no text of its own leads to the
    first section below it. `text` is the note's; blocks are looked for in it.
    """
    if not subpath:
        return sections[0] if sections else None
    if subpath.startswith("^"):
        wanted = subpath[1:].strip().casefold()
        for match in BLOCK_NAME.finditer(text):
            if match[1].casefold() == wanted:
                inside = (s for s in sections if s.start <= match.start() <= s.end)
                return next(inside, None)
        return None
    names = [name for part in subpath.split("#") if (name := fold_heading(part))]
    for section in sections if names else ():
        if _matches(section, names):
            return section
    return None


def _matches(section: Place, names: list[str]) -> bool:
    """Tell whether the wanted headings are among a section's, in their order."""
    line = [fold_heading(name) for name in (*section.parents, section.heading)]
    rest = iter(line)
    return all(name in rest for name in names)


def fold_heading(text: str) -> str:
    """Return a heading's words, by which links find it."""
    return " ".join(re.findall(r"\w+", text)).casefold()
