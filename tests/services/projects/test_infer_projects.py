"""`projects --infer` on old notes: right where a session knows its project, silent otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest
from conftest import Make
from projects_world import make_repository, read_project, run_git, write_transcript

from vaultmem.services.curation.infer_projects import infer_projects
from vaultmem.services.sessions.find_session import EXPECTED
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

Opened = Callable[..., Vault]

#: How a session knows its project. Of "gone", the folder is not on this machine; "plain" has no
#: git; "name" knows the name of a folder alone.
WAYS = ["property", "transcript", "transcript", "gone", "plain", "name"]


def make_old_vault(
    make_vault: Make, opened: Opened, folder: Path, projects: int, count: int
) -> tuple[Vault, dict[str, str]]:
    """Return a vault of old notes, and the project of each path that a session knows."""
    chance = random.Random(projects)
    code = [make_repository(folder / "code" / f"project-{n}") for n in range(projects)]
    plain = folder / "plain"
    plain.mkdir()
    notes: dict[str, str | bytes] = {}
    expected: dict[str, str] = {}
    transcripts: dict[str, Path] = {}
    for number in range(projects * len(WAYS)):
        session, way = f"s-{number}", WAYS[number % len(WAYS)]
        own = code[number // len(WAYS)]
        head = f"---\nkind: episodic_trace\nstatus: ok\nstarted: 2026-10-{1 + number % 28:02}\n"
        head += f"project: {own.name}\n" if way == "property" else f"workspace: {own.name}\n"
        notes[f"sessions/{session}.md"] = f"{head}---\n# Session {number}\n"
        place = {"gone": folder / "no" / own.name, "plain": plain}.get(way, own)
        if way not in {"property", "name"}:
            file = folder / f"{session}.jsonl"
            transcripts[session] = write_transcript(file, place, session, ("user", "Go on"))
        if way == "transcript":
            expected[f"sessions/{session}.md"] = own.name
    for number in range(count):
        session = chance.randrange(projects * len(WAYS))
        path = f"notes/area-{number % 9}/n{number}.md"
        kind = chance.choice(["semantic_fact", "decision", "preference"])
        named = f"session: s-{session}\n" if number % 10 else ""
        notes[path] = f"---\nkind: {kind}\n{named}---\nValve {number} opens at {number} bar.\n"
        if named and kind != "preference" and WAYS[session % len(WAYS)] in WAYS[:3]:
            expected[path] = code[session // len(WAYS)].name
    vault = opened(make_vault(notes))
    sync_vault(vault)
    for session, file in transcripts.items():
        vault.state.keep(f"{EXPECTED} {session}", str(file))
    return vault, expected


@pytest.mark.parametrize(
    ("projects", "count"),
    [(2, 40), pytest.param(20, 1_000, marks=pytest.mark.campaign)],
)
def test_each_old_note_gets_the_project_of_its_session_or_none(
    make_vault: Make, opened: Opened, tmp_path: Path, projects: int, count: int
) -> None:
    vault, expected = make_old_vault(make_vault, opened, tmp_path / "world", projects, count)
    begin = perf_counter()
    found = infer_projects(vault)
    print(f"{len(found.proposals)} proposals of {count} notes in {perf_counter() - begin:.2f} s")
    assert {each.path: each.project for each in found.proposals} == expected
    assert found.report is None
    done = infer_projects(vault, apply=True)
    assert done.report is not None
    written = {path: read_project(vault.root / path) for path in expected}
    assert written == expected
    others = {str(each.relative_to(vault.root)) for each in (vault.root / "notes").rglob("*.md")}
    assert {read_project(vault.root / path) for path in others - expected.keys()} == {""}
    assert run_git(vault.root, "status", "--porcelain") == ""
    sync_vault(vault)
    assert infer_projects(vault).proposals == ()
