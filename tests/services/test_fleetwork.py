"""Work over all vaults of a pool: what is found, what is kept, what is asked again."""

import threading
from pathlib import Path

import pytest
from remote_vaults import Remotes, Told

from vaultmem.core.packs.receipt import expect
from vaultmem.errors import RefusedError
from vaultmem.services.fleet.jobs import (
    FleetJob,
    JobOptions,
    compact_all,
    curate_all,
    find_believers,
    judge_all,
    run_job,
)
from vaultmem.services.fleet.pool import LocalPool, Pool
from vaultmem.storage.value_store import JobResultCache
from vaultmem.vault import Vault

NOW = 1_790_000_000
FACT = "Refunds go through the queue."
ASKED = expect("how are refunds handled?", [], ["through the QUEUE"], negated=False, budget=0)


@pytest.fixture(scope="module")
def remotes(tmp_path_factory: pytest.TempPathFactory) -> Remotes:
    """Four vaults: beta was told first, and moved it since; gamma knows nothing of it."""
    made = Remotes(tmp_path_factory.mktemp("fleet") / "remotes")
    pay = "Payments are made at night.\n"
    made.make(
        "alpha",
        Told("dock-bot", {"notes/refunds.md": f"{FACT}\n"}, NOW + 500, "s1"),
        Told("", {"notes/refunds.md": f"{FACT}\n\nSee the pier.\n"}, NOW + 900),
    )
    made.make(
        "beta",
        Told("quay-bot", {"notes/pay.md": pay}, NOW),
        Told("quay-bot", {"notes/pay.md": f"{pay}\n{FACT}\n"}, NOW + 100, "s9"),
        Told("quay-bot", {"notes/pay.md": pay, "notes/refunds.md": f"{FACT}\n"}, NOW + 200, "s10"),
    )
    made.make("gamma", Told("tide-bot", {"notes/a.md": "The tide turns at noon.\n"}, NOW))
    text = f'---\nsource: "alpha:notes/refunds.md"\n---\n{FACT} Always.\n'
    made.make("delta", Told("tide-bot", {"notes/b.md": text}, NOW + 1_000))
    return made


def _open(remotes: Remotes, folder: Path) -> Pool:
    return LocalPool(remotes.sources, folder, fresh_for=0)


def _names(vault: Vault) -> list[str]:
    return sorted(vault.view.blobs())


@pytest.mark.campaign
def test_who_believes_what_since_when(remotes: Remotes, tmp_path: Path) -> None:
    pool = _open(remotes, tmp_path / "pool")
    kept = JobResultCache(tmp_path / "pool", NOW + 5_000)
    options = JobOptions(kept)
    found = find_believers(pool, [], options, ASKED)
    judged = judge_all(pool, [], options, ASKED)
    assert not any(value for name, value in judged.items() if name != "gamma")
    assert judged.read("gamma") == ['no section of the pack contains "through the QUEUE"']
    assert not compact_all(pool, ["alpha"], options).read("alpha")["steps"]
    assert list(dict(curate_all(pool, ["beta", "alpha"], options).items())) == ["beta", "alpha"]
    with pytest.raises(RefusedError, match="--absent"):
        find_believers(pool, [], options, expect("x", [], ["y"], negated=True, budget=0))
    pool.close()
    told = [(name, e.agent, e.session, e.at - NOW) for name, e in found.believers]
    assert told == [
        ("beta", "quay-bot", "s9", 100),
        ("alpha", "dock-bot", "s1", 500),
        ("delta", "tide-bot", "", 1_000),
    ]
    assert found.believers[-1][1].source == "alpha:notes/refunds.md"
    assert found.others == ("gamma",)


def test_only_what_changed_is_asked_again(remotes: Remotes, tmp_path: Path) -> None:
    made = Remotes(tmp_path / "remotes")
    for name in ("one", "two", "three"):
        made.make(name, Told("bot", {"notes/a.md": "The tide turns.\n"}, NOW))
    told: list[int] = []

    def stop(done: int, total: int) -> None:
        told.append(done)
        if done == 2:
            raise KeyboardInterrupt

    work = FleetJob("naming", _names)
    pool = _open(made, tmp_path / "pool")
    kept = JobResultCache(tmp_path / "pool", NOW)
    with pytest.raises(KeyboardInterrupt):
        run_job(pool, [], JobOptions(kept, start_progress=lambda _: stop), work)
    pool.close()
    assert told == [1, 2]
    made.add("two", Told("bot", {"notes/b.md": "The pier opens.\n"}, NOW + 1))
    (made.folder / "one.git").rename(made.folder / "away.git")
    pool = _open(made, tmp_path / "pool")
    kept = JobResultCache(tmp_path / "pool", NOW)
    found = run_job(pool, [], JobOptions(kept), work)
    assert found.run_count in {1, 2}  # One of those that were done may be the one that changed.
    assert dict(found.items())["two"] == ["notes/a.md", "notes/b.md"]
    assert list(found.stale_reasons) == ["one"]
    assert run_job(pool, [], JobOptions(kept), work).run_count == 0
    assert run_job(pool, [], JobOptions(kept, restarts=True), work).run_count == 3
    pool.close()


@pytest.mark.campaign
def test_what_does_not_answer_is_named(remotes: Remotes, tmp_path: Path) -> None:
    """One is in no repository, and one never ends; the next time all go on."""
    alpha, beta, _gamma, delta = remotes.sources
    lost = alpha._replace(name="lost", remote=str(tmp_path / "nowhere.git"))
    pool = LocalPool([alpha, lost, beta, delta], tmp_path / "pool", fresh_for=1_000)
    work = FleetJob("waiting", _wait_in_beta)
    kept = JobResultCache(tmp_path / "pool", NOW)
    pool.each(None, _names)
    try:
        found = run_job(pool, [], JobOptions(kept, seconds=0.5), work)
    finally:
        _RELEASED.set()
    assert list(found.completed_vaults) == ["alpha", "delta"]
    assert "not appear to be a git repository" in found.missing["lost"]
    assert found.missing["beta"] == "no answer in time (0.5 s)"
    found = run_job(pool, [], JobOptions(kept), work)
    assert (found.run_count, list(found.missing)) == (1, ["lost"])
    pool.close()


_RELEASED = threading.Event()


def _wait_in_beta(vault: Vault) -> str:
    assert vault.name != "beta" or _RELEASED.wait(10)
    return vault.name
