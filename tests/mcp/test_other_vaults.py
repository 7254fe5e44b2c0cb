"""Other vaults of the user's in an agent's hands, where the one that is served is trusted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Make, RunCli
from mcp.client.client import Client
from serving import call, play, refused

PROJECT = {"notes/deploys.md": "# Deploys\n\nWe deploy the ferry on Tuesdays.\n"}
MEMORY = {"notes/ferry.md": "# Ferry\n\nI never deploy the ferry on a Friday.\n"}


@pytest.fixture
def places(make_vault: Make, run_cli: RunCli) -> tuple[Path, Path]:
    """Return a project's vault that names a memory, and that memory, which is listed."""
    project, memory = make_vault(PROJECT, "project"), make_vault(MEMORY, "memory")
    (project / "vaultmem.yaml").write_text("companions: ../memory\n")
    run_cli("vault", "add", memory, "--name", "home")
    run_cli("trust", "--vault", project)
    return project, memory


def test_a_trusted_vault_is_answered_with_its_companion(
    places: tuple[Path, Path], run_cli: RunCli
) -> None:
    project, _ = places

    async def scene(client: Client) -> None:
        found = await call(client, "recall", query="deploy ferry")
        assert {(hit["vault"], hit["path"]) for hit in found["hits"]} == {
            (None, "notes/deploys.md"),
            ("home", "notes/ferry.md"),
        }
        pack = await call(client, "context_pack", query="deploy ferry")
        assert "Friday" in pack["message"]
        handle = next(item["handle"] for item in pack["items"] if item["vault"] == "home")
        for address in (handle, "home:notes/ferry.md"):
            assert "Friday" in (await call(client, "read_note", path=address))["text"]
        assert "no vault of that name" in await refused(
            client, "recall", query="ferry", vaults=["other"]
        )
        every = await call(client, "recall", query="deploy ferry", vaults=["all"])
        assert len(every["hits"]) == 2

    play(project, scene, asks_others=True)


@pytest.mark.campaign
def test_a_stranger_s_vault_gets_nothing_of_another(
    places: tuple[Path, Path], run_cli: RunCli
) -> None:
    own, memory = places
    project = own.with_name("sent")  # Somebody sent it: it was never made or trusted here.
    shutil.copytree(own, project)
    (project / "vaultmem.yaml").write_text(f"companions: [home, {memory}, ../memory, ~/memory]\n")

    async def scene(client: Client) -> None:
        for tool, key in (("recall", "hits"), ("context_pack", "items")):
            found = await call(client, tool, query="deploy ferry Friday")
            assert {each["path"] for each in found[key]} == {"notes/deploys.md"}
            assert "I never" not in str(found)
            for names in (["home"], ["all"], [str(memory)]):
                told = await refused(client, tool, query="ferry", vaults=names)
                assert "not trusted" in told
        for address in ("home:notes/ferry.md", f"{memory}:notes/ferry.md"):
            assert "I never" not in await refused(client, "read_note", path=address)

    play(project, scene, asks_others=True)
    for command in ("recall", "pack"):
        done = run_cli(command, "deploy ferry Friday", "--vault", project)
        assert "I never" not in done.out
        assert "not trusted" in done.err
    prompt = run_cli("hook", "UserPromptSubmit", cwd=project, stdin='{"prompt": "deploy ferry?"}')
    assert "I never" not in prompt.out


@pytest.mark.campaign
def test_a_companion_named_after_the_trust_waits_for_the_owner_s_word(
    places: tuple[Path, Path], make_vault: Make, run_cli: RunCli
) -> None:
    project, _ = places
    make_vault({"notes/diary.md": "# Ferry\n\nI was sick on the ferry.\n"}, "diary")
    (project / "vaultmem.yaml").write_text(
        "companions: [../memory, ../diary]\n"
    )  # Somebody pushed it.

    async def scene(client: Client) -> None:
        found = await call(client, "recall", query="deploy ferry sick")
        assert "Friday" in str(found)
        assert "I was sick" not in str(found)

    play(project, scene, asks_others=True)
    done = run_cli("recall", "ferry sick", "--vault", project)
    assert "I was sick" not in done.out
    assert "since this vault was trusted" in done.err
    run_cli("trust", "--vault", project)
    assert "I was sick" in run_cli("recall", "ferry sick", "--vault", project).out


def test_whoever_comes_from_elsewhere_gets_nothing_of_another(
    places: tuple[Path, Path], run_cli: RunCli
) -> None:
    project, _ = places

    async def scene(client: Client) -> None:
        found = await call(client, "recall", query="deploy ferry Friday")
        assert {hit["path"] for hit in found["hits"]} == {"notes/deploys.md"}
        assert "on the machine" in await refused(client, "recall", query="f", vaults=["home"])

    play(project, scene)


@pytest.mark.campaign
def test_a_companion_that_is_gone_is_told_and_the_rest_answers(
    places: tuple[Path, Path], run_cli: RunCli
) -> None:
    project, memory = places
    both = run_cli("pack", "deploy ferry", "--vault", project).out
    assert "Tuesdays" in both
    assert "Friday" in both
    prompt = run_cli("hook", "prompt", cwd=project, stdin='{"prompt": "when to deploy the ferry?"}')
    assert "I never" in prompt.out
    memory.rename(memory.with_name("moved"))
    done = run_cli("pack", "deploy ferry", "--vault", project)
    assert "Tuesdays" in done.out
    assert "Friday" not in done.out
    assert "passed over" in done.err
