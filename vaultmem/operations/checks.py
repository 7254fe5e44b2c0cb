"""The operation check: what a change introduces or breaks, for a pull request or commit hook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.display import pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import Arg, Front, Line, Operation
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.services.health.check_changes import ChangeFinding, ChangeReport
    from vaultmem.vault import Vault


class CheckRequest(NamedTuple):
    """From which commit on a change is checked, and how the findings are printed."""

    since: Annotated[
        str,
        Arg("Branch, tag or commit that the change starts from.", "", 1, 200, metavar="BASE"),
    ]
    github: Annotated[bool, Arg("Print annotations for GitHub Actions.")] = False


def check(vault: Vault, asked: CheckRequest) -> ChangeReport:
    """Report what a change introduces or breaks in notes.

    The exit code is 0 if nothing is found, 1 if something is, 125 if it cannot decide. In a code
    repository with a vault elsewhere, only anchors to this code are checked.

    Examples:
      vaultmem check --since origin/main
      vaultmem check --since HEAD --json
    """
    from vaultmem.services.health.check_changes import check_changes

    return check_changes(vault, asked.since)


def check_data(found: ChangeReport) -> dict[str, Any]:
    """Return the findings of a change."""
    return {
        "ok": found.is_ok,
        **pick(found, "base files"),
        "findings": [
            {
                "kind": each.kind.value,
                "problem": each.is_problem,
                **pick(each, "path line message"),
            }
            for each in found.findings
        ],
    }


def check_lines(found: ChangeReport, asked: CheckRequest) -> Iterator[Line]:
    """Yield each finding, and how many there are."""
    if asked.github:
        yield from (Line(annotate(each)) for each in found.findings)
        return
    for each in found.findings:
        colour = "red" if each.is_problem else "dim"
        yield Line(f"{each.kind:<13}", colour, f" {each.path}:{each.line}: {each.message}")
    problems = sum(each.is_problem for each in found.findings)
    yield Line(f"{pluralize(problems, 'finding')} since {found.base[:7]}")


def annotate(each: ChangeFinding) -> str:
    """Return a finding as a command of a GitHub workflow."""
    level = "error" if each.is_problem else "notice"
    places = {"file": each.path, "line": str(each.line), "title": f"vaultmem: {each.kind}"}
    named = ",".join(f"{name}={_escape(value, ':,')}" for name, value in places.items())
    return f"::{level} {named}::{_escape(each.message)}"


def _escape(text: str, marks: str = "") -> str:
    """Return a text with "%", line ends and some marks as GitHub reads them."""
    for mark in f"%\r\n{marks}":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


CHECK = Operation(
    "check_change",
    "",
    run=check,
    request=CheckRequest,
    data=check_data,
    lines=check_lines,
    gives=record(
        ok="boolean",
        base="string",
        files="integer",
        findings=rows(
            kind="string", problem="boolean", path="string", line="integer", message="string"
        ),
    ),
    excused={
        Front.HTTP: "a pull request is checked where its work tree is",
        Front.MCP: "a pull request is checked by a workflow or a hook",
    },
)
