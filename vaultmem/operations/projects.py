"""Operations on projects: list, rename, move notes, infer from sessions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

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
    words,
)
from vaultmem.operations.schemas import STRINGS, record, rows

if TYPE_CHECKING:
    from vaultmem.services.curation.infer_projects import Inference
    from vaultmem.services.projects.edit_projects import ListedProject, MovedNotes, ProjectList
    from vaultmem.vault import Vault

_OWNERS = dict.fromkeys(
    (FrontEnd.HTTP, FrontEnd.MCP), "the owner sorts many notes at once, in a terminal"
)


def list_(vault: Vault) -> ProjectList:
    """List the projects, each with its notes and sessions."""
    from vaultmem.services.projects.edit_projects import list_projects

    return list_projects(vault)


def _list_data(result: ProjectList) -> dict[str, Any]:
    return {
        "projects": [
            {
                **pick(each.project, "name root? remotes paths"),
                **pick(each, "notes sessions"),
                "here": each.is_here,
                "listed": each.is_listed,
            }
            for each in result.projects
        ],
        "global_notes": result.global_notes,
    }


def _list_lines(result: ProjectList, _: Any) -> Iterator[Line]:
    width = max((len(each.project.name) for each in result.projects), default=0)
    for each in result.projects:
        counts = f"{pluralize(each.notes, 'note')}, {pluralize(each.sessions, 'session')}"
        mark = "  (here)" if each.is_here else ""
        yield Line(f"{one_line(each.project.name):<{width}}", "bold", f"  {counts}{mark}")
        yield Line(f"{'':<{width}}  {one_line(_describe(each))}", "dim")
    if not result.projects:
        yield Line("no project yet: the first memory written in a repository adds one")
    yield Line(f"global: {pluralize(result.global_notes, 'note')}")


def _describe(listed: ListedProject) -> str:
    project = listed.project
    if not listed.is_listed:
        return "only notes name it; it is not in projects.yaml"
    places = [*project.remotes, *project.paths]
    return ", ".join(places) or (f"root commit {project.root[:7]}" if project.root else "a name")


def rename(
    vault: Vault,
    old: Annotated[str, word("The project.", 1, 60, "OLD")],
    new: Annotated[str, word("Its new name.", 1, 60, "NEW")],
) -> MovedNotes:
    """Rename a project, in projects.yaml and in its notes.

    All of it is one commit. The name of another project joins the two.

    Examples:
      vaultmem projects rename harbour-2 harbour
    """
    from vaultmem.services.projects.edit_projects import rename_project

    return rename_project(vault, old, new)


def move(
    vault: Vault,
    notes: Annotated[tuple[str, ...], words("The notes.", metavar="NOTE...")],
    to: Annotated[str, Arg("The project, or global.", "", 1, 60, metavar="NAME")],
) -> MovedNotes:
    """Move notes to another project, or make them global.

    All of it is one commit.

    Examples:
      vaultmem projects move notes/inbox/tides.md berths --to harbour
      vaultmem projects move style-of-commits --to global
    """
    from vaultmem.services.projects.edit_projects import move_notes

    return move_notes(vault, notes, "" if to == "global" else to)


def _moved_data(result: MovedNotes) -> dict[str, Any]:
    return {
        "project": result.project,
        "notes": result.paths,
        "commit": result.report.commit or None,
    }


def _moved_lines(result: MovedNotes, _: Any) -> Iterator[Line]:
    if not result.report.commit:
        yield Line("nothing to change")
        return
    text = f"{pluralize(len(result.paths), 'note')} now "
    yield Line("moved  ", "green", text + (f"in {result.project}" if result.project else "global"))
    yield Line(f"commit {result.report.commit[:7]}", "dim")


def infer(
    vault: Vault, apply: Annotated[bool, Arg("Write what is proposed.")] = False
) -> Inference:
    """Propose projects for notes without one, by their sessions."""
    from vaultmem.services.curation.infer_projects import infer_projects

    return infer_projects(vault, apply)


def _infer_data(inference: Inference) -> dict[str, Any]:
    return {
        "proposals": [each._asdict() for each in inference.proposals],
        "new_projects": inference.new_projects,
        "commit": (inference.report.commit or None) if inference.report else None,
    }


def _infer_lines(inference: Inference, _: Any) -> Iterator[Line]:
    for each in inference.proposals:
        yield Line(f"{each.project}  ", "green", f"{one_line(each.path)}  ({each.session})")
    if not inference.proposals:
        yield Line("no session knows the project of a note without one")
    elif inference.report is None:
        yield Line(f"proposed for {pluralize(len(inference.proposals), 'note')}")
        yield Line("hint: vaultmem projects --infer --apply")
    else:
        yield Line(f"commit {inference.report.commit[:7]}", "dim")


LIST = declare(
    list_,
    "list_projects",
    "GET /projects",
    _list_data,
    lines=_list_lines,
    output_schema=record(
        projects=rows(
            name="string",
            root="string?",
            remotes=STRINGS,
            paths=STRINGS,
            notes="integer",
            sessions="integer",
            here="boolean",
            listed="boolean",
        ),
        global_notes="integer",
    ),
    versions=VersionScope.BRANCH,
    tag=Tag.VIEW,
    excused={FrontEnd.MCP: "recall names another project that has a better answer"},
)

_write = partial(declare, address="", versions=VersionScope.BRANCH, writes=True, excused=_OWNERS)

RENAME = _write(rename, "rename_project", data=_moved_data, lines=_moved_lines)

MOVE = _write(move, "move_to_project", data=_moved_data, lines=_moved_lines)

INFER = _write(infer, "infer_projects", data=_infer_data, lines=_infer_lines)

PROJECTS = (LIST, RENAME, MOVE, INFER)
