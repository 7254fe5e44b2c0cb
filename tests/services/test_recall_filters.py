"""Filters of recall and list, on real notes."""

from __future__ import annotations

from pathlib import Path

from conftest import Make, Open, RunCli

from vaultmem.core.search.query import parse_query
from vaultmem.operations.filters import Filters
from vaultmem.services.search.recall import recall
from vaultmem.services.views.read_notes import list_notes
from vaultmem.services.views.update_index import sync_vault

NOTES = {
    "notes/auth/tokens.md": (
        "---\ntags: [auth/tokens]\nkind: decision\nagent: claude\nsession: s-1\n"
        "created: 2026-03-01\n---\nThe winch.\n"
    ),
    "notes/auth/keys.md": (
        "---\ntags: [auth]\nagent: codex\nsession: s-2\ncreated: 2026-04-01T12:00:00\n---\n"
        "The winch.\n"
    ),
    "notes/ops/pier.md": (
        "---\ntags: [author]\nkind: decision\nstate: stale\ncreated: 2025-01-01\n"
        "updated: 2026-05-01\n---\nThe winch.\n"
    ),
    "primed/manual/winch.md": "---\nstate: archived\ncreated: 2024-01-01\n---\nThe winch.\n",
}


TABLE = [
    (Filters(tag=("auth",)), {"tokens", "keys"}),
    (Filters(tag=("auth/tokens",)), {"tokens"}),
    (Filters(kind=("decision",)), {"tokens", "pier"}),
    (Filters(state=("archived",)), {"winch"}),
    (Filters(context="auth"), {"tokens", "keys"}),
    (Filters(from_agent="claude"), {"tokens"}),
    (Filters(from_session="s-2"), {"keys"}),
    (Filters(since="2026-04-01"), {"keys", "pier"}),
    (Filters(until="2026-03-01"), {"tokens"}),
    (Filters(since="2026-03-02", until="2026-04-01"), {"keys"}),
    (Filters(path=("notes/ops",)), {"pier"}),
    (Filters(path=("*/auth/*k*",)), {"tokens", "keys"}),
    (Filters(path=("notes/op",)), set()),
    (
        Filters(
            path=(
                "notes/ops",
                "notes/auth/keys.md",
            )
        ),
        {"pier", "keys"},
    ),
    (Filters(kind=("decision",), from_session="s-1", tag=("auth",)), {"tokens"}),
]


def test_filters_let_through_what_they_name(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    sync_vault(vault)
    for only, wanted in TABLE:
        hits = recall(vault, parse_query("winch", 20, only.make_filter()))
        assert {Path(hit.record.path).stem for hit in hits} == wanted, only
        listed = list_notes(vault, only.make_filter(any_state=True))
        hidden = {"winch"} if only == Filters(until="2026-03-01") else set()
        names = {Path(record.path).stem for record in listed} - {"MEMORY", "USER"}
        assert names == wanted | hidden, only


def test_the_commands_take_filters(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    options = ["--from-session", "s-2", "--since", "2026-03-02", "--path", "notes", "--json"]
    told = run_cli("recall", "--vault", root, *options, "winch")
    assert [hit["path"] for hit in told.json["hits"]] == ["notes/auth/keys.md"]
    told = run_cli("list", "--vault", root, *options)
    assert [note["path"] for note in told.json["notes"]] == ["notes/auth/keys.md"]


def test_a_date_that_is_none_is_refused(make_vault: Make, run_cli: RunCli) -> None:
    told = run_cli("recall", "--vault", make_vault(NOTES), "--since", "yesterday", "winch")
    assert told.code == 5
    assert "yesterday" in told.err
