"""Talks that were had elsewhere, in the shapes that exports and transcripts of them have."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from importing import AWS_KEY, counts, take
from in_process import run_here
from support import git, hash_tree

from vaultmem.core.search.query import parse_query
from vaultmem.core.sessions.session import Session
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.exchange.import_notes import ImportOutcome
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.recall import recall
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.find_session import get_session
from vaultmem.services.sessions.windows import read_last_turns
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault


def turns_of(vault: Vault, session: str) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for _, turn in read_last_turns(vault, session, 100)]


# ChatGPT


def node(
    name: str, parent: str | None, role: str = "", parts: list[Any] | None = None, **more: Any
) -> dict[str, Any]:
    message: dict[str, Any] | None = None
    if role:
        content = more.pop("content", None) or {"content_type": "text", "parts": parts or [""]}
        message = {
            "id": name,
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": more.pop("at", 1_738_000_000.5),
            "update_time": None,
            "content": content,
            "status": "finished_successfully",
            "end_turn": None,
            "weight": more.pop("weight", 1.0),
            "metadata": more.pop("metadata", {}),
            "recipient": more.pop("recipient", "all"),
            "channel": None,
        }
    return {"id": name, "message": message, "parent": parent, "children": []}


def talk(*nodes: dict[str, Any], name: str = "6995e870-eafc", **more: Any) -> dict[str, Any]:
    mapping = {each["id"]: each for each in nodes}
    for each in nodes:
        if each["parent"]:
            mapping[each["parent"]]["children"].append(each["id"])
    return {
        "title": "名前の付け方",
        "create_time": 1_738_000_000.0,
        "update_time": 1_738_086_400.0,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": nodes[-1]["id"],
        "plugin_ids": None,
        "conversation_id": name,
        "gizmo_id": None,
        "is_archived": False,
        "default_model_slug": "auto",
        "id": name,
        **more,
    }


CONTEXT = {
    "content_type": "user_editable_context",
    "user_profile": "I teach navigation.",
    "user_instructions": "Always answer in metric units.",
}
IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0", "width": 9}
HEARD = {"content_type": "audio_transcription", "text": "And the small one?", "direction": "in"}
NODES = (
    node("root", None),
    node("system", "root", "system", [""], weight=0.0),
    node("context", "system", "user", content=CONTEXT,
         metadata={"is_visually_hidden_from_conversation": True}),
    node("u1", "context", "user", ["How do I name the ferries for the winter?"],
         metadata={"attachments": [{"name": "ferries.csv", "size": 9, "id": "file-1"}]}),
    node("old", "u1", "assistant", ["A deleted answer."]),
    node("think", "u1", "assistant", content={"content_type": "thoughts", "thoughts": []}),
    node("search", "think", "assistant", content={"content_type": "code", "language": "x",
         "text": "search()"}, recipient="web"),
    node("found", "search", "tool", ["result of a tool"]),
    node("a1", "found", "assistant",
         ["Name them after winds\ue200cite\ue202turn0search1\ue201. \ud83d"]),
    node("bio", "a1", "assistant", ["Ana runs the ferry Holm II."], recipient="bio"),
    node("kept", "bio", "tool", ["Model set context updated."]),
    node("u2", "kept", "user", content={"content_type": "multimodal_text",
         "parts": [IMAGE, HEARD]}),
    node("a2", "u2", "assistant", ["Call it Bora."], at=1_738_000_300.0),
)  # fmt: skip


def export(folder: Path, *talks: Any, name: str = "conversations.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(list(talks)))
    return file


def test_a_conversation_becomes_a_session_of_what_was_shown(vault: Vault, tmp_path: Path) -> None:
    file = export(tmp_path, talk(*NODES))
    before = hash_tree(vault.root)
    assert counts(take(vault, "chatgpt", file, dry_run=True)) == {"new": 4}
    assert hash_tree(vault.root) == before

    report = take(vault, "chatgpt", file)
    assert (counts(report), report.turns) == ({"new": 4}, 4)
    session = get_session(vault, "chatgpt-6995e870-eafc")
    facts = session.facts
    assert (facts.agent, facts.status, facts.turns) == ("chatgpt", "ok", 4)
    assert (facts.started[:10], facts.ended[:10]) == ("2025-01-27", "2025-01-28")
    assert facts.title == "名前の付け方"
    assert facts.goal == "How do I name the ferries for the winter?"
    assert turns_of(vault, facts.id) == [
        ("user", "How do I name the ferries for the winter?\n\n[attached: ferries.csv]"),
        ("assistant", "Name them after winds. ?"),
        ("user", "[image]\n\nAnd the small one?"),
        ("assistant", "Call it Bora."),
    ]
    text = (vault.root / facts.path).read_text()
    assert "source: import" in text
    assert 'imported: "chatgpt https://chatgpt.com/c/6995e870-eafc"' in text
    assert "A deleted answer" not in text
    assert recall(vault, parse_query("ferries winter name"))[0].record.path == facts.path
    notes = {each.path: each for each in vault.view.records("d.path GLOB 'notes/imported/*'")}
    assert sorted(each.title for each in notes.values()) == [
        "Ana runs the ferry Holm II",
        "Custom instructions: instructions",
        "Custom instructions: profile",
    ]
    assert {each.state for each in notes.values()} == {"candidate"}
    wishes = vault.view.records("d.kind = 'preference'")
    assert [(each.state, each.title) for each in wishes] == [
        ("candidate", "Always answer in metric units")
    ]
    assert git(vault.root, "log", "-1", "--format=%an|%s") == "chatgpt|import: chatgpt, 5 notes"
    assert git(vault.root, "status", "--porcelain") == ""

    head = git(vault.root, "rev-parse", "HEAD")
    assert counts(take(vault, "chatgpt", file)) == {"known": 4}
    assert git(vault.root, "rev-parse", "HEAD") == head


def test_a_later_export_adds_what_was_said_since_and_only_that(
    vault: Vault, tmp_path: Path
) -> None:
    take(vault, "chatgpt", export(tmp_path, talk(*NODES)))
    fresh = [{**each, "children": []} for each in NODES]
    more = (
        node("u3", "a2", "user", ["And the red one?"]),
        node("a3", "u3", "assistant", ["Mistral."]),
    )
    later = talk(*fresh, *more, update_time=1_740_000_000.0)
    report = take(vault, "chatgpt", export(tmp_path, later))
    assert (report.count(ImportOutcome.CHANGED), report.turns) == (1, 2)
    session = get_session(vault, "chatgpt-6995e870-eafc").facts
    assert (session.turns, session.ended[:10]) == (6, "2025-02-19")
    text = (vault.root / session.path).read_text()
    assert text.count("## From the transcript") == 1
    assert "Mistral." in text
    other = talk(*[{**each, "children": []} for each in NODES], current_node="old")
    report = take(vault, "chatgpt", export(tmp_path, other))
    assert report.turns == 0
    assert (vault.root / session.path).read_text() == text


def test_a_zip_in_several_files_with_items_of_other_forms_is_read_to_its_end(
    vault: Vault, tmp_path: Path
) -> None:
    def say(key: str, text: str) -> dict[str, Any]:
        return talk(node("r", None), node("u", "r", "user", [text]), name=key, title=None)

    strange = [
        {"mapping": None, "title": 5, "id": "x"},
        {"mapping": {"a": None, "b": "c"}, "current_node": "a", "id": "y"},
        talk(node("r", None), node("u", "r", "user", [{"a": 1}, None, 7]), name="z"),
        "no object",
    ]
    with zipfile.ZipFile(tmp_path / "chatgpt.zip", "w") as archive:
        archive.writestr("conversations-000.json", json.dumps([say("c-0", "One?"), *strange]))
        archive.writestr("conversations-001.json", json.dumps([say("c-1", f"My key: {AWS_KEY}")]))
        archive.writestr("user.json", json.dumps({"email": "ana@example.org"}))
        archive.writestr("chat.html", "<html>")
    report = take(vault, "chatgpt", tmp_path / "chatgpt.zip")
    assert counts(report) == {"new": 2}
    assert [text for _, text in turns_of(vault, "chatgpt-c-0")] == ["One?"]
    written = "".join(f.read_text() for f in vault.root.rglob("*.*") if ".git" not in f.parts)
    assert AWS_KEY not in written
    assert git(vault.root, "status", "--porcelain") == ""


# Claude.ai


def message(name: str, parent: str, sender: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "uuid": name,
        "text": "",
        "content": [
            {"type": "thinking", "thinking": "hidden thought"},
            {"type": "text", "text": text, "citations": []},
            {"type": "tool_use", "name": "web", "input": {}},
        ],
        "sender": sender,
        "created_at": more.pop("at", "2026-03-29T07:06:35.552627Z"),
        "updated_at": "2026-03-29T07:06:35.552627Z",
        "attachments": more.pop("attachments", []),
        "files": more.pop("files", []),
        "parent_message_uuid": parent,
    }


TOP = "00000000-0000-4000-8000-000000000000"


def claude_export(folder: Path) -> Path:
    folder.mkdir()
    chats = [
        {
            "uuid": "019d-1", "name": "Harbour calendar", "summary": "", "account": {"uuid": "a"},
            "created_at": "2026-03-29T07:06:34Z", "updated_at": "2026-03-30T08:00:00Z",
            "chat_messages": [
                message("m1", TOP, "human", "Plan the harbour days, please.",
                        attachments=[{"file_name": "", "extracted_content": "Monday: crane"}]),
                message("m2", "m1", "assistant", "An abandoned plan."),
                message("m3", "m1", "assistant", "Monday the crane.", at="2026-03-29T09:00:00Z",
                        files=[{"file_name": "plan.png"}]),
            ],
        },
        {"uuid": "019d-2", "name": "", "created_at": None, "updated_at": None,
         "chat_messages": [{"uuid": "x", "sender": "human", "text": "Ältere Form?",
                            "created_at": "2024-01-05T10:00:00Z"}]},
        {"uuid": "019d-3", "name": "empty", "chat_messages": []},
    ]  # fmt: skip
    (folder / "conversations.json").write_text(json.dumps(chats))
    (folder / "projects").mkdir()
    project = {
        "uuid": "p-1", "name": "Ferry / web", "description": "The page of the ferry.",
        "prompt_template": "Use Svelte.", "created_at": "2026-01-02T00:00:00Z", "is_private": True,
        "docs": [{"uuid": "d-1", "filename": "style.md", "content": "# Style\n\nBlue.",
                  "created_at": "2026-01-03T00:00:00Z"}, {"uuid": "d-2", "content": None}],
    }  # fmt: skip
    (folder / "projects/p-1.json").write_text(json.dumps(project))
    memory = {
        "conversations_memory": "**Work context**\n\nAna runs a ferry.\n\n**Personal**\n\nTea.",
        "project_memories": {"p-1": "Svelte is used."}, "account_uuid": "a",
    }  # fmt: skip
    (folder / "memories.json").write_text(json.dumps([memory]))
    (folder / "users.json").write_text(json.dumps([{"uuid": "a", "full_name": "Ana"}]))
    return folder


def test_claude_ais_export_gives_sessions_projects_and_what_it_remembered(
    vault: Vault, tmp_path: Path
) -> None:
    folder = claude_export(tmp_path / "data-2026")
    report = take(vault, "claude-ai", folder)
    assert report.count(ImportOutcome.NEW, ImportOutcome.NEAR) == sum(counts(report).values()) == 7
    assert turns_of(vault, "2026-03-29-harbour-calendar") == [
        ("user", "Plan the harbour days, please.\n\n[attached: text]\nMonday: crane"),
        ("assistant", "Monday the crane.\n\n[attached: plan.png]"),
    ]
    assert turns_of(vault, "claude-ai-019d-2") == [("user", "Ältere Form?")]
    facts = get_session(vault, "claude-ai-019d-2").facts
    assert (facts.started[:10], facts.ended[:10]) == ("2024-01-05", "2024-01-05")
    titles = {each.title for each in vault.view.records("d.path GLOB 'notes/imported/*'")}
    assert titles >= {"Project Ferry / web: instructions", "style.md", "Work context", "Personal"}
    assert set(counts(take(vault, "claude-ai", folder))) == {"known"}


# Transcripts


def claude_line(kind: str, **more: Any) -> str:
    plain = {"sessionId": "abd31d05", "cwd": "/home/ana/ferry-web", "gitBranch": "winter",
             "timestamp": "2026-10-20T08:00:00.000Z", "isSidechain": False}  # fmt: skip
    return json.dumps({"type": kind, **plain, **more}) + "\n"


def said(role: str, content: Any, at: str = "2026-10-20T08:00:00.000Z", **more: Any) -> str:
    return claude_line(role, message={"role": role, "content": content}, timestamp=at, **more)


CLAUDE = (
    json.dumps({"type": "summary", "summary": "Winter names of ferries", "leafUuid": "x"})
    + "\n"
    + said("user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>")
    + said("user", "Caveat: The messages below were generated", isMeta=True)
    + said("user", "Give the ferries winter names in the page.")
    + said("assistant", [{"type": "tool_use", "id": "t1", "name": "Edit",
                          "input": {"file_path": "/home/ana/ferry-web/src/names.ts"}}])
    + said("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}])
    + said("user", "a sub task", isSidechain=True)
    + said("assistant", [{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True)
    + said("assistant", [{"type": "text", "text": "The ferries are called Bora and Mistral now."}],
           "2026-10-20T09:30:00.000Z")
)  # fmt: skip
CODEX = "".join(
    json.dumps({"timestamp": "2026-10-21T10:00:00Z", "type": kind, "payload": payload}) + "\n"
    for kind, payload in (
        ("session_meta", {"id": "0199-c", "cwd": "/home/ana/pier", "git": {"branch": "main"}}),
        ("response_item", {"type": "message", "role": "developer",
                           "content": [{"type": "input_text", "text": "developer words"}]}),
        ("response_item", {"type": "message", "role": "user",
                           "content": [{"type": "input_text", "text": "Is the pier wet?"}]}),
        ("response_item", {"type": "message", "role": "assistant",
                           "content": [{"type": "output_text", "text": "It is."}]}),
    )
)  # fmt: skip


def write_transcripts(folder: Path) -> Path:
    place = folder / "projects/-home-ana-ferry-web"
    (place / "abd31d05/subagents").mkdir(parents=True)
    (place / "abd31d05.jsonl").write_text(CLAUDE)
    (place / "abd31d05/subagents/agent-1.jsonl").write_text(
        said("user", "a sub task", isSidechain=True)
    )
    (place / "empty.jsonl").write_text(json.dumps({"type": "summary", "summary": "none"}) + "\n")
    (place / "history.jsonl").write_text('{"display": "x"}\n')
    (folder / "projects/rollout.jsonl").write_text(CODEX)
    return folder / "projects"


def test_transcripts_keep_when_where_and_what_in_one_commit(vault: Vault, tmp_path: Path) -> None:
    place = write_transcripts(tmp_path)
    before = hash_tree(vault.root)
    wanted = {"new": 2, "left out": 2, "unread": 1}
    assert counts(take(vault, "transcripts", place, dry_run=True)) == wanted
    assert hash_tree(vault.root) == before
    commits = int(git(vault.root, "rev-list", "--count", "HEAD"))

    assert counts(take(vault, "transcripts", place)) == wanted
    session: Session = get_session(vault, "abd31d05")
    facts = session.facts
    assert (facts.agent, facts.workspace, facts.status) == ("claude-code", "ferry-web", "ok")
    assert (facts.started[:10], facts.ended[:10]) == ("2026-10-20", "2026-10-20")
    assert facts.started[11:] < facts.ended[11:]
    assert facts.title == "Winter names of ferries"
    assert facts.goal == "Give the ferries winter names in the page."
    assert [each.path for each in session.touched] == ["src/names.ts"]
    assert "branch: winter" in (vault.root / facts.path).read_text()
    said_here = "\n".join(text for _, text in turns_of(vault, "abd31d05"))
    for other in ("sub task", "environment_context", "Caveat", "API Error"):
        assert other not in said_here
    codex = get_session(vault, "0199-c").facts
    assert (codex.agent, codex.workspace, codex.started[:10]) == ("codex", "pier", "2026-10-21")
    assert "developer words" not in str(turns_of(vault, "0199-c"))
    assert recall(vault, parse_query("ferries called Bora"))[0].record.path == facts.path
    assert int(git(vault.root, "rev-list", "--count", "HEAD")) == commits + 1
    assert git(vault.root, "log", "-1", "--format=%an|%s") == "import|import: transcripts, 2 notes"
    assert git(vault.root, "status", "--porcelain") == ""

    head = git(vault.root, "rev-parse", "HEAD")
    assert counts(take(vault, "transcripts", place))["known"] == 2
    assert git(vault.root, "rev-parse", "HEAD") == head
    with open(place / "-home-ana-ferry-web/abd31d05.jsonl", "a") as file:
        file.write(said("user", "And the red one?", "2026-10-22T08:00:00.000Z"))
    report = take(vault, "transcripts", place)
    assert (report.count(ImportOutcome.CHANGED), report.turns) == (1, 1)
    assert get_session(vault, "abd31d05").facts.ended.startswith("2026-10-22")


def test_a_session_that_is_open_stays_so_and_its_note_is_its_own(
    vault: Vault, tmp_path: Path
) -> None:
    start_session(vault, NewSession("abd31d05", workspace=tmp_path), pick_up=False)
    path = vault.root / "sessions/abd31d05.md"
    before, head = path.read_bytes(), git(vault.root, "rev-parse", "HEAD")
    report = take(vault, "transcripts", write_transcripts(tmp_path) / "-home-ana-ferry-web")
    assert report.turns == 4
    assert path.read_bytes() == before
    assert git(vault.root, "rev-parse", "HEAD") == head


def test_transcripts_whose_import_was_killed_are_finished_by_the_next(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vaultmem.services.exchange import import_notes

    place = write_transcripts(tmp_path)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(import_notes, "_edit", dies)
        with pytest.raises(KeyboardInterrupt):
            take(vault, "transcripts", place)
    take(vault, "transcripts", place)
    facts = get_session(vault, "abd31d05").facts
    assert (facts.turns, facts.title) == (4, "Winter names of ferries")
    assert (facts.started[:10], facts.ended[:10]) == ("2026-10-20", "2026-10-20")
    assert git(vault.root, "log", "-1", "--format=%s") == "import: transcripts, 2 notes"


def test_what_is_no_transcript_at_all_is_refused(vault: Vault, tmp_path: Path) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_text("# Memory\n")
    with pytest.raises(RefusedError, match="no transcript"):
        take(vault, "transcripts", file)


def test_what_one_is_told_elsewhere_is_the_same_as_what_one_knows(
    vault: Vault, tmp_path: Path
) -> None:
    remember(vault, Memory("Ana runs the ferry Holm II."))
    report = take(vault, "chatgpt", export(tmp_path, talk(*NODES)))
    assert counts(report) == {"new": 3, "known": 1}


def zip_export(file: Path, **members: Any) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in members.items():
            archive.writestr(f"{name}.json", json.dumps(value))
    return file


CLAUDE_TALK = {
    "uuid": "595e81e3",
    "name": "Ferries",
    "created_at": "2026-11-02T10:00:00Z",
    "chat_messages": [{"uuid": "m1", "sender": "human", "text": "When does the ferry leave?"}],
}


@pytest.mark.parametrize(
    ("kind", "looks"),
    [("chatgpt", "claude-ai"), ("mem0", "claude-ai"), ("letta", "claude-ai")],
)
def test_an_export_of_another_kind_is_an_error_that_names_its_kind(
    vault: Vault, tmp_path: Path, kind: str, looks: str
) -> None:
    file = zip_export(tmp_path / "claude.zip", conversations=[CLAUDE_TALK], projects=[])
    with pytest.raises(VaultError, match=f"it looks like {looks}: `vaultmem import {looks}"):
        take(vault, kind, file)


def test_a_list_of_lettas_blocks_is_no_empty_export_of_another_kind(
    vault: Vault, tmp_path: Path
) -> None:
    file = tmp_path / "blocks.json"
    file.write_text(json.dumps([{"label": "human", "value": "Maren likes ferries.", "limit": 99}]))
    done = run_here("import", "mem0", file, cwd=vault.root)
    assert (done.code, "not an export of mem0; it looks like letta" in done.err) == (5, True), done


def test_a_chatgpt_export_is_no_claude_export(vault: Vault, tmp_path: Path) -> None:
    file = zip_export(tmp_path / "chatgpt.zip", conversations=[talk(*NODES)])
    before = hash_tree(vault.root)
    with pytest.raises(RefusedError, match=r"chatgpt\.zip: not an export of claude-ai; it looks"):
        take(vault, "claude-ai", file)
    done = run_here("import", "claude-ai", file, cwd=vault.root)
    assert (done.code, "it looks like chatgpt" in done.err) == (5, True)
    assert hash_tree(vault.root) == before


def test_an_empty_list_of_an_export_is_read(vault: Vault, tmp_path: Path) -> None:
    file = zip_export(tmp_path / "claude.zip", conversations=[CLAUDE_TALK], projects=[])
    assert counts(take(vault, "claude-ai", file)) == {"new": 1}
    empty = zip_export(tmp_path / "empty.zip", conversations=[], projects=[])
    done = run_here("import", "claude-ai", empty, cwd=vault.root)
    assert (done.code, done.out) == (0, "Nothing to import is in it.\n")


def test_a_session_is_named_by_day_and_title_and_known_under_another_title(
    vault: Vault, tmp_path: Path
) -> None:
    def export_talks(*titles: str) -> Path:
        said = [node("r", None), node("u", "r", "user", ["When does it leave?"])]
        talks = (
            talk(*({**each, "children": []} for each in said), name=f"c-{number}", title=title)
            for number, title in enumerate(titles)
        )
        return export(tmp_path, *talks)

    take(vault, "chatgpt", export_talks("The ferry!", "The ferry!", "Fähre"))
    names = sorted(path.name for path in (vault.root / "sessions").glob("*.md"))
    assert names == [
        "2025-01-27-fahre.md",
        "2025-01-27-the-ferry-c-1.md",
        "2025-01-27-the-ferry.md",
    ]

    sync_vault(vault)
    assert counts(take(vault, "chatgpt", export_talks("Renamed", "Other", "Third"))) == {"known": 3}
    (vault.root / "sessions/2025-01-27-the-ferry.md").unlink()
    sync_vault(vault)
    assert counts(take(vault, "chatgpt", export_talks("Renamed"))) == {"known": 1}
    assert not list((vault.root / "sessions").glob("*renamed*"))
