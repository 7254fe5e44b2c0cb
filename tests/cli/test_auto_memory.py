"""A client's own memory in the vault: its setting, and who its files are committed by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from projects_world import make_repository, play_in, run_hook
from support import git, wait_until
from watchers import watch_process

from vaultmem.core.clients.agent_client import CLIENTS
from vaultmem.core.clients.auto_memory import WRITERS

Run = Callable[..., Any]
Make = Callable[..., Path]

CLAUDE = "claude-code"

#: The two forms of frontmatter that Claude Code has written.
FORMS = (
    "---\nname: {name}\ndescription: {about}\ntype: {kind}\n---\n\n{text}\n",
    "---\nname: {name}\ndescription: {about}\nmetadata:\n  node_type: memory\n  type: {kind}\n"
    "  originSessionId: {session}\n---\n\n{text}\n",
)


def write_memory(
    folder: Path, name: str, text: str, session: str = "", kind: str = "project", form: int = 0
) -> Path:
    """Write a memory as Claude Code does: a file of its own, and a line of MEMORY.md."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {"name": name, "about": f"About {name}", "kind": kind, "session": session, "text": text}
    file = folder / f"{name.lower().replace(' ', '-')}.md"
    file.write_text(FORMS[form].format(**given))
    with (folder / "MEMORY.md").open("a") as index:
        index.write(f"- [{name}]({file.name})\n")
    return file


def connect(run_cli: Run, root: Path, project: Path) -> Path:
    """Make a folder of the vault the client's memory for a project, and return it."""
    done = run_cli("connect", CLAUDE, "--hooks", "--auto-memory", "--vault", root, cwd=project)
    assert done.code == 0, done.err
    settings = json.loads((project / ".claude/settings.local.json").read_text())
    return Path(settings["autoMemoryDirectory"])


def read_commits(root: Path, folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return by file the author and session of each commit that has it."""
    told = git(
        root,
        *("log", "--name-only", "--format=%x01%an%x02%(trailers:key=Session-Id,valueonly)%x03"),
        *("--", str(folder.relative_to(root))),
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for block in filter(None, told.split("\x01")):
        author, _, rest = block.partition("\x02")
        session, _, names = rest.partition("\x03")
        for name in names.split():
            found.setdefault(name, []).append((author, session.strip()))
    return found


@pytest.fixture
def world(make_vault: Make, tmp_path: Path, run_cli: Run) -> tuple[Path, Path, Path]:
    """Return a vault, a project, and the folder that is the client's memory there."""
    root = make_vault({"notes/tide.md": "# Tide\n\nThe tide turns at noon.\n"})
    project = make_repository(tmp_path / "code/lagoon")
    return root, project, connect(run_cli, root, project)


def test_each_client_with_a_setting_writes_into_its_own_folder() -> None:
    assert {name for name, each in CLIENTS.items() if each.memory and each.memory.key} == WRITERS


def test_connect_sets_the_memory_of_a_project_and_restores_it(
    make_vault: Make, tmp_path: Path, run_cli: Run, home: Path
) -> None:
    root, project = make_vault(), make_repository(tmp_path / "code/lagoon")
    settings = project / ".claude/settings.local.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": "opus"\n}\n')
    dry = run_cli("connect", CLAUDE, "--auto-memory", "--dry-run", "--vault", root, cwd=project).out
    assert str(settings) in dry
    assert "autoMemory" not in settings.read_text()
    done = run_cli("connect", CLAUDE, "--auto-memory", "--vault", root, cwd=project)
    folder = root / "memory/claude-code/projects/lagoon"
    assert json.loads(settings.read_text()) == {
        "autoMemoryDirectory": str(folder),
        "model": "opus",
    }
    assert folder.is_dir()
    assert f"Its own memory is now in {folder}" in done.out
    assert run_cli("connect", CLAUDE, "--remove", cwd=project).code == 0
    assert settings.read_text() == '{\n  "model": "opus"\n}\n'

    outside = run_cli("connect", CLAUDE, "--auto-memory", "--vault", root, cwd=home)
    assert "All projects share it" in outside.out
    of_user = json.loads((home / ".claude/settings.json").read_text())
    assert of_user["autoMemoryDirectory"] == str(root / "memory/claude-code")
    assert run_cli("connect", CLAUDE, "--remove", cwd=home).code == 0
    assert not (home / ".claude/settings.json").exists()


def test_connect_reports_a_memory_that_stays_outside(
    make_vault: Make, run_cli: Run, home: Path
) -> None:
    root = make_vault()
    said = run_cli("connect", CLAUDE, "--vault", root, cwd=home).out
    assert "also has a memory of its own (~/.claude/projects/PROJECT/memory)" in said
    assert "`vaultmem connect claude-code --auto-memory`" in said
    said = run_cli("connect", "codex", "--vault", root, cwd=home).out
    assert "(~/.codex/memories), which vaultmem does not read" in said
    refused = run_cli("connect", "codex", "--auto-memory", "--vault", root, cwd=home)
    assert refused.code == 5
    assert "no setting for the folder of its own memory" in refused.err
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/settings.json").write_text('{"autoMemoryDirectory": "~/mine"}\n')
    refused = run_cli("connect", CLAUDE, "--auto-memory", "--vault", root, cwd=home)
    assert "is '~/mine' already; remove it first" in refused.err


def test_files_are_read_with_title_kind_source_and_project(
    world: tuple[Path, Path, Path], run_cli: Run
) -> None:
    root, project, folder = world
    file = write_memory(folder, "Reviews are short", "Keep reviews short.", "s-7", "feedback", 1)
    before = file.read_bytes()
    hits = run_cli("recall", "short reviews", "--json", "--vault", root).json["hits"]
    found = next(each for each in hits if each["path"] == str(file.relative_to(root)))
    shown = {key: found[key] for key in ("title", "kind", "state", "agent", "source", "session")}
    assert shown == {
        "title": "Reviews are short",
        "kind": "preference",
        "state": "active",
        "agent": CLAUDE,
        "source": "agent",
        "session": "s-7",
    }
    named = run_cli("recall", "short reviews", "--vault", root, cwd=project).out
    described = run_cli("recall", "about reviews", "--vault", root, cwd=project).out
    assert "Keep reviews short" in named
    assert str(file.relative_to(root)) in described
    other = make_repository(project.with_name("other"))
    there = run_cli("hook", "prompt", "--vault", root, "--format", "text", cwd=other, stdin="{}")
    assert "Keep reviews short" not in there.out
    pack = run_cli("pack", "short reviews", "--vault", root, "--agent", CLAUDE, cwd=project).out
    assert "Keep reviews short" in pack
    assert "trusted" not in pack.split("Keep reviews short")[0].splitlines()[-1]
    assert file.read_bytes() == before


def test_a_session_commits_them_and_never_the_owner(
    world: tuple[Path, Path, Path], run_cli: Run
) -> None:
    root, project, folder = world
    run_hook(run_cli, root, "session-start", project, "s-1", source="startup")
    write_memory(folder, "Deploys", "Deploys run on Monday.", "s-1", form=1)
    run_cli("checkpoint", "--vault", root)  # By the owner, while the session goes on.
    write_memory(folder, "Tests", "Tests need the VPN.")
    run_hook(run_cli, root, "session-end", project, "s-1")
    write_memory(folder, "Late", "Written after the session ended.", "s-1", form=1)
    (folder / "deploys.md").unlink()
    run_cli("checkpoint", "--vault", root)
    commits = read_commits(root, folder)
    assert len(commits) == 4
    named = {Path(path).name: found for path, found in commits.items()}
    assert named["tests.md"] == named["late.md"] == [(CLAUDE, "s-1")]
    # After the end, neither a removal nor MEMORY.md names a session.
    assert named["deploys.md"] == [(CLAUDE, ""), (CLAUDE, "s-1")]
    assert {who for found in commits.values() for who, _ in found} == {CLAUDE}
    assert git(root, "status", "--short") == ""


def test_the_watcher_never_commits_them_as_the_owners(
    world: tuple[Path, Path, Path], run_cli: Run
) -> None:
    root, project, folder = world
    (root / "vaultmem.yaml").write_text("commit_edits_after_seconds: 1\n")
    run_hook(run_cli, root, "session-start", project, "s-2", source="startup")
    with watch_process(root):
        write_memory(folder, "Deploys", "Deploys run on Monday.")
        (root / "notes/tide.md").write_text("# Tide\n\nThe tide turns at one.\n")
        wait_until(lambda: "tide" in git(root, "log", "-3", "--format=%s"))
    run_hook(run_cli, root, "session-end", project, "s-2")
    commits = read_commits(root, folder)
    assert {each for found in commits.values() for each in found} == {(CLAUDE, "s-2")}
    assert len(commits) == 2


def test_a_file_with_a_credential_waits_and_stops_nothing_else(
    world: tuple[Path, Path, Path], run_cli: Run
) -> None:
    root, project, folder = world
    run_hook(run_cli, root, "session-start", project, "s-3", source="startup")
    write_memory(folder, "Deploys", "Deploys run on Monday.")
    write_memory(folder, "Keys", "The key is AKIA" + "Q3EGTZ5XK7MPLW2D.")
    run_hook(run_cli, root, "session-end", project, "s-3")
    commits = read_commits(root, folder)
    assert sorted(Path(name).name for name in commits) == ["MEMORY.md", "deploys.md"]
    assert "keys.md" in git(root, "status", "--short", "--untracked-files=all")
    assert "keys.md" in run_cli("doctor", "--vault", root).out


def test_what_the_session_wrote_over_mcp_is_not_there_twice(
    world: tuple[Path, Path, Path], run_cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, project, folder = world
    text = "The billing job runs every night at three in the data centre in Oslo."
    run_hook(run_cli, root, "session-start", project, "s-4", source="startup")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-4")
    monkeypatch.setenv("VAULTMEM_AGENT", CLAUDE)

    async def remember(client: Any) -> Any:
        return await client.call_tool("remember", {"text": text})

    said = play_in(root, project, remember)
    note = root / said.structured_content["path"]
    write_memory(folder, "Billing", text, "s-4", form=1)
    run_hook(run_cli, root, "session-end", project, "s-4")
    assert "state: deprecated" in note.read_text()
    assert "billing" in note.read_text()
    assert text in (folder / "billing.md").read_text()
    found = run_cli("recall", "billing job", "--json", "--vault", root, cwd=project).json
    paths = [each["path"] for each in found["hits"]]
    assert paths.count("memory/claude-code/projects/lagoon/billing.md") == 1
    assert str(note.relative_to(root)) not in paths
    assert git(root, "status", "--short") == "?? projects.yaml"  # The owner's, by `connect`.


def test_a_duplicate_of_an_older_note_is_reported(
    world: tuple[Path, Path, Path], run_cli: Run
) -> None:
    root, project, folder = world
    run_hook(run_cli, root, "session-start", project, "s-5", source="startup")
    write_memory(folder, "Tide", "The tide turns at noon.")
    run_hook(run_cli, root, "session-end", project, "s-5")
    found = run_cli("review", "--json", "--vault", root).out
    assert "notes/tide.md" in found
    assert "memory/claude-code/projects/lagoon/tide.md" in found
    assert "deprecated" not in (root / "notes/tide.md").read_text()


def _list_facts(count: int) -> Iterator[tuple[str, str]]:
    places = ("Oslo", "Bergen", "Lima", "Quito", "Accra", "Turin", "Kyoto", "Perth", "Cork", "Graz")
    jobs = ("billing", "backup", "import", "export", "audit", "mail", "index", "cleanup", "report")
    for number in range(count):
        place, job = places[number % 10], jobs[number // 10 % 9]
        name = f"Fact {number} on {job}"
        yield name, f"The {job} job in {place} takes {number + 11} minutes and writes log {number}."


@pytest.mark.parametrize("is_shared", [False, True], ids=["project's", "shared"])
@pytest.mark.parametrize("count", [pytest.param(10), pytest.param(100, marks=pytest.mark.campaign)])
def test_all_files_of_many_sessions_are_the_agents(
    world: tuple[Path, Path, Path], run_cli: Run, count: int, is_shared: bool
) -> None:
    root, project, folder = world
    folder = root / "memory/claude-code" if is_shared else folder
    facts = list(_list_facts(count))
    sessions: dict[str, str] = {}
    repeated = 0
    for start in range(0, count, 5):
        session = f"s-{start}"
        run_hook(run_cli, root, "session-start", project, session, source="startup")
        given = ("--agent", CLAUDE, "--session", session, "--vault", root)
        for number, (name, text) in enumerate(facts[start : start + 5], start):
            if number % 5 == 0:  # The session writes it by vaultmem as well.
                assert run_cli("remember", text, *given, cwd=project).code == 0
                repeated += 1
            file = write_memory(folder, name, text, session, form=number % 2)
            sessions[str(file.relative_to(root))] = session
            if number % 5 == 2:
                run_cli("checkpoint", "--vault", root)
        run_hook(run_cli, root, "session-end", project, session)
    commits = read_commits(root, folder)
    assert {path: commits[path] for path in sessions} == {
        path: [(CLAUDE, session)] for path, session in sessions.items()
    }
    assert {who for found in commits.values() for who, _ in found} == {CLAUDE}
    notes = sorted((root / "notes").rglob("*.md"))
    gone = [each for each in notes if "state: deprecated" in each.read_text()]
    assert len(gone) == repeated
    for name, text in facts:
        assert text in (folder / f"{name.lower().replace(' ', '-')}.md").read_text()
    assert git(root, "status", "--short") == ""
