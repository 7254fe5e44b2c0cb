"""A picture of a vault as people meet it: a folder, a note's properties, and the graph of links."""

from __future__ import annotations

import html
import math
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from vaultmem.services.search.link_walk import LinkGraph
from vaultmem.services.views.read_notes import read_note
from vaultmem.vault import Vault

_STYLE = """
body { margin: 0; font: 13px/1.6 system-ui, sans-serif; display: flex; height: 720px; color: #222 }
div { padding: 14px; overflow: hidden; box-sizing: border-box }
#files { width: 300px; background: #f6f6f6; white-space: nowrap }
#note { width: 400px; border-right: 1px solid #ddd }
h1 { font-size: 19px; margin: 0 0 8px } b { display: block; margin-top: 6px }
td { padding-right: 14px; color: #666 } td + td { color: #222 } table { margin-bottom: 10px }
svg { flex: 1 } line { stroke: #ccc } circle { fill: #7a6ff0 } .session { fill: #e08a3c }
text { font-size: 9px; fill: #444 }
"""

_WIDTH, _HEIGHT = 640, 720

MEMORY = "MEMORY.md"


def take_picture(vault: Vault, file: Path) -> None:
    """Draw the vault's first folders, its note with most properties, and its graph, as a PNG.

    It takes Debian's chromium. Notes without links are dots at the edge of the graph.
    """
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        parts = (_list_files(vault), _show_note(vault), _draw_graph(vault))
        page.write_text(f"<meta charset=utf-8><style>{_STYLE}</style>{''.join(parts)}", "utf-8")
        asked = ("--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1340,720")
        files = (f"--user-data-dir={folder}/own", f"--screenshot={file}")
        subprocess.run(
            ["chromium", *asked, "--force-device-scale-factor=0.7", *files, page],
            check=True,
            capture_output=True,
            timeout=120,
        )


def _list_files(vault: Vault) -> str:
    folders: dict[str, list[str]] = {}
    for path in sorted(vault.view.paths().values(), key=str.casefold):
        place, _, name = path.rpartition("/")
        folders.setdefault(place, []).append(html.escape(name.removesuffix(".md")))
    wanted = [*[place for place in folders if place.startswith("notes/")][:3], "sessions"]
    shown = (f"<b>{place}</b>{'<br>'.join(folders[place][:12])}" for place in wanted)
    return f"<div id=files>{''.join(shown)}</div>"


def _show_note(vault: Vault) -> str:
    paths = [PurePosixPath(path) for path in vault.view.paths().values()]
    notes = [read_note(vault, path) for path in paths if path.parts[0] in {"notes", "sessions"}]
    notes.sort(key=lambda each: (-len(each.matter.properties), str(each.path)))
    by_folder = {each.path.parts[0]: each for each in reversed(notes)}
    shown = []
    for note in (*by_folder.values(), notes[-1]):
        values = {each.name: each.value for each in note.matter.properties}
        texts = {n: v if isinstance(v, str) else ", ".join(v) for n, v in values.items()}
        rows = "".join(f"<tr><td>{n}<td>{html.escape(text)}" for n, text in texts.items())
        body = html.escape(note.body.strip()[:300]).replace("\n", "<br>")
        shown.append(f"<h1>{html.escape(note.path.stem)}</h1><table>{rows}</table>{body}<hr>")
    return f"<div id=note>{''.join(shown)}</div>"


def _draw_graph(vault: Vault) -> str:
    graph = LinkGraph(vault)
    found = {(each.source, each.target) for each in graph.links() if each.target}
    names = sorted({name for line in found for name in line if name})
    lines = [(names.index(a), names.index(b)) for a, b in found if b]
    lone = sum(path not in names and path.startswith("notes/") for path in graph.documents)
    places = _place(len(names), lines)
    drawn = [_line(places[a], places[b]) for a, b in lines]
    for number in range(lone):
        angle = number / lone * math.tau
        drawn.append(_circle("note", 2, 320 + 306 * math.cos(angle), 360 + 346 * math.sin(angle)))
    for name, (x, y) in zip(names, places, strict=True):
        drawn.append(_circle("session" if name.startswith("sessions/") else "note", 5, x, y))
        is_kept = any({name, MEMORY} == {names[a], names[b]} for a, b in lines)
        told = "" if is_kept else html.escape(PurePosixPath(name).stem[:34])
        drawn.append(f"<text x={x + 7:.0f} y={y + 3:.0f}>{told}</text>")
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}'>{''.join(drawn)}</svg>"


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    ends = f"x1={start[0]:.0f} y1={start[1]:.0f} x2={end[0]:.0f} y2={end[1]:.0f}"
    return f"<line {ends} />"


def _circle(kind: str, radius: int, x: float, y: float) -> str:
    return f"<circle class={kind} r={radius} cx={x:.0f} cy={y:.0f} />"


def _place(count: int, lines: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return where each note is drawn: linked ones near each other, others apart."""
    chance = np.random.default_rng(3)
    at = chance.uniform(-1, 1, (count, 2))
    for step in range(400):
        apart = at[:, None] - at[None, :]
        far = np.maximum((apart**2).sum(axis=2), 0.01)
        move = (apart / far[..., None]).sum(axis=1) * 0.02
        for a, b in lines:
            pull = at[b] - at[a]
            move[a] += pull * 0.4
            move[b] -= pull * 0.4
        at += np.clip(move - at * 0.05, -0.2, 0.2) * (1 - step / 400)
    at -= at.min(axis=0)
    at /= np.maximum(at.max(axis=0), 1e-9)
    return [(90 + x * 380, 60 + y * 600) for x, y in at.tolist()]
