"""The simulated year of `benchmarks/year.py`, in its short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import git

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.campaign
def test_a_year_of_upkeep_loses_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from year import Year

    year = Year(tmp_path, rest=30)
    outcome = year.live(40)
    year.close()

    counts = outcome.counts
    assert sum(counts.told.values()) == 40
    assert counts.found == counts.found_untouched == counts.asked > 0
    assert outcome.tokens < outcome.untouched_tokens
    assert (outcome.lost, outcome.pinned_changed) == (0, 0)
    assert outcome.originals > 40
    done = {name.partition(":")[0] for name in counts.done}
    assert {"compacted", "curated"} <= done
    assert git(year.root, "status", "--porcelain") == ""
    subjects = git(year.root, "log", "--format=%s").splitlines()
    assert any(subject.startswith("compact: ") for subject in subjects)
