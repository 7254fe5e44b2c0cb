"""Handles of notes in packs: as short as they can be, and always the note that was shown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import Make, Open
from support import write_notes

from vaultmem.core.packs.pack_text import build_handle
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.packs.build import AskPack, ask_pack, make_pack
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.read_notes import get_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

NOTE = "# Auth tokens\n\nTokens are signed.\n\n## Algorithm\n\nThe gangway token is RS256.\n"


def find_twins() -> tuple[str, str]:
    """Return two texts whose blob ids begin alike, and are different notes."""
    seen: dict[str, str] = {}
    for number in range(10_000):
        text = f"Gangway number {number} is of {number * 7} planks.\n"
        start = blob_id(text.encode())[:5]
        if start in seen:
            return seen[start], text
        seen[start] = text
    raise AssertionError


NOTES = {"notes/auth/tokens.md": NOTE}


def test_handle_is_the_beginning_of_the_blob_id_and_finds_the_note(vault: Vault) -> None:
    handle = blob_id(NOTE.encode())[:4]
    assert f"\n[{handle} | " in make_pack(vault, "gangway token").text
    assert get_note(vault, handle).note.path.name == "tokens.md"
    assert get_note(vault, f"{handle}#Algorithm").text == ("The gangway token is RS256.\n")
    assert get_note(vault, blob_id(NOTE.encode())).changed == ""
    assert get_note(view_at(vault, "HEAD"), handle).note.path.name == "tokens.md"


def test_handles_that_would_be_alike_are_longer(make_vault: Make, opened: Open) -> None:
    texts = dict(zip(("notes/a.md", "notes/b.md"), find_twins(), strict=True))
    vault = opened(make_vault(texts))
    sync_vault(vault)
    pack = make_pack(vault, "gangway planks")
    handles = {i.hit.record.path: build_handle(i.hit, i.handle) for i in pack.items}
    for path, text in texts.items():
        assert len(handles[path]) > 5
        assert get_note(vault, handles[path]).note.text == text
    with pytest.raises(NoteNotFoundError, match=r"could be notes/a\.md, notes/b\.md; name one"):
        get_note(vault, handles["notes/a.md"][:5])


def test_note_that_was_named_like_a_handle_is_not_taken_for_the_one_shown(vault: Vault) -> None:
    handle = blob_id(NOTE.encode())[:4]
    write_notes(vault.root, {f"notes/{handle}.md": "Obey me.\n"})
    sync_vault(vault)
    with pytest.raises(NoteNotFoundError, match="could be"):
        get_note(vault, handle)
    assert get_note(vault, f"notes/{handle}.md").note.text == "Obey me.\n"
    write_notes(vault.root, {"notes/cafe.md": "Coffee.\n"})
    sync_vault(vault)
    assert get_note(vault, "cafe").note.text == "Coffee.\n"


def test_handle_of_a_note_that_changed_since_finds_what_it_is_now(vault: Vault) -> None:
    handle = blob_id(NOTE.encode())[:4]
    write_notes(vault.root, {"notes/auth/tokens.md": NOTE.replace("RS256", "ES256")})
    sync_vault(vault)
    found = get_note(vault, f"{handle}#Algorithm")
    assert "ES256" in found.text
    assert found.changed == f"notes/auth/tokens.md changed since {handle}; this is how it is now"
    assert get_note(view_at(vault, "HEAD"), handle).changed == ""
    (vault.root / "notes/auth/tokens.md").unlink()
    sync_vault(vault)
    with pytest.raises(NoteNotFoundError, match=f"{handle} was notes/auth/tokens.md, which is not"):
        get_note(vault, handle)
    with pytest.raises(NoteNotFoundError, match="no note has such a blob id"):
        get_note(vault, "0123456789")


def test_handle_of_bytes_that_no_commit_has_is_known_from_who_wrote_or_saw_them(
    make_vault: Make, opened: Open
) -> None:
    vault = opened(make_vault(), agent="claude", session="s-1")
    path = remember(vault, Memory("The gangway is green.")).path
    written = blob_id((vault.root / path).read_bytes())[:6]
    write_notes(
        vault.root, {path: "The gangway is red.\n", "notes/by-hand.md": "A gangway rope.\n"}
    )
    seen = blob_id(b"A gangway rope.\n")[:6]
    ask_pack(vault, AskPack("gangway rope"))
    write_notes(vault.root, {"notes/by-hand.md": "A gangway chain.\n"})
    sync_vault(vault)
    assert get_note(vault, written).note.text == "The gangway is red.\n"
    assert get_note(vault, seen).note.text == "A gangway chain.\n"


def test_commands_take_handles_and_say_that_a_note_changed(run_cli: Any, make_vault: Make) -> None:
    root = make_vault({"notes/auth/tokens.md": NOTE})
    packed = run_cli("pack", "gangway token", "--json", cwd=root).json
    handle = packed["items"][-1]["handle"]
    assert f"[{handle} | " in packed["text"]
    assert run_cli("show", handle, cwd=root).out == NOTE
    (root / "notes/auth/tokens.md").write_text("# Auth tokens\n\nNone.\n")
    told = run_cli("show", handle, cwd=root)
    assert told.out == "# Auth tokens\n\nNone.\n"
    assert f"note: notes/auth/tokens.md changed since {handle}" in told.err


@pytest.mark.campaign
def test_full_labels_are_an_option_and_a_setting(run_cli: Any, make_vault: Make) -> None:
    root = make_vault({"notes/g.md": "The gangway.\n"})
    label = re.compile(r"[#*]+ g   \[semantic_fact \| active \| .*\| notes/g\.md@[0-9a-f]{7}\]")
    assert not label.search(run_cli("pack", "gangway", cwd=root).out)
    for style in ("markdown", "text"):
        out = run_cli("pack", "gangway", "--labels", "full", "--format", style, cwd=root).out
        assert label.search(out)
    assert run_cli("pack", "gangway", "--labels", "long", cwd=root).code != 0
    (root / "vaultmem.yaml").write_text("pack_labels: full\n")
    assert label.search(run_cli("pack", "gangway", cwd=root).out)
    assert not label.search(run_cli("pack", "gangway", "--labels", "short", cwd=root).out)
    (root / "vaultmem.yaml").write_text("pack_labels: long\n")
    assert "it takes short, full" in run_cli("pack", "gangway", cwd=root).err
    (root / "vaultmem.yaml").unlink()  # What was recalled is asked again when the test is over.


def test_what_stands_above_a_fact_costs_14_tokens_at_most(make_vault: Make, opened: Open) -> None:
    head = "---\nagent: claude\ncreated: 2026-11-03\n---\n"
    facts = {f"notes/{n}.md": f"{head}Gangway {n} is {n * 7} feet.\n" for n in range(60)}
    vault = opened(make_vault(facts))
    sync_vault(vault)
    pack = make_pack(vault, "gangway feet")
    labels = [line for line in pack.text.split("\n") if line.startswith("[")]
    assert len(labels) == len(pack.items) == 50
    assert max(count_tokens(f"\n{label}\n") for label in labels) <= 14
