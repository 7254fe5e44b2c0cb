"""A small vault of Obsidian's, with what an agent keeps in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CANVAS = "Plans/Winter timetable.canvas"

_FILES = {
    ".obsidian/app.json": '{"newLinkFormat": "shortest"}\n',
    ".obsidian/daily-notes.json": '{"folder": "Daily"}\n',
    ".obsidian/templates.json": '{"folder": "Meta/Templates"}\n',
    "Meta/Templates/Daily.md": "# {{date}}\n\n![[Memories.base#Today]]\n",
    "Daily/2026-11-21.md": "Talked with [[Ilse]] about the [[Night boat]].\n",
    "People/Ilse.md": "# Ilse\n\nAnswers for the timetable.\n",
    "Boats/Night boat.md": "---\naliases: [the late one]\n---\n# Night boat\n\nLeaves at 23:10.\n",
}

_CARDS = [
    {"type": "text", "text": "# Departures\n\nThe night boat leaves an hour earlier ([[Ilse]])."},
    {"type": "text", "text": "Lanterns on the slipway from 1 December: it is dark at four."},
    {"type": "file", "file": "Boats/Night boat.md"},
    {"type": "group", "label": "Before 1 December"},
]

_MEMORIES = [
    ("The night boat takes 40 cars in winter.", "semantic_fact"),
    ("Publish no timetable that Ilse has not seen.", "policy_rule"),
]


def lay_obsidian(root: Path) -> Path:
    """Make the vault in a new folder and return it, with what an agent has kept there."""
    write_files(root)
    _run(root, "init", "--yes")
    for text, kind in _MEMORIES:
        _run(root, "--agent", "claude", "remember", text, "--kind", kind, "--context", "Boats")
    _run(root, "--agent", "claude", "checkpoint", "the winter timetable")
    return root


def write_files(root: Path) -> None:
    """Make the vault as a person has it who has never heard of vaultmem."""
    for path, text in _FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    places = ({"id": str(n), "x": 300 * n, "y": 0, **card} for n, card in enumerate(_CARDS))
    (root / CANVAS).parent.mkdir()
    (root / CANVAS).write_text(json.dumps({"nodes": list(places), "edges": []}, indent="\t"))


def _run(root: Path, *words: str) -> None:
    command = [sys.executable, "-m", "vaultmem", *words]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
