"""Who may do what in a hub, and what its own files stand."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vaultmem.errors import NoVaultError, RefusedError, VaultError
from vaultmem.services.hub.grants import (
    Grant,
    GrantKind,
    GrantScope,
    find_by_id,
    find_grant,
    make_grant,
    may,
    read_grants,
)
from vaultmem.services.hub.hub_folder import (
    CONFIG_NAME,
    AuditEntry,
    Hub,
    count_broken,
    make_hub,
    open_hub,
    parse_limits,
    read_audit,
    record,
)

NOW = 1_795_000_000.0
READ, PROPOSE, WRITE, OWN = GrantScope


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return make_hub(tmp_path / "hub")


@pytest.mark.parametrize(
    ("scopes", "vault", "path", "allowed"),
    [
        ({OWN: ["*"]}, "payments", "", [READ, PROPOSE, WRITE, OWN]),
        ({WRITE: ["team-*"]}, "team-a", "", [READ, PROPOSE, WRITE]),
        ({WRITE: ["team-*"]}, "teams", "", []),
        ({WRITE: ["payments"]}, "payments2", None, []),
        ({PROPOSE: ["payments"], WRITE: ["payments:n/r"]}, "payments", "n/r/a.md",
         [READ, PROPOSE, WRITE]),
        ({PROPOSE: ["payments"], WRITE: ["payments:n/r"]}, "payments", "n/ra.md", [READ, PROPOSE]),
        ({WRITE: ["payments:n/r"]}, "payments", "n/r", [READ, PROPOSE, WRITE]),
        ({WRITE: ["payments:n/r"]}, "payments", "", [READ]),
        ({WRITE: ["payments:n/r"]}, "payments", None, [READ, PROPOSE, WRITE]),
        ({OWN: ["p*:n"]}, "payments", "n/x.md", [READ, PROPOSE, WRITE, OWN]),
        ({READ: ["payments"]}, "payments", "any/thing.md", [READ]),
    ],
)  # fmt: skip
def test_scopes_include_lower_ones_and_end_at_their_folder(
    scopes: dict[GrantScope, list[str]], vault: str, path: str | None, allowed: list[GrantScope]
) -> None:
    kept = {scope: tuple(each) for scope, each in scopes.items()}
    grant = Grant("1", "ada", GrantKind.PERSON, scopes=kept)
    assert [scope for scope in GrantScope if may(grant, vault, scope, path)] == allowed


def test_a_token_lets_in_until_it_ends(hub: Hub) -> None:
    _, short = make_grant(hub, "ada", GrantKind.PERSON, {READ: ["*"]}, NOW, expires=NOW + 10)
    long, token = make_grant(hub, "ada", GrantKind.PERSON, {READ: ["*"]}, NOW)
    found = find_grant(hub, token, NOW + 5)
    assert found is not None
    assert found.id == long.id
    assert {each.used for each in read_grants(hub)} == {0.0, NOW + 5}
    assert find_grant(hub, short, NOW + 11) is None
    for wrong in ("", "vmhub_", token[:-1], token + "x", token.upper(), "\udcff", long.digest):
        assert find_grant(hub, wrong, NOW) is None
    assert find_by_id(hub, long.id, NOW) is not None
    assert find_by_id(hub, "", NOW) is None
    assert find_by_id(hub, read_grants(hub)[0].id, NOW + 11) is None


@pytest.mark.guarantee
def test_nobody_is_let_in_by_files_that_cannot_be_read(hub: Hub) -> None:
    _, token = make_grant(hub, "ada", GrantKind.PERSON, {OWN: ["*"]}, NOW, ["ada@x.org"])
    file = hub.folder / "grants.json"
    whole = file.read_text()
    for text in (whole[:-40], "[]", whole.replace('"person"', '"god"'), "{}",
                 whole.replace('"version": 1', '"version": 2')):  # fmt: skip
        file.write_text(text)
        with pytest.raises(VaultError):
            find_grant(hub, token, NOW)
    file.write_text(whole)
    assert find_grant(hub, token, NOW)
    settings = hub.folder / CONFIG_NAME
    settings.write_text("version: 2\n")
    with pytest.raises(VaultError, match="newer vaultmem"):
        open_hub(hub.folder)
    settings.unlink()
    with pytest.raises(NoVaultError):
        open_hub(hub.folder)


def test_settings_say_what_is_wrong_with_them() -> None:
    assert parse_limits("push_bytes: 2M # a push\nnote_bytes: 10\n").push_bytes == 2 * 1024**2
    for text, says in (("push_byte: 1", "push_bytes"), ("seconds: 0", "more than 0"),
                       ("seconds: no", "line 1"), ("a", "line 1")):  # fmt: skip
        with pytest.raises(VaultError, match=says):
            parse_limits(text)


def test_each_start_finds_a_whole_folder(hub: Hub, tmp_path: Path) -> None:
    left = hub.repositories / ".making-x" / "objects"
    left.mkdir(parents=True)
    (hub.folder / ".vaultmem-0a.tmp").write_text("half")
    (hub.hooks / "pre-receive").write_text("#!/bin/sh\nexit 0\n")
    (hub.folder / "audit" / "2026-11.jsonl").write_bytes(b'{"at": 1')
    for name in ("removed", "audit"):
        assert (hub.folder / name).is_dir()
    (hub.folder / "removed").rmdir()
    open_hub(hub.folder)
    assert not left.parent.exists()
    assert not (hub.folder / ".vaultmem-0a.tmp").exists()
    assert "vaultmem.cli.push_check" in (hub.hooks / "pre-receive").read_text()
    record(hub, AuditEntry(NOW, "ada", "1", "", "push", ("payments",), "done"))
    assert [each.who for each in read_audit(hub)] == ["ada"]
    assert count_broken(hub) == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("x")
    with pytest.raises(RefusedError, match="something else"):
        make_hub(tmp_path / "other")
    half = tmp_path / "half"
    (half / "repositories").mkdir(parents=True)
    assert open_hub(make_hub(half).folder)


def test_the_record_is_kept_by_month_and_asked_by_what_it_says(hub: Hub) -> None:
    def note(number: int) -> None:
        who, what = ("ada", "push") if number % 2 else ("bob", "ask")
        outcome = "refused" if number % 3 else "done"
        record(
            hub, AuditEntry(NOW + number * 86_400, who, f"{number}", "", what, ("a", "b"), outcome)
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(note, range(40)))
    assert len(list((hub.folder / "audit").glob("*.jsonl"))) == 2
    assert count_broken(hub) == 0
    assert len(list(read_audit(hub))) == 40
    assert len(list(read_audit(hub, who="ada", outcome="refused"))) == 13
    assert [each.grant for each in read_audit(hub, who="7")] == ["7"]
    assert not list(read_audit(hub, vault="c"))
    assert len(list(read_audit(hub, since=NOW + 86_400 * 30, what="ask"))) == 5
    row = json.loads(next(iter((hub.folder / "audit").glob("*.jsonl"))).read_text().splitlines()[0])
    assert row["time"].endswith("Z")


def test_many_who_grant_at_once_lose_none(hub: Hub) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(
            pool.map(
                lambda n: make_grant(hub, f"n{n}", GrantKind.AGENT, {READ: ["*"]}, NOW), range(12)
            )
        )
    assert {each.name for each in read_grants(hub)} == {f"n{n}" for n in range(12)}
