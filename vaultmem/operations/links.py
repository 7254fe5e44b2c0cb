"""Operations on links between notes: links, backlinks, broken links, orphans, repair, mv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    Arg,
    FrontEnd,
    Line,
    Tag,
    VersionScope,
    declare,
    word,
)
from vaultmem.operations.lines import commit_lines
from vaultmem.operations.note_changes import change
from vaultmem.operations.note_data import commits_json
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.core.notes.rewrite_links import LinkEdit
    from vaultmem.services.memory.rename import Rename, Repair
    from vaultmem.services.search.link_walk import FoundLink
    from vaultmem.vault import Vault

_FOR_PEOPLE = {FrontEnd.MCP: "an agent follows links by read_note; a pack names what is near"}


LinkedNote = Annotated[
    str, word("The note; without it, all broken links are listed.", 1, metavar="PATH")
]


class NoteLinks(NamedTuple):
    """A note's links, or the links to it."""

    path: str
    links: Sequence[FoundLink]


class RepairResult(NamedTuple):
    """The repaired links, or with `is_dry` those to repair."""

    repair: Repair
    is_dry: bool


class RenameResult(NamedTuple):
    """The renamed note, or with `is_dry` the one to rename."""

    rename: Rename
    is_dry: bool


def list_links(vault: Vault, path: LinkedNote) -> NoteLinks:
    """List what a note links to; what leads nowhere is marked."""
    from vaultmem.services.search.link_walk import list_links
    from vaultmem.services.views.read_notes import resolve_whole

    path = str(resolve_whole(vault, path))
    return NoteLinks(path, list_links(vault, path))


def _links_data(result: NoteLinks) -> dict[str, Any]:
    return {"path": result.path, "links": list(map(link_data, result.links))}


def _links_lines(result: NoteLinks, _: Any) -> Iterator[Line]:
    for each in result.links:
        target = "" if each.target is None else f"{each.target}{_subpath(each)}"
        missing = f"no such {each.missing}" if each.missing else ""
        text = f"{_as_written(each)}  {target}  {missing}".rstrip()
        yield Line(f"{each.link.line:>4}  ", "dim", text)
    broken = sum(bool(each.missing) for each in result.links)
    yield Line(f"{pluralize(len(result.links), 'link')}, {broken:,} broken")


def list_backlinks(vault: Vault, path: LinkedNote) -> NoteLinks:
    """List the links to a note."""
    from vaultmem.services.search.link_walk import list_backlinks
    from vaultmem.services.views.read_notes import resolve_whole

    path = str(resolve_whole(vault, path))
    return NoteLinks(path, list_backlinks(vault, path))


def _backlinks_data(result: NoteLinks) -> dict[str, Any]:
    return {"path": result.path, "backlinks": list(map(link_data, result.links))}


def _backlinks_lines(result: NoteLinks, _: Any) -> Iterator[Line]:
    for each in result.links:
        missing = f"  no such {each.missing}" if each.missing else ""
        yield Line(f"{one_line(each.source)}:{each.link.line}  {_as_written(each)}{missing}")
    notes = len({each.source for each in result.links})
    yield Line(f"{pluralize(len(result.links), 'link')} from {pluralize(notes, 'note')}")


def list_broken(vault: Vault) -> Sequence[FoundLink]:
    """List the links of all notes that lead nowhere."""
    from vaultmem.services.search.link_walk import list_broken

    return list_broken(vault)


def _broken_data(broken: Iterable[FoundLink]) -> dict[str, Any]:
    return {"broken": list(map(link_data, broken))}


def _broken_lines(broken: Sequence[FoundLink], _: Any) -> Iterator[Line]:
    for each in broken:
        yield Line(f"{one_line(each.source)}:{each.link.line}  {_as_written(each)}  no such note")
    yield Line(pluralize(len(broken), "broken link"))


def list_orphans(vault: Vault) -> Sequence[tuple[NoteRecord, int]]:
    """List the notes that no other links to."""
    from vaultmem.services.search.link_walk import list_orphans

    return list_orphans(vault)


def _orphans_data(orphans: Iterable[tuple[NoteRecord, int]]) -> dict[str, Any]:
    return {"orphans": [{**pick(each, "path title"), "links": count} for each, count in orphans]}


def _orphans_lines(orphans: Sequence[tuple[NoteRecord, int]], _: Any) -> Iterator[Line]:
    for each, count in orphans:
        yield Line(f"{one_line(each.path)}{'' if count else '  (no links of its own either)'}")
    yield Line(pluralize(len(orphans), "orphan"))


def repair_links(
    vault: Vault, dry_run: Annotated[bool, Arg("Only show what would change.")] = False
) -> RepairResult:
    """Change the broken links to files that were moved since, in one commit."""
    from vaultmem.services.memory.rename import plan_repair, repair_links

    return RepairResult(plan_repair(vault) if dry_run else repair_links(vault), dry_run)


def _repair_data(result: RepairResult) -> dict[str, Any]:
    return {
        "repaired": not result.is_dry,
        "links": _edits_data(result.repair.edits),
        "untrusted": result.repair.untrusted,
        "commits": commits_json(result.repair.report.commits),
    }


def _repair_lines(result: RepairResult, _: Any) -> Iterator[Line]:
    repair = result.repair
    yield from edit_lines(repair.edits)
    if repair.edits:
        summary = f"{pluralize(repair.links, 'link')} in {pluralize(len(repair.edits), 'note')}"
        yield Line("would repair  " if result.is_dry else "repaired  ", "green", summary)
    else:
        yield Line("No broken link leads to a file that was moved.")
    yield from commit_lines(repair.report.commits)


def _repair_warnings(result: RepairResult) -> Iterator[str]:
    yield from warn_of_trust(result.repair.untrusted)


def rename_note(
    vault: Vault,
    path: Annotated[str, word("The note.", 1, metavar="OLD")],
    to: Annotated[str, word("Its new path, or a folder.", 1, metavar="NEW")],
    dry_run: Annotated[
        bool,
        Arg(
            "Only show what would change.",
            excused={FrontEnd.HTTP: "`GET /links` and `GET /backlinks` list what would change"},
        ),
    ] = False,
) -> RenameResult:
    """Rename or move a note, and update every link.

    Interrupted, nothing is changed.

    Examples:
      vaultmem mv lint-before-commit "check before commit.md"
    """
    from vaultmem.services.memory.rename import plan_rename, rename_note

    make = plan_rename if dry_run else rename_note
    return RenameResult(make(vault, path, to), dry_run)


def _rename_data(result: RenameResult) -> dict[str, Any]:
    return {
        "from": result.rename.old,
        "to": result.rename.new,
        "moved": not result.is_dry and result.rename.old != result.rename.new,
        "finished_earlier": False,  # Renames are never left half done.
        "links": _edits_data(result.rename.edits),
        "untrusted": result.rename.untrusted,
    }


def _rename_lines(result: RenameResult, _: Any) -> Iterator[Line]:
    if result.rename.old == result.rename.new:
        yield Line(f"{one_line(result.rename.old)} has that name already; nothing was changed.")
        return
    text = f"{result.rename.old} -> {result.rename.new}"
    yield Line("would move  " if result.is_dry else "moved  ", "green", text)
    yield from edit_lines(result.rename.edits)


def _rename_warnings(result: RenameResult) -> Iterator[str]:
    rename = result.rename
    return warn_of_trust(rename.new if path == rename.old else path for path in rename.untrusted)


def warn_of_trust(paths: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each note that lost its trust because its text or path changed."""
    for path in paths:
        reason = "its text or path is another one now, so it may not instruct; promote it again"
        yield f"{path}: {reason}"


def edit_lines(edits: Mapping[str, Sequence[LinkEdit]]) -> Iterator[Line]:
    """Yield the changed links with their old and new text."""
    for path, link_edits in edits.items():
        for edit in link_edits:
            change = f"{one_line(edit.old)} -> {one_line(edit.new)}"
            yield Line(f"  {one_line(path)}:{edit.link.line}  {change}")


def _edits_data(edits: Mapping[str, Sequence[LinkEdit]]) -> list[dict[str, Any]]:
    return [
        {"path": path, "line": edit.link.line, "from": edit.old, "to": edit.new}
        for path, link_edits in edits.items()
        for edit in link_edits
    ]


def link_data(found_link: FoundLink) -> dict[str, Any]:
    """Return a link's place, text and target."""
    link = found_link.link
    return {
        "source": found_link.source,
        **pick(link, "line kind"),
        "written": link.path,
        **pick(link, "subpath? text?"),
        "embed": link.is_embed,
        **pick(link, "property?"),
        "target": found_link.target,
        **pick(found_link, "missing?"),
    }


def _as_written(found_link: FoundLink) -> str:
    link = found_link.link
    path = f"{link.path}{_subpath(found_link)}"
    if link.kind == "wikilink":
        text = f"[[{path}]]"
    elif link.kind == "markdown":
        text = f"[{link.text}]({path})"
    else:
        text = f"{link.property}: {link.text or path}"
    return one_line(("!" if link.is_embed else "") + text)


def _subpath(found_link: FoundLink) -> str:
    return f"#{found_link.link.subpath}" if found_link.link.subpath else ""


_LINKS = rows(source="string", line="integer", kind="string", written="string", target="string?")

_list = partial(declare, versions=VersionScope.SEEN, tag=Tag.VIEW, excused=_FOR_PEOPLE)

LINKS = _list(
    list_links,
    "list_links",
    "GET /links/{path}",
    _links_data,
    lines=_links_lines,
    output_schema=record(path="string", links=_LINKS),
)

BACKLINKS = _list(
    list_backlinks,
    "list_backlinks",
    "GET /backlinks/{path}",
    _backlinks_data,
    lines=_backlinks_lines,
    output_schema=record(path="string", backlinks=_LINKS),
)

BROKEN = _list(
    list_broken,
    "list_broken_links",
    "GET /broken",
    _broken_data,
    lines=_broken_lines,
    output_schema=record(broken=_LINKS),
)

ORPHANS = _list(
    list_orphans,
    "list_orphans",
    "GET /orphans",
    _orphans_data,
    lines=_orphans_lines,
    output_schema=record(orphans=rows(path="string", title="string", links="integer")),
)

REPAIR = declare(
    repair_links,
    "repair_links",
    "",
    _repair_data,
    lines=_repair_lines,
    warnings=_repair_warnings,
    versions=VersionScope.BRANCH,
    writes=True,
    excused=dict.fromkeys(
        (FrontEnd.HTTP, FrontEnd.MCP), "the owner repairs all notes at once, in a terminal"
    ),
)

MV = change(
    rename_note,
    "rename_note",
    "POST /rename/{path}",
    _rename_data,
    lines=_rename_lines,
    warnings=_rename_warnings,
    place=lambda result: PurePosixPath(result.rename.new),
    output_schema={"type": "object", "required": ["from", "to", "moved", "links"]},
    excused={FrontEnd.MCP: "what an agent calls a note stays; people sort them"},
)
