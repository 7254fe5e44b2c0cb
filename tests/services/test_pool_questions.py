"""A question to vaults of a pool: who is lost in any step has no part in the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hub_serving import PicklingPool
from pool_contract import Remotes, remotes, three

from vaultmem.core.packs.receipt import read_plain
from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.clones import TIMEOUT_REASON
from vaultmem.services.packs.build import AskPack
from vaultmem.services.search.run_query import Query

__all__ = ["remotes", "three"]

_ASKED = Query("which lamp is green", suggests=True, counts=False)


class LosingPool(PicklingPool):
    """A pool in which one vault is late in one step of a question."""

    step, late = 0, -1

    def call_parts(self, given: Any, work: Any, opening: Any, *args: Any) -> Any:
        self.step += 1
        if self.step != self.late or "pier" not in given:
            return super().call_parts(given, work, opening, *args)
        rest = {name: own for name, own in given.items() if name != "pier"}
        found = super().call_parts(rest, work, opening, *args)
        found.missing["pier"] = TIMEOUT_REASON
        return found

    def lose(self, late: int) -> None:
        self.step, self.late = 0, late


@pytest.fixture
def pool(three: list[VaultSource], tmp_path: Path) -> Any:
    made = LosingPool(three, tmp_path / "pool")
    yield made
    made.close()


def test_a_vault_that_is_late_in_any_step_is_named_and_the_rest_is_asked_again(
    pool: LosingPool,
) -> None:
    whole = pool.recall(None, _ASKED)
    steps = pool.step
    rest = pool.recall(["crew", "yard"], _ASKED).answer
    lost = 0
    for late in range(1, steps + 1):
        pool.lose(late)
        found = pool.recall(None, _ASKED)
        if found.missing:
            lost += 1
            assert found.missing == {"pier": TIMEOUT_REASON}
            assert found.answer == rest
        else:  # The step was for other vaults.
            assert found == whole
    assert lost >= 3
    assert whole.answer.hits != rest.hits


def test_a_pack_names_who_was_late(pool: LosingPool) -> None:
    asked = AskPack("which lamp is green", counts=False, receipt=False)
    pool.lose(3)
    found = pool.pack(None, asked)
    assert found.missing == {"pier": TIMEOUT_REASON}
    assert f"Not asked: pier ({TIMEOUT_REASON})." in found.answer.pack.text
    assert "pier is red" not in read_plain(found.answer.pack.text)


def test_an_answer_stays_where_a_vault_is_lost_when_it_is_counted(pool: LosingPool) -> None:
    asked = _ASKED._replace(counts=True)
    expected = pool.recall(None, asked)
    pool.lose(pool.step)  # The last one.
    found = pool.recall(None, asked)
    assert found.answer.hits == expected.answer.hits
    assert not found.missing


def test_one_vault_is_asked_at_a_ref(pool: LosingPool, remotes: Remotes) -> None:
    first = remotes.log("pier", "main")
    remotes.commit("pier", "notes/fog.md", "# Fog\n\nThe fog horn sounds twice.\n")
    assert len(remotes.log("pier")) == len(first) + 1
    pool.refresh()
    now = pool.recall(["pier"], Query("fog horn", counts=False)).answer.hits
    then = pool.recall(["pier"], Query("fog horn", at="main~1", counts=False)).answer.hits
    assert [(hit.vault, hit.record.path) for hit in now] == [("pier", "notes/fog.md")]
    assert not then
