"""The day that a note's name says: the formats of daily notes that people use."""

from __future__ import annotations

import pytest

from vaultmem.core.notes.obsidian import DailyNotes, read_day


@pytest.mark.parametrize(
    ("written", "path", "day"),
    [
        ("YYYY-MM-DD", "Journal/2026-11-22.md", "2026-11-22"),
        ("YYYY-MM-DD", "anywhere/2026-11-22 Standup.md", "2026-11-22"),
        ("YYYY-MM-DD", "2026-11-222.md", ""),
        ("YYYY-MM-DD", "2026-13-22.md", ""),
        ("YYYY-MM-DD", "Notes of 2026-11-22.md", ""),
        ("YYYY-MM-DD ddd", "Journal/2026-11-22 So.md", "2026-11-22"),
        ("DD.MM.YYYY", "Journal/22.11.2026.md", "2026-11-22"),
        ("DD.MM.YYYY", "Elsewhere/22.11.2026.md", ""),
        ("DD.MM.YYYY", "Journal/31.02.2026.md", ""),
        ("YYYY/MM-MMMM/DD-dddd", "Journal/2026/11-November/22-Sunday.md", "2026-11-22"),
        ("dddd, MMMM Do YYYY", "Journal/Sunday, November 22nd 2026.md", "2026-11-22"),
        ("dddd, MMMM Do YYYY", "Journal/Sunday, Brumaire 22nd 2026.md", ""),
        ("[Daily Journal] MM-DD-YYYY", "journal/Daily Journal 11-22-2026.md", "2026-11-22"),
        ("YYMMDD", "Journal/261122.md", "2026-11-22"),
        ("GGGG-[W]WW-E", "Journal/2026-W47-7.md", "2026-11-22"),
        ("YYYY-DDDD", "Journal/2026-326.md", "2026-11-22"),
        ("YYYY/YYYY-MM-DD", "Journal/2025/2026-11-22.md", "2026-11-22"),
        ("MM-DD", "Journal/11-22.md", ""),
    ],
)  # fmt: skip
def test_a_name_says_its_day(written: str, path: str, day: str) -> None:
    assert read_day(path, DailyNotes("Journal", written)) == day
