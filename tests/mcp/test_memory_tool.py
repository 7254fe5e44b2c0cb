"""The memory tool as its own SDK calls it: six commands, and no way out of the vault."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import git, hash_tree

if TYPE_CHECKING:  # The SDK takes a second, which only the process that runs these tests needs.
    from vaultmem.integrations.anthropic_memory import VaultMemoryTool


NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/pay/refunds.md": "# Refunds\n\nOne job each.\nSee [[half]].\n",
    "notes/half.md": "Half refunds round up.\n\n\nAlso in May.\n",
    "notes/bad.md": "---\nstate: quarantined\n---\nObey.\n",
}


@pytest.fixture
def tool(root: Path) -> VaultMemoryTool:
    from vaultmem.integrations.anthropic_memory import VaultMemoryTool

    return VaultMemoryTool(root, agent="claude", session="s-1")


def fails(tool: VaultMemoryTool, **command: object) -> str:
    from anthropic.lib.tools import ToolError

    with pytest.raises(ToolError) as error:
        tool.call(command)
    return str(error.value)


#: What a model may send, in the order in which it is sent; of each, both tools say the same.
STEPS: list[dict[str, object]] = [
    {"command": "create", "path": "/memories/work/plan.md", "file_text": "One\nTwo\nTwo\n"},
    {"command": "create", "path": "/memories/work/plan.md", "file_text": "Again.\n"},
    {"command": "view", "path": "/memories/work/plan.md"},
    {"command": "view", "path": "/memories/work/plan.md", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/nowhere.md"},
    {"command": "view", "path": "/other"},
    {"command": "str_replace", "path": "/memories/work/plan.md", "old_str": "Tw", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/work/plan.md", "old_str": "Six", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/work/plan.md", "old_str": "One", "new_str": "1"},
    {"command": "str_replace", "path": "/memories/work", "old_str": "One", "new_str": "1"},
    {"command": "str_replace", "path": "/memories/nowhere.md", "old_str": "a", "new_str": "b"},
    {
        "command": "insert",
        "path": "/memories/work/plan.md",
        "insert_line": 1,
        "insert_text": "b\n\n",
    },
    {"command": "insert", "path": "/memories/work/plan.md", "insert_line": 99, "insert_text": "b"},
    {"command": "insert", "path": "/memories/work", "insert_line": 0, "insert_text": "b"},
    {"command": "view", "path": "/memories/work/plan.md"},
    {"command": "rename", "old_path": "/memories/work", "new_path": "/memories/done"},
    {"command": "rename", "old_path": "/memories/work/plan.md", "new_path": "/memories/b.md"},
    {
        "command": "rename",
        "old_path": "/memories/done/plan.md",
        "new_path": "/memories/done/plan.md",
    },
    {"command": "rename", "old_path": "/memories", "new_path": "/memories/all"},
    {"command": "delete", "path": "/memories/nowhere.md"},
    {"command": "delete", "path": "/memories/done"},
    {"command": "delete", "path": "/memories"},
]


@pytest.mark.parametrize(
    "is_async", [pytest.param(False, marks=pytest.mark.campaign), True], ids=["sync", "async"]
)
def test_it_says_what_the_sdks_own_tool_says(root: Path, tmp_path: Path, is_async: bool) -> None:
    from anthropic.lib.tools import ToolError
    from anthropic.tools import BetaLocalFilesystemMemoryTool

    from vaultmem.integrations.anthropic_memory import AsyncVaultMemoryTool, VaultMemoryTool

    ours = (AsyncVaultMemoryTool if is_async else VaultMemoryTool)(root, agent="claude")
    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs"))

    async def ask(tool: Any, step: dict[str, object]) -> object:
        try:
            said = tool.call(step)
            return await said if inspect.isawaitable(said) else said
        except ToolError as error:
            return f"error: {error}"

    async def play() -> None:
        for step in STEPS:
            assert await ask(ours, step) == await ask(theirs, step), step
        assert not (root / "work").exists()
        assert not (root / "done").exists()
        done = ours.checkpoint("what the run was for")
        assert await done if inspect.isawaitable(done) else done
        assert "wrote done/plan.md" in git(root, "log", "--author=claude", "--format=%b")

    asyncio.run(play())


def test_view_lists_two_levels_and_numbers_lines(tool: VaultMemoryTool) -> None:
    listing = str(tool.call({"command": "view", "path": "/memories"}))
    names = [line.split("\t")[1] for line in listing.splitlines()[1:]]
    assert names == [
        "/memories",
        "/memories/MEMORY.md",
        "/memories/USER.md",
        "/memories/notes/",
        "/memories/notes/half.md",
        "/memories/notes/pay/",
    ]
    shown = tool.call({"command": "view", "path": "/memories/notes/pay/refunds.md"})
    assert shown == (
        "Here's the content of /memories/notes/pay/refunds.md with line numbers:\n"
        "     1\t# Refunds\n     2\t\n     3\tOne job each.\n     4\tSee [[half]].\n     5\t"
    )
    part = tool.call(
        {"command": "view", "path": "/memories/notes/pay/refunds.md", "view_range": [3, 3]}
    )
    assert str(part).endswith(":\n     3\tOne job each.")
    assert "does not exist" in fails(tool, command="view", path="/memories/none")
    assert "does not exist" in fails(tool, command="view", path="/memories/notes/bad.md")


def test_create_writes_what_is_given_and_never_over_another(
    tool: VaultMemoryTool, root: Path
) -> None:
    made = tool.call({"command": "create", "path": "/memories/todo.txt", "file_text": "- rope\n"})
    assert made == "File created successfully at: /memories/todo.txt.md"
    assert (root / "todo.txt.md").read_text() == "- rope\n"
    assert "- rope" in str(tool.call({"command": "view", "path": "/memories/todo.txt"}))
    assert "already exists" in fails(
        tool, command="create", path="/memories/todo.txt", file_text="x"
    )
    leak = "key: ghp_" + "a1B2" * 9
    assert "credential" in fails(tool, command="create", path="/memories/k.md", file_text=leak)
    assert not (root / "k.md").exists()


def test_str_replace_changes_one_place(tool: VaultMemoryTool, root: Path) -> None:
    path = "/memories/notes/pay/refunds.md"
    done = tool.call(
        {"command": "str_replace", "path": path, "old_str": "One job", "new_str": "Two jobs"}
    )
    assert "     3\tTwo jobs each." in str(done)
    assert (root / "notes/pay/refunds.md").read_text() == NOTES["notes/pay/refunds.md"].replace(
        "One job", "Two jobs"
    )
    assert "did not appear" in fails(
        tool, command="str_replace", path=path, old_str="nine", new_str="x"
    )
    assert "in lines: 1, 4" in fails(
        tool, command="str_replace", path="/memories/notes/half.md", old_str="a", new_str=""
    )


def test_insert_puts_a_line_behind_another(tool: VaultMemoryTool, root: Path) -> None:
    path = "/memories/notes/half.md"
    tool.call({"command": "insert", "path": path, "insert_line": 0, "insert_text": "# Half\n"})
    tool.call({"command": "insert", "path": path, "insert_line": 2, "insert_text": "Always."})
    assert (
        root / "notes/half.md"
    ).read_text() == "# Half\nHalf refunds round up.\nAlways.\n\n\nAlso in May.\n"
    assert "[0, 6]" in fails(tool, command="insert", path=path, insert_line=9, insert_text="x")


def test_delete_forgets_a_note_or_a_folder_but_nothing_pinned(
    tool: VaultMemoryTool, root: Path
) -> None:
    tool.call({"command": "delete", "path": "/memories/notes/pay"})
    assert not (root / "notes/pay/refunds.md").exists()
    assert git(root, "show", "HEAD:notes/pay/refunds.md")
    assert "pinned" in fails(tool, command="delete", path="/memories/MEMORY.md")
    assert "itself" in fails(tool, command="delete", path="/memories")
    assert "does not exist" in fails(tool, command="delete", path="/memories/notes/none.md")


def test_rename_takes_links_along(tool: VaultMemoryTool, root: Path) -> None:
    done = tool.call(
        {
            "command": "rename",
            "old_path": "/memories/notes/half.md",
            "new_path": "/memories/notes/rounding.md",
        }
    )
    assert done == "Successfully renamed /memories/notes/half.md to /memories/notes/rounding.md"
    assert "[[rounding]]" in (root / "notes/pay/refunds.md").read_text()
    assert "already exists" in fails(
        tool,
        command="rename",
        old_path="/memories/notes/pay/refunds.md",
        new_path="/memories/notes/rounding.md",
    )
    tool.call(
        {
            "command": "rename",
            "old_path": "/memories/notes/pay",
            "new_path": "/memories/notes/money",
        }
    )
    assert (root / "notes/money/refunds.md").is_file()


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../outside.md",
        "/memories/notes/../../outside.md",
        "/memories/%2e%2e/outside.md",
        "/memories/%252e%252e/outside.md",
        "/memories/..%2foutside.md",
        "/memories/..\\outside.md",
        "/memoriesx/a.md",
        "/etc/passwd",
        "memories/a.md",
        "/memories/.git/config",
        "/memories/link/outside.md",
        "/memories/linked.md",
        "/memories/\0.md",
        "",
    ],
)
def test_no_path_leads_out(path: str, tool: VaultMemoryTool, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "outside.md").write_text("of the host")
    (root.parent / "outside.md").write_text("of the host")
    (root / "link").symlink_to(outside)
    (root / "linked.md").symlink_to(root.parent / "outside.md")
    before = hash_tree(root.parent, ("home",))
    for command in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "of", "new_str": "x"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/x.md"},
        {"command": "rename", "old_path": "/memories/notes/half.md", "new_path": path},
    ):
        assert "of the host" not in fails(tool, **command)
    assert hash_tree(root.parent, ("home",)) == before


def test_what_it_wrote_is_the_agents_in_git(tool: VaultMemoryTool, root: Path) -> None:
    tool.call({"command": "create", "path": "/memories/a.md", "file_text": "Anchors.\n"})
    commit = tool.checkpoint("anchors")
    assert git(root, "log", "-1", "--format=%H %an %s") == f"{commit} claude checkpoint: anchors"
    assert "s-1" in git(root, "log", "-1", "--format=%(trailers:key=Session-Id)")
    assert tool.to_dict()["type"] == "memory_20250818"
    with pytest.raises(NotImplementedError):
        tool.call({"command": "obey"})
    assert "needs" in fails(tool, command="view")
