"""What one check of a vault found."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """How a check ended; a warning may be as it should be."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(NamedTuple):
    """One check: what it found in one line, the files meant, the remedy, and what was mended."""

    name: str
    verdict: Verdict = Verdict.OK
    told: str = ""
    paths: tuple[str, ...] = ()
    remedy: str = ""
    fixed: tuple[str, ...] = ()


def count_found(name: str, verdict: Verdict, told: str, found: Iterable[str], remedy: str) -> Check:
    """Return a check that is ok where nothing is found, and else says how many there are."""
    paths = tuple(found)
    return Check(name, verdict, f"{told}: {len(paths):,}", paths, remedy) if paths else Check(name)
