"""Projects: the code repositories of a vault's notes, and the table that lists them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.notes.properties import Property, read_plain_block
from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import RefusedError, VaultError

if TYPE_CHECKING:  # Queries read the table without importing the editor.
    from vaultmem.core.notes.edit_properties import PropertyValue

#: The file of the table, at the vault's root.
TABLE_NAME = "projects.yaml"

#: The property of a note that names its project.
PROPERTY = "project"

#: Values of `--project` that are not project names.
RESERVED = frozenset({"all", "global"})

_HEADER = """\
# The projects of this memory: code repositories, by root commit and remotes.
# `vaultmem projects rename OLD NEW` changes a name here and in the notes.
"""

_NAME = compile_later(r"[^\W_][\w.-]{0,59}")
_UNSAFE = compile_later(r"[^\w.-]+")
_COMMIT = compile_later(r"[0-9a-f]{40}|[0-9a-f]{64}")

# `scheme://[user[:password]@]host[:port]/path`, and git's short form `[user@]host:path`.
_URL = compile_later(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/@]*@)?(?P<host>[^/:]+)(?::\d*)?/(?P<path>.+)"
)
_SCP_URL = compile_later(r"(?:[^/@:]+@)?(?P<host>[^/:@]{2,}):(?P<path>[^:]+)")


class UnreadableTableError(VaultError):
    """The table of projects cannot be read, so the project of a folder is unknown."""


@dataclass(frozen=True)
class Project:
    """A project in the table.

    `root` is the full id of the repository's oldest root commit, "" if unknown. `remotes` are
    normalised (`host/path`). `paths` are the folders of a project without git.
    """

    name: str
    root: str = ""
    remotes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProjectTable:
    """All projects of a vault, in the table's order, with unique names."""

    projects: tuple[Project, ...] = ()

    def get(self, name: str) -> Project | None:
        """Return the project of a name, in any case, or None."""
        key = name.casefold()
        return next((each for each in self.projects if each.name.casefold() == key), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all projects."""
        return tuple(each.name for each in self.projects)


@dataclass(frozen=True)
class FolderFacts:
    """The facts about a folder: its path, and its repository's root commit and remotes.

    `root` is "" for a folder without git, a shallow clone and a repository without a commit.
    `path` is the root of the work tree, or the folder itself without git. `folder_name` is the name
    of the repository's main folder.
    """

    path: str
    has_git: bool = False
    root: str = ""
    remotes: tuple[str, ...] = ()
    folder_name: str = ""


def normalise_remote(url: str) -> str:
    """Return a remote's URL as `host/path`, the same for https and ssh.

    User, password, port and `.git` are removed. The result is "" for a local path.
    """
    text = url.strip()
    match = _URL.fullmatch(text) if "://" in text else _SCP_URL.fullmatch(text)
    if match is None or match.groupdict().get("scheme") == "file":
        return ""
    path = match["path"].strip("/").removesuffix(".git").strip("/")
    return f"{match['host'].lower()}/{path}" if path else ""


def match_project(table: ProjectTable, facts: FolderFacts) -> Project | None:
    """Return the project that a folder belongs to, or None.

    The same root commit means the same project, unless both have remotes and none in common: then
    one is a fork or was made from a template. An ssh alias of a host counts as that host. Without
    a common root commit, a common remote decides. A folder without both belongs to the project of
    its path.
    """
    related = [each for each in table.projects if facts.root and each.root == facts.root]
    for group in (related, table.projects):
        for each in group:
            if not set(each.remotes).isdisjoint(facts.remotes):
                return each
    for each in related:
        if not each.remotes or not facts.remotes or _has_alias(each.remotes, facts.remotes):
            return each
    return _match_path(table, facts)


def _has_alias(first: Iterable[str], second: Iterable[str]) -> bool:
    """Return whether two remotes differ only in the host, and one host is an ssh alias.

    An alias has no dot: `work/holm/harbour` for `github.com/holm/harbour`.
    """
    return any(
        path == other_path and not ("." in host and "." in other_host)
        for host, _, path in (each.partition("/") for each in first)
        for other_host, _, other_path in (each.partition("/") for each in second)
    )


def _match_path(table: ProjectTable, facts: FolderFacts) -> Project | None:
    """Return the project of a path; a folder without git can be below the project's folder."""
    place = PurePosixPath(facts.path)
    for folder in (place,) if facts.has_git else (place, *place.parents):
        for each in table.projects:
            if str(folder) in each.paths and not each.root:
                return each
    return None


def learn(project: Project, facts: FolderFacts) -> Project:
    """Return a project with its missing root commit and remotes added from the folder."""
    if not facts.has_git:
        return project
    learned = replace(
        project, root=project.root or facts.root, remotes=project.remotes or facts.remotes
    )
    return replace(learned, paths=()) if learned.root else learned


def make_project(table: ProjectTable, facts: FolderFacts, name: str = "") -> Project:
    """Return a new project for a folder, with a unique name."""
    paths = () if facts.root or facts.remotes else (facts.path,)
    chosen = name or _choose_name(facts, {each.casefold() for each in table.names})
    return Project(chosen, facts.root, facts.remotes, paths)


def _choose_name(facts: FolderFacts, names: Collection[str]) -> str:
    remote = facts.remotes[0].split("/") if facts.remotes else []
    plain = _clean(remote[-1] if remote else facts.folder_name) or "project"
    owner = _clean(remote[-2]) if len(remote) > 2 else ""
    candidates = [plain, *([f"{owner}-{plain}"] if owner else [])]
    numbered = (f"{plain}-{number}" for number in count(2))
    return next(each for each in _chain(candidates, numbered) if _is_free(each, names))


def _chain(first: Iterable[str], then: Iterable[str]) -> Iterator[str]:
    yield from first
    yield from then


def _is_free(name: str, names: Collection[str]) -> bool:
    return name.casefold() not in names and name.casefold() not in RESERVED


def _clean(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-._")[:40].rstrip("-._")


def check_name(name: str) -> str:
    """Return a name if it is valid for a project.

    Raises:
        RefusedError: it is reserved, too long, or has characters other than letters, digits, - _ .
    """
    if not _NAME.fullmatch(name) or name.casefold() in RESERVED:
        raise RefusedError(
            f'"{name}" cannot be a project\'s name; use at most 60 letters, digits, "-", "_" '
            'and ".", and not "all" or "global"'
        )
    return name


# The table as text: entries are changed one by one, all other lines stay.


class _Block:
    """The lines of an entry and its first line number."""

    def __init__(self, first: int, lines: list[str]) -> None:
        self.first = first
        self.lines = lines

    @property
    def plain(self) -> str:
        """The lines as a block of properties, without indent.

        Raises:
            UnreadableTableError: a line is not indented by two spaces.
        """
        dedented = [self.lines[0][2:]]
        for number, line in enumerate(self.lines[1:], self.first + 2):
            bare = line.strip()
            if bare and not bare.startswith("#") and not line.startswith("  "):
                raise _unreadable(number, "indent the lines of an entry by two spaces")
            dedented.append(line[2:] if bare and line.startswith("  ") else "\n")
        return "".join(dedented)


def parse_table(text: str) -> ProjectTable:
    """Return the table in a text.

    Raises:
        UnreadableTableError: it cannot be read; the error gives the line and the repair.
    """
    projects: list[Project] = []
    seen: set[str] = set()
    for block in _split(text)[1]:
        project = _read_entry(block)
        if project.name.casefold() in seen:
            raise _unreadable(block.first + 1, f'the name "{project.name}" is listed twice')
        seen.add(project.name.casefold())
        projects.append(project)
    return ProjectTable(tuple(projects))


def _split(text: str) -> tuple[list[str], list[_Block]]:
    """Return the lines before the first entry, and the entries."""
    head: list[str] = []
    blocks: list[_Block] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(keepends=True)):
        if line.startswith("- "):
            blocks.append(_Block(number, [line]))
        elif blocks:
            blocks[-1].lines.append(line)
        elif line.strip() and not line.startswith("#") and line.strip() != "---":
            raise _unreadable(number + 1, 'an entry begins with "- name: "')
        else:
            head.append(line)
    return head, blocks


def _read_entry(block: _Block) -> Project:
    values = {each.name: each for each in _read_properties(block)}
    name = _text(values.get("name"))
    if not _NAME.fullmatch(name) or name.casefold() in RESERVED:
        raise _unreadable(block.first + 1, f'"{name}" cannot be a project\'s name')
    root = _text(values.get("root"))
    if root and not _COMMIT.fullmatch(root):
        raise _unreadable(block.first + 1, f'root "{root}" is not the full id of a commit')
    return Project(name, root, _texts(values.get("remotes")), _texts(values.get("paths")))


def _read_properties(block: _Block) -> tuple[Property, ...]:
    plain = block.plain
    properties = read_plain_block(plain if plain.endswith("\n") else f"{plain}\n")
    if properties is not None:
        return properties
    from vaultmem.core.notes.yaml_block import UnreadableBlockError, read_yaml_block

    try:
        result = read_yaml_block(plain)
    except UnreadableBlockError as error:
        reason = str(error).replace("the frontmatter", "the entry")
        raise _unreadable(block.first + 1, reason) from None
    if result is None or result[1]:
        raise _unreadable(
            block.first + 1, "; ".join(result[1]) if result else "no `key: value` lines"
        )
    return result[0]


def _text(prop: Property | None) -> str:
    return prop.value if prop and isinstance(prop.value, str) and prop.kind != "null" else ""


def _texts(prop: Property | None) -> tuple[str, ...]:
    if prop is None or prop.kind in {"null", "map"}:
        return ()
    return prop.value if isinstance(prop.value, tuple) else (prop.value,)


def _unreadable(line: int, reason: str) -> UnreadableTableError:
    return UnreadableTableError(
        f"{TABLE_NAME}, line {line}: {reason}; correct it, or restore the file with "
        f"`git checkout -- {TABLE_NAME}`"
    )


def add_entry(text: str, project: Project) -> str:
    """Return the text of a table with an entry added at the end."""
    table = text or _HEADER
    gap = "" if table.endswith("\n") else "\n"
    return table + gap + _format_entry(project)


def _format_entry(project: Project) -> str:
    from vaultmem.core.notes.edit_properties import format_property

    values: dict[str, PropertyValue] = {
        "name": project.name,
        "root": project.root,
        "remotes": project.remotes,
        "paths": project.paths,
    }
    lines = [
        line for name, value in values.items() if value for line in format_property(name, value)
    ]
    return "".join(f"{'  ' if n else '- '}{line}\n" for n, line in enumerate(lines))


def change_entry(text: str, name: str, project: Project) -> str:
    """Return the text of a table with the entry `name` replaced by `project`.

    Only the lines of changed properties change.
    """
    from vaultmem.core.notes.edit_properties import remove_property, set_property

    head, blocks = _split(text)
    for block in blocks:
        old_project = _read_entry(block)
        if old_project.name != name:
            continue
        frontmatter = f"---\n{block.plain}---\n"
        for key in ("name", "root", "remotes", "paths"):
            if getattr(old_project, key) != getattr(project, key):
                value = getattr(project, key)
                frontmatter = (
                    set_property(frontmatter, key, value)
                    if value
                    else remove_property(frontmatter, key)
                )
        lines = frontmatter.removeprefix("---\n").removesuffix("---\n").splitlines(keepends=True)
        block.lines = [
            f"{'  ' if n else '- '}{line}" if line.strip() else line for n, line in enumerate(lines)
        ]
    return _join(head, blocks)


def remove_entry(text: str, name: str) -> str:
    """Return the text of a table without the entry `name`."""
    head, blocks = _split(text)
    return _join(head, [each for each in blocks if _read_entry(each).name != name])


def _join(head: list[str], blocks: list[_Block]) -> str:
    return "".join([*head, *(line for block in blocks for line in block.lines)])


def merge_tables(base: str, ours: str, theirs: str) -> str:
    """Return a table with the additions, removals and renames of both sides of a merge.

    Our entries come first. Entries of the same name and repository are combined. Another repository
    of the same name gets a unique name.

    Raises:
        UnreadableTableError: one of them cannot be read.
    """
    base_table, their_table = parse_table(base), parse_table(theirs)
    merged = ours
    for each in parse_table(ours).projects:
        if base_table.get(each.name) == each and their_table.get(each.name) is None:
            merged = remove_entry(merged, each.name)
    for each in their_table.projects:
        table = parse_table(merged)
        existing = table.get(each.name)
        if existing is not None and not _are_distinct(existing, each):
            merged = change_entry(merged, existing.name, _unite(existing, each))
        elif existing is not None:
            facts = FolderFacts("", True, each.root, each.remotes, each.name)
            merged = add_entry(merged, replace(make_project(table, facts), paths=each.paths))
        elif base_table.get(each.name) != each:
            merged = add_entry(merged, each)
    return merged


def _are_distinct(first: Project, second: Project) -> bool:
    """Return whether two entries describe two repositories."""
    has_two_roots = bool(first.root and second.root and first.root != second.root)
    if first.remotes and second.remotes and set(first.remotes).isdisjoint(second.remotes):
        is_same_root = first.root and first.root == second.root
        return not (is_same_root and _has_alias(first.remotes, second.remotes))
    return has_two_roots and not (first.remotes and second.remotes)


def _unite(first: Project, second: Project) -> Project:
    """Return a project with the facts of two entries."""
    return replace(
        first,
        root=first.root or second.root,
        remotes=tuple(dict.fromkeys((*first.remotes, *second.remotes))),
        paths=tuple(dict.fromkeys((*first.paths, *second.paths))),
    )


def join_projects(old: Project, new: Project) -> Project:
    """Return the combination of two entries, with the second one's name.

    Raises:
        RefusedError: they are two repositories.
    """
    if old.root and new.root and old.root != new.root:
        raise RefusedError(
            f"{old.name} and {new.name}: two repositories, so they stay two projects; "
            f"`vaultmem projects move NOTE --to {new.name}` moves notes"
        )
    return _unite(new, old)
