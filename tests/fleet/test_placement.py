"""Which shard has which vaults: each its share, and no more moves than has to."""

from __future__ import annotations

from collections import Counter

from vaultmem.fleet.placement import Member, find_homes, group_vaults

VAULTS = [f"agent-{number}" for number in range(2000)]
MEMBERS = [Member(f"shard-{number}", f"node-{number // 2}") for number in range(6)]


def first_homes(members: list[Member]) -> dict[str, str]:
    return {vault: homes[0] for vault, homes in find_homes(VAULTS, members).items()}


def test_each_shard_has_its_share_by_weight() -> None:
    heavy = [MEMBERS[0]._replace(weight=2.0), *MEMBERS[1:]]
    counted = Counter(first_homes(heavy).values())
    assert 480 < counted["shard-0"] < 660  # 2 of 7 parts are 571.
    assert all(220 < counted[each.name] < 350 for each in MEMBERS[1:])  # One is 286.


def test_a_lost_shard_moves_its_own_vaults_to_all_others_and_a_new_one_takes_its_share() -> None:
    before = first_homes(MEMBERS)
    after = first_homes(MEMBERS[:2] + MEMBERS[3:])
    moved = {vault for vault in VAULTS if before[vault] != after[vault]}
    assert moved == {vault for vault in VAULTS if before[vault] == "shard-2"}
    assert len({after[vault] for vault in moved}) == 5
    assert first_homes([*reversed(MEMBERS)]) == before  # And it comes back where it was.


def test_a_second_copy_is_on_another_machine_and_a_lost_first_leaves_it_the_vault() -> None:
    nodes = {each.name: each.node for each in MEMBERS}
    homes = find_homes(VAULTS, MEMBERS, VAULTS[:50])
    assert all(len(homes[vault]) == 1 for vault in VAULTS[50:])
    for vault in VAULTS[:50]:
        first, second = homes[vault]
        assert nodes[first] != nodes[second]
        left = [each for each in MEMBERS if each.node != nodes[first]]
        assert find_homes([vault], left)[vault] == (second,)
    assert find_homes(["a"], MEMBERS[:2], ["a"])["a"] == find_homes(["a"], MEMBERS[:2])["a"]
    assert find_homes(["a"], []) == {"a": ()}


def test_what_has_copies_is_asked_where_others_are_asked_else_where_less_is_to_do() -> None:
    homes = {"a": ("x",), "b": ("y", "x"), "c": ("y", "z"), "d": ()}
    assert group_vaults("abd", homes, {"x": 9}) == {"x": ["a", "b"]}
    assert group_vaults("c", homes, {"y": 2.0, "z": 1.0}) == {"z": ["c"]}
    assert group_vaults("c", homes, {"z": 1.0}) == {"y": ["c"]}
