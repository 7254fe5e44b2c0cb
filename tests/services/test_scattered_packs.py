"""A pack over vaults in several shards is that of one shard, byte for byte; each keeps its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from shards import DIED, NAMES, Folders, Make, Open, Shards, World, make_world

from vaultmem.core.packs.division import tell_missing
from vaultmem.core.packs.pack_item import PackLabels, PackStyle
from vaultmem.core.packs.receipt import Receipt, parse_receipt
from vaultmem.services.finding import pack
from vaultmem.services.finding.ask import Ask
from vaultmem.services.finding.ask_pack import AskPack, PackAnswer, ask_pack
from vaultmem.services.finding.trust import trust_vault
from vaultmem.services.pools.scatter import (
    Scattered,
    ask_scattered,
    pack_scattered,
    recall_scattered,
)
from vaultmem.vault import make_key


def add_notes(number: int) -> dict[str, str]:
    """Return notes of a vault that a pack says more of than their words."""
    return {
        "policies/keys.md": "---\nkind: policy\nstate: active\npinned: true\n---\n"
        f"# Keys\n\nKeys of vault {number} are rotated on Mondays.\n",
        "preferences/tone.md": "---\nkind: preference\nstate: active\nabout: rotation of keys\n"
        f"---\nSay for vault {number} on which day a key was rotated.\n",
        "notes/rota.md": "---\ncontradicts: [same]\n---\n# Rota\n\nNo pilot knows the harbour "
        "better than [[drum]] says; weekly key rotation of a ferry.\n",
        "notes/drum.md": "# Drum\n\nIt turns.\n",
        f"sessions/2026-03-0{number + 1}-tide.md": "---\nkind: episodic\ncreated: 2026-04-01\n---\n"
        f"# Tide of {number}\n\nWe looked at the ferry's token.\n",
        "notes/rests.md": "---\nrefs: ['[[rota]]']\ncreated: 2020-01-01\n---\n"
        f"# Rests\n\nThe weekly ferry rests on the rota of keys.\n{'It is late. ' * 400}\n",
    }


@pytest.fixture
def world(make_vault: Make, opened: Open) -> World:
    world = make_world(make_vault, opened, add_notes)
    for name in NAMES[::2]:
        trust_vault(world(name))
    return world


def pack_over(shards: Shards, asked: AskPack) -> tuple[PackAnswer, dict[str, str]]:
    def answer(reach: Scattered) -> PackAnswer:
        return pack_scattered(reach, asked, {})

    return ask_scattered(shards, shards.names, answer, {}, 0.01)


def pack_one(world: World, names: Sequence[str], asked: AskPack) -> PackAnswer:
    return ask_pack(Folders(world).group(names, {}, {}), asked)


_UNSEEN = AskPack("weekly key rotation of a ferry", 1_500, receipt=False, counts=False)
_ASKED = [
    _UNSEEN,
    _UNSEEN._replace(question="who knows better", expand_links=True, labels=PackLabels.FULL),
    _UNSEEN._replace(question="harbuor pilott of every", budget=300, style=PackStyle.TEXT),
    _UNSEEN._replace(question="what rests on the rota of keys", budget=1_200),
    _UNSEEN._replace(question="who was the captain in January 2026"),
    _UNSEEN._replace(question="nothing xqzzy of that"),
    _UNSEEN._replace(question=""),
    _UNSEEN._replace(question="", budget=6_000, has_sessions=False),
    _UNSEEN._replace(price=lambda pack: 2 * pack.account.sent, budget=2_000),
]


@pytest.mark.campaign
def test_a_pack_over_several_shards_is_that_of_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = [pack_one(world, NAMES, asked) for asked in _ASKED]
    for number, (asked, expected) in enumerate(zip(_ASKED, packs, strict=True)):
        shards = Shards(world, [[0, 1, 0, 1], [2, 0, 1, 0]][number % 2])
        found, missing = pack_over(shards, asked)
        assert found.pack.text == expected.pack.text
        assert (found, missing) == (expected, {})
    items = [item for each in packs for item in each.pack.items]
    for part in ("pinned", "trusted", "shortened", "caution", "conflict"):
        assert any(getattr(item, part) for item in items), part
    assert {item.hit.vault for item in items} == {*NAMES}
    assert {item.part for item in items} >= {"preferences"}
    assert any(item.hit.linked_from for item in items)
    assert any(item.hit.record.path.startswith("sessions/") for item in packs[6].pack.items)

    monkeypatch.setattr(pack, "MANY", 2)
    few = pack_one(world, NAMES, _UNSEEN)
    assert pack_over(Shards(world, [2, 0, 1, 0]), _UNSEEN) == (few, {})
    pinned = [item.hit.vault for item in few.pack.items if item.pinned]
    assert len({*pinned}) == 2
    assert pinned[0] == "amber"


@pytest.mark.campaign
def test_who_is_not_asked_is_named_in_the_pack(world: World) -> None:
    asked = _UNSEEN._replace(told=("Not asked: birch (its process ended).",))
    expected = pack_one(world, ["amber", "cedar", "dune"], asked)
    assert "\nNot asked: birch (its process ended).\n" in expected.pack.text
    for call in (0, 3, 6):
        shards = Shards(world, [0, 1, 0, 2])
        shards.fails[1] = call, DIED
        assert pack_over(shards, _UNSEEN) == (expected, {"birch": DIED})


def test_of_many_that_are_not_asked_the_first_are_named_for_each_reason() -> None:
    late = {f"v{number}": "no answer in time" for number in range(40)}
    assert tell_missing({**late, "w": "its [remote]  is gone"}) == (
        f"Not asked: {', '.join([*late][:12])} and 28 more (no answer in time).",
        "Not asked: w (its (remote) is gone).",
    )


def list_kept(world: World) -> list[list[Receipt]]:
    """Return the receipts of each vault, the oldest first; here all are of one repository."""
    vaults = map(world, NAMES)
    folders = [each.folders.data / "receipts" / make_key(each.root) for each in vaults]
    kept = [[parse_receipt(file.read_text()) for file in each.glob("*.json")] for each in folders]
    return [sorted(each, key=lambda receipt: receipt.id) for each in kept]


@pytest.mark.campaign
def test_each_vault_keeps_what_is_its_own_and_none_of_it_twice(world: World) -> None:
    asked = _UNSEEN._replace(budget=700, receipt=True, counts=True)
    one = pack_one(world, NAMES, asked)
    expected = [receipt for (receipt,) in list_kept(world)]
    shards = Shards(world, [0, 1, 0, 1])
    found, _ = pack_over(shards, asked)
    assert found == one._replace(receipt=found.receipt)
    new = [each for kept in list_kept(world) for each in kept if each.id == found.receipt]
    assert [each._replace(id=one.receipt) for each in new] == expected

    calls = 99 - shards.fails[1][0]
    shards.fails[1] = calls - 2, DIED  # As it is to keep something; then it is only let go.
    lost, missing = pack_over(shards, asked)
    assert (lost.pack, missing) == (one.pack, {})
    assert list(map(len, list_kept(world))) == [3, 2, 3, 2]
    shards.fails = {0: (calls - 1, DIED)}  # The first is also asked whether it keeps any.
    lost, missing = pack_over(shards, asked)
    assert (lost.pack, lost.receipt, missing) == (one.pack, "", {})
    assert lost.warning == "no receipt: its vault does not answer any more"


def test_a_question_is_counted_in_the_shard_of_what_it_shows(world: World) -> None:
    from vaultmem.storage.signals import SignalStore

    def answer(reach: Scattered) -> object:
        return recall_scattered(reach, Ask("gangway ferry", 2), {})

    found, _ = ask_scattered(Shards(world, [0, 1, 0, 2]), NAMES, answer, {})
    shown = {hit.vault for hit in found.hits}
    for name in NAMES:
        vault = world(name)
        SignalStore(vault.state, vault.state_folder).fold(0, 0.0)
        ((calls,),) = vault.state.query("SELECT count(*) FROM calls")
        assert calls == (name in {*shown, "amber"})
