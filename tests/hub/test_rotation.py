"""A token is replaced by a new one: both count for a while, and who has the old one is warned."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from hub_serving import Team
from in_process import run_here
from support import git

from vaultmem.services.hub.grants import EXPIRY_WARNING_SECONDS, read_grants
from vaultmem.services.hub.hub_folder import read_audit

pytestmark = pytest.mark.campaign

_DAY = 86_400


def _hub(team: Team, *words: str) -> Any:
    return run_here("hub", *words, "--hub", team.hub.folder)


def test_a_token_is_replaced_and_its_holder_warned(team: Team) -> None:
    clone = team.clone("harbour", "jonas", team.person("jonas", write="harbour"))
    assert "warning" not in run_here("sync", cwd=clone).err
    (old,) = read_grants(team.hub)
    begun = time.time()
    done = _hub(team, "grant", "jonas", "--rotate")
    (new,) = re.findall(r"^token   (vmhub_\S+)$", done.out, re.MULTILINE)
    ended, made = read_grants(team.hub)
    assert begun + 7 * _DAY <= ended.expires <= time.time() + 7 * _DAY
    shown = time.strftime("%Y-%m-%d %H:%M", time.localtime(ended.expires))
    assert f"ends    the old token, {old.id}, on {shown}" in done.out
    assert made._replace(id="", digest="", created=0.0) == old._replace(
        id="", digest="", created=0.0, used=0.0
    )
    assert f"ends {shown}, replaced by {made.id}" in _hub(team, "grants").out

    assert run_here("remember", "The quay is long.", cwd=clone).code == 0
    warned = run_here("sync", cwd=clone)
    assert (warned.code, "pushed" in warned.out) == (0, True)
    told = f"warning: your token for origin ends on {shown}; ask the hub's owner for a new one"
    assert told in warned.err
    assert run_here("sync", "--json", cwd=clone).json["token_ends"] == int(ended.expires)
    git(clone, "remote", "set-url", "origin", team.url("harbour", new, "jonas"))
    assert run_here("remember", "The lamp is green.", cwd=clone).code == 0
    synced = run_here("sync", cwd=clone)
    assert (synced.code, "pushed" in synced.out, synced.err) == (0, True, "")
    assert {each.who for each in read_audit(team.hub, what="push")} == {"jonas"}


def test_who_only_reads_is_warned_before_a_token_expires(team: Team) -> None:
    now = time.time()
    for name, expires in (
        ("soon", now + EXPIRY_WARNING_SECONDS - _DAY),
        ("later", now + EXPIRY_WARNING_SECONDS + _DAY),
        ("never", 0),
    ):
        token = team.person(name, expires=expires, read="harbour")
        clone = team.clone("harbour", name, token)
        assert ("ends on" in run_here("sync", cwd=clone).err) == (name == "soon")
        with team.client(token) as client:
            headers = client.get("/v/harbour/api/v1/status").headers
            assert ("vaultmem-token-ends" in headers) == (name == "soon")


def test_after_its_grace_a_replaced_token_counts_no_more(team: Team) -> None:
    token = team.agent("scout", read="*")
    done = _hub(team, "grant", read_grants(team.hub)[0].id, "--rotate", "--grace", "0h", "--json")
    assert done.json["replaces"]["replaced_by"] == done.json["id"]
    for shown, status in ((token, 401), (done.json["token"], 200)):
        with team.client(shown) as client:
            assert client.get("/v/harbour/api/v1/status").status_code == status
            place = "/git/harbour.git/info/refs?service=git-upload-pack"
            assert client.get(place).status_code == status
    assert "expired" in _hub(team, "grants").out


def test_what_cannot_be_rotated_is_said(team: Team, tmp_path: Path) -> None:
    team.agent("scout", read="*")
    first = read_grants(team.hub)[0].id
    again = _hub(team, "grant", "scout", "--agent", "--read", "harbour")
    assert f"counts  1 older token of scout as before: {first}" in again.out
    several = _hub(team, "grant", "scout", "--rotate")
    assert (several.code, f"has 2 tokens; name the id of one: {first}" in several.err) == (5, True)
    day = ("--expires", "2099-01-31")
    rotated = _hub(team, "grant", first, "--rotate", "--grace", "12h", *day, "--json").json
    assert rotated["expires"] - time.time() > 365 * _DAY
    assert rotated["scopes"] == {"read": ["*"]}
    twice = _hub(team, "grant", first, "--rotate")
    assert (twice.code, f"is replaced by {rotated['id']} already" in twice.err) == (5, True)
    for words, code in (
        (["nobody", "--rotate"], 4),
        ([rotated["id"], "--rotate", "--read", "*"], 5),
        ([rotated["id"], "--rotate", "--grace", "soon"], 5),
        (["scout", "--agent", "--read", "*", "--grace", "7d"], 5),
    ):
        assert _hub(team, "grant", *words).code == code, words
