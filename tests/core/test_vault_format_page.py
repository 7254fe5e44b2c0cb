"""The tables of docs/reference/vault-format.md contain what the code knows, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vaultmem import errors
from vaultmem.core.clients.agents import VARIABLES
from vaultmem.core.lifecycle import TRANSITIONS, NoteKind, NoteState
from vaultmem.core.notes.note import KNOWN_PROPERTIES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/reference/vault-format.md").read_text(encoding="utf-8")

#: Read by modules of their own, or another spelling of a known property.
OTHER_PROPERTIES = {"about", "valid_from", "valid_until", "alias", "tag"}


def read_rows(header: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table that begins with this header."""
    for row in re.findall(r"^ *\|(.*)\|$", TEXT.split(header, 1)[1].split("\n\n", 1)[0], re.M):
        yield [cell.strip() for cell in row.split("|")]


def read_names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_the_table_of_properties_has_every_property() -> None:
    cells = [row[0] for row in read_rows("| property | type |")]
    assert set().union(*map(read_names, cells)) - OTHER_PROPERTIES == KNOWN_PROPERTIES


def test_the_page_names_every_kind() -> None:
    paragraph = TEXT.split("\nKinds: ", 1)[1].split("\n\n", 1)[0]
    assert read_names(paragraph) == {kind.value for kind in NoteKind}


def test_the_table_of_states_has_every_step() -> None:
    rows = {row[0].strip("`"): read_names(row[2]) for row in read_rows("| state | recall")}
    hidden = {NoteState.QUARANTINED, NoteState.UNREADABLE}
    steps = {state.value: set(TRANSITIONS[state] - hidden) for state in set(NoteState) - hidden}
    assert rows.pop("quarantined", None) == set()
    assert {name: cells for name, cells in rows.items() if name in steps} == steps


def test_the_table_of_agents_has_every_variable() -> None:
    cells = [row[1] for row in read_rows("| agent | variables |")]
    named = {name.partition("=")[0] for cell in cells for name in read_names(cell)}
    assert named == set(VARIABLES)


def test_every_event_of_the_code_is_in_the_table_of_trailers() -> None:
    (cell,) = (row[1] for row in read_rows("| trailer |") if row[0] == "`Vault-Event`")
    sources = [file.read_text("utf-8") for file in (ROOT / "vaultmem").rglob("*.py")]
    written = {name for text in sources for name in re.findall(r'\bEvent\(\s*"([a-z-]+)"', text)}
    assert written <= read_names(cell)


@pytest.mark.parametrize(
    "error", [each for each in vars(errors).values() if isinstance(each, type)]
)
def test_the_table_of_exit_codes_has_the_code_of_each_error(error: type) -> None:
    codes = {row[0] for row in read_rows("| code | meaning |")}
    assert str(getattr(error, "exit_code", 1)) in codes
