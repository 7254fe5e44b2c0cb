"""What many vaults return at once, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.pools.comparison import Comparison, Differing
    from vaultmem.services.pools.jobs import Believers, JobResults
    from vaultmem.services.pools.status import VaultStats


def fleet_stats_json(found: Mapping[str, VaultStats], missing: Mapping[str, str]) -> dict[str, Any]:
    """Return what each vault holds, and of which that is not known."""
    return {
        "vaults": [_of(name, each._asdict()) for name, each in found.items()],
        "missing": missing,
    }


def fleet_judged_json(judged: Mapping[str, Sequence[str]], done: JobResults) -> dict[str, Any]:
    """Return which vaults' packs are as expected, and why others are not."""
    vaults = [
        _of(name, {"as_expected": not reasons, "reasons": reasons})
        for name, reasons in judged.items()
    ]
    return {"as_expected": not any(judged.values()), "vaults": vaults, **_done_json(done)}


def believers_json(found: Believers) -> dict[str, Any]:
    """Return who believes something, the first before the others."""
    believers = [{"vault": name, **each._asdict()} for name, each in found.believers]
    told = {"others": found.others, "missing": found.missing, "behind": found.behind}
    return {"believers": believers, **told}


def duplicates_json(found: Comparison) -> dict[str, Any]:
    """Return what is stated in several vaults, and what is nearly the same."""
    return {"same": found.same, "near": _differing_json(found.near), **_compared_json(found)}


def contradictions_json(found: Comparison) -> dict[str, Any]:
    """Return in what notes of several vaults contradict each other."""
    pairs = _differing_json(found.contradicting)
    return {"contradictions": pairs, **_compared_json(found)}


def _differing_json(pairs: Sequence[Differing]) -> list[dict[str, Any]]:
    return [
        {
            **each._asdict(),
            "differences": [
                {"kind": kind, "older": older or None, "newer": newer or None}
                for kind, older, newer in each.differences
            ],
        }
        for each in pairs
    ]


def _compared_json(found: Comparison) -> dict[str, Any]:
    counts = {"vaults": found.vaults, "notes": found.notes, "asked": found.asked}
    return {**counts, "missing": found.missing, "behind": found.behind}


def fleet_curated_json(
    found: Mapping[str, Sequence[Mapping[str, Any]]], done: JobResults
) -> dict[str, Any]:
    """Return what would be proposed in each vault."""
    vaults = [_of(name, {"proposals": proposals}) for name, proposals in found.items()]
    return {"vaults": vaults, **_done_json(done)}


def fleet_compacted_json(
    found: Mapping[str, Mapping[str, Any]], done: JobResults
) -> dict[str, Any]:
    """Return what would be shortened in each vault, and what stays and why."""
    names = ("path", "step", "idle_days", "tokens", "tokens_left")
    vaults = []
    for vault, plan in found.items():
        steps = [
            {**{name: each[name] for name in names}, "from": each["before"]}
            for each in plan["steps"]
        ]
        vaults.append(_of(vault, {"steps": steps, "exempt": plan["exempt"]}))
    return {"vaults": vaults, **_done_json(done)}


def _of(vault: str, told: Mapping[str, Any]) -> dict[str, Any]:
    return {"vault": vault, **told}


def _done_json(done: JobResults) -> dict[str, Any]:
    return {"asked": done.asked, "missing": done.missing, "behind": done.behind}
