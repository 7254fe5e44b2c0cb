"""What is written through the front of a fleet passes the hub's door: its remotes have none."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hub_serving import PicklingPool, Team, play_at
from remote_vaults import Remotes, Told
from serving import refused
from support import git

from vaultmem.errors import ForbiddenError, NoteNotFoundError
from vaultmem.hub.pool_workers import WriteGuard
from vaultmem.services.fleet.pool import Pool
from vaultmem.services.hub.grants import read_grants, revoke
from vaultmem.services.hub.hub_access import find_pusher
from vaultmem.services.hub.hub_folder import CONFIG_NAME, AuditEntry, read_audit
from vaultmem.vault import Vault
from vaultmem.workers import HubPrincipal

#: Made up, of the form of such a key.
KEY = "AKIA" + "Q3EGRZ7NVTPX2WLD"

NOTES = {
    "notes/a/pier.md": "# Pier\n\nThe pier is of oak.\n",
    "notes/b/crane.md": "# Crane\n\nThe crane lifts twelve tonnes.\n",
}


class Fleet(NamedTuple):
    """A front, the pool behind it, and the bare repositories of some host's behind that."""

    team: Team
    pool: Pool
    remotes: Remotes

    def see(self, vault: str = "harbour") -> dict[str, str]:
        """Return the branches of a remote, by name."""
        wanted = ("for-each-ref", "--format=%(refname) %(objectname)")
        told = git(self.remotes.folder / f"{vault}.git", *wanted)
        return dict(line.split(" ") for line in told.splitlines())

    def show(self, what: str, vault: str = "harbour") -> str:
        return git(self.remotes.folder / f"{vault}.git", "show", what)

    def change(self, token: str, path: str, old: str, new: str) -> tuple[int, str]:
        """Change a note by the API."""
        with self.team.client(token) as client:
            place = f"/v/harbour/api/v1/notes/{path}"
            tag = {"If-Match": client.get(place).headers["etag"]}
            done = client.patch(place, json={"old_text": old, "new_text": new}, headers=tag)
        return done.status_code, done.text

    def post(self, token: str, place: str, vault: str = "harbour", **given: Any) -> tuple[int, str]:
        with self.team.client(token) as client:
            done = client.post(f"/v/{vault}/api/v1/{place}", json=given)
        return done.status_code, done.text

    def last(self) -> tuple[AuditEntry, AuditEntry]:
        """Return what the record says last: that a write began, and what came of it."""
        came, begun, *_ = (each for each in read_audit(self.team.hub) if each.what != "ask")
        assert (begun.what, begun.outcome, came.what) == ("write", "begun", "push")
        assert begun.vaults == came.vaults
        assert begun[1:4] == came[1:4]
        return begun, came


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Serve two vaults by a pool to which all goes as to another process; `none` is empty."""
    folder = tmp_path_factory.mktemp("fleet")
    remotes = Remotes(folder / "remotes")
    settings = Told("", {"vaultmem.yaml": "allow_secrets: [notes]\n"}, 1_790_000_100)
    remotes.make("harbour", Told("", NOTES, 1_790_000_000), settings)
    git(folder / "remotes/harbour.git", "branch", "tuning", "main")  # By git, past the front.
    git(folder / "remotes/harbour.git", "update-ref", "refs/heads/main", "main~1")
    shutil.copytree(folder / "remotes/empty.git", folder / "remotes/none.git")
    empty = remotes.sources[0]._replace(name="none", remote=str(folder / "remotes/none.git"))
    pool = PicklingPool([*remotes.sources, empty], folder / "clones", fresh_for=0.0)
    team = Team(folder, folder, [])
    (team.hub.folder / CONFIG_NAME).write_text("version: 1\nnote_bytes: 2K\n")
    team.serve(pool=pool)
    yield Fleet(team, pool, remotes)
    team.close()
    pool.close()


@pytest.mark.campaign
def test_a_folders_token_writes_in_that_folder_alone(fleet: Fleet) -> None:
    porter = fleet.team.agent("porter", write="harbour:notes/a")
    before = fleet.see()
    status, told = fleet.change(porter, "notes/a/pier.md", "oak", "pine")
    assert status == 200, told
    now = fleet.see()
    assert "pine" in fleet.show("main:notes/a/pier.md")
    begun, came = fleet.last()
    assert begun.details == {"operation": "update_note"}
    assert (came.who, came.origin, came.outcome) == ("porter", "api", "done")
    moved = {"ref": "refs/heads/main", "old": before["refs/heads/main"]}
    assert came.details == {"refs": [moved | {"new": now["refs/heads/main"]}], "refused": []}

    tries = [
        (fleet.change(porter, "notes/b/crane.md", "twelve", "two"), "notes/b/crane.md: is not"),
        (fleet.post(porter, "notes", text="The lamp is green."), "is not yours to write"),
        (fleet.post(porter, "merge", branch="tuning"), "changed by the vault's owners alone"),
        (fleet.post(porter, "notes?ref=tuning", text="The lamp."), "which only an owner moves"),
    ]
    for (status, told), why in tries:
        assert status == 403, told
        assert why in told
    status, told = fleet.change(porter, "notes/a/pier.md", "pine", KEY)
    assert (status, "looks like a credential" in told) == (422, True), told
    assert "credential" in fleet.last()[1].details["refused"][0]
    assert fleet.see() == now
    on_record = [each for each in read_audit(fleet.team.hub, "porter") if each.what != "ask"][::-1]
    assert len(on_record) == 2 * (len(tries) + 2)
    for (_, why), begun, came in zip(tries, on_record[2::2], on_record[3::2], strict=False):
        assert (begun.what, begun.outcome, came.outcome) == ("write", "begun", "refused")
        (line,), (ref,) = came.details["refused"], came.details["refs"]
        assert why in line
        assert ref["old"] == now[ref["ref"]] != ref["new"]
    assert KEY not in str(on_record)

    async def scene(client: Any) -> str:
        return await refused(client, "remember", vault="harbour", text="The lamp is green.")

    assert "is not yours to write" in play_at(f"{fleet.team.address}/mcp", porter, scene)
    assert fleet.last()[1].origin == "mcp"
    assert fleet.see() == now
    with fleet.team.client(porter) as client:  # Nothing of it stayed in the clone.
        assert "twelve" in client.get("/v/harbour/api/v1/notes/notes/b/crane.md").text


@pytest.mark.campaign
def test_who_may_only_propose_does_on_a_branch_of_theirs(fleet: Fleet) -> None:
    scribe, before = fleet.team.agent("scribe", propose="harbour:notes/inbox"), fleet.see()
    status, told = fleet.post(scribe, "notes", text="The tide comes at noon.")
    assert status == 201, told
    proposal = "refs/heads/proposals/scribe/notes"
    assert fleet.see() == {**before, proposal: fleet.see()[proposal]}
    assert fleet.last()[1].details["refs"][0]["ref"] == proposal
    there = fleet.see()
    status, told = fleet.post(scribe, "notes", text="The ebb is late.", context="weather")
    assert (status, "is not yours to propose" in told) == (403, True), told
    assert fleet.see() == there


@pytest.mark.campaign
def test_an_owner_may_do_all_but_what_nobody_may(fleet: Fleet) -> None:
    maren = fleet.team.person("maren", own="*")
    assert fleet.post(maren, "merge", branch="tuning")[0] == 200
    assert "allow_secrets" in fleet.show("main:vaultmem.yaml")
    before = fleet.see()
    status, told = fleet.post(maren, "notes", text="The chart says:" + " mud, sand" * 250)
    assert (status, "a note may have 2,048 here" in told) == (403, True), told
    assert fleet.see() == before
    status, told = fleet.post(maren, "notes", vault="none", text="The first note is this.")
    assert status == 201, told
    refs = fleet.last()[1].details["refs"]  # It has begun, and then a note.
    assert [each["ref"] for each in refs] == ["refs/heads/main"] * 2
    assert refs[0]["old"] == "0" * 40
    assert refs[0]["new"] == refs[1]["old"]
    assert refs[1]["new"] == fleet.see("none")["refs/heads/main"]
    assert fleet.show("-s", "none").count("Author: maren <maren@example.org>") == 1


def test_what_cannot_be_put_on_record_or_is_nobodys_is_not_begun(fleet: Fleet) -> None:
    team, before = fleet.team, fleet.see()
    bosun, record = team.agent("bosun", write="harbour"), team.hub.folder / "audit"
    with team.client(bosun) as client:
        place = "/v/harbour/api/v1/notes"
        record.rename(team.folder / "away")
        record.touch()
        done = client.post(place, json={"text": "The buoy is red."})
        assert done.status_code == 500
        record.unlink()
        (team.folder / "away").rename(record)
        count = len(list(read_audit(team.hub)))
    id = next(each.id for each in read_grants(team.hub) if each.name == "bosun")
    pusher = find_pusher(team.hub, "harbour", id, time.time())
    assert pusher
    assert not pusher.grant.digest
    guest, keeper = HubPrincipal("bosun", id), WriteGuard(team.hub)
    done = keeper.write(fleet.pool, "away", _touch, {}, guest, "", "touch")
    assert not done.cancel()
    with pytest.raises(NoteNotFoundError):
        done.result()
    assert fleet.last()[1].outcome == "failed"
    revoke(team.hub, "bosun", time.time())
    with pytest.raises(ForbiddenError, match="does not count any more"):
        keeper.write(fleet.pool, "harbour", _touch, {}, guest, "", "touch")
    assert fleet.see() == before
    assert len(list(read_audit(team.hub))) == count + 2


def _touch(vault: Vault) -> None:
    (vault.root / "notes/touched.md").write_text("# Touched\n")
