"""The notes around one: those one or two links away, drawn in two rings."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.record import NoteRecord
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read, read_path
from vaultmem.web.rendering import render_page

#: Notes in the inner and in the outer ring at most, and how far these are from the middle.
_INNER, _OUTER = 16, 32
_RADII = (0.0, 190.0, 330.0)

#: Names stand beside their dots, so rings are wider than high.
_STRETCH = 1.25

#: Half the width and height of the drawing.
WIDTH, HEIGHT = 560, 400


class Node(NamedTuple):
    """A note in the drawing: how many links away, its place, and whether its name stands left."""

    path: str
    title: str
    state: str
    depth: int
    x: float
    y: float

    @property
    def is_left(self) -> bool:
        """Tell whether the name ends at the dot, and does not begin there."""
        return self.x < 0


class Edge(NamedTuple):
    """A link between two notes of the drawing."""

    start: Node
    end: Node


class Graph(NamedTuple):
    """The notes around the one in the middle, links between them, and how many are left out."""

    nodes: list[Node]
    edges: list[Edge]
    left_out: int


def gather_graph(path: str, vault: Vault) -> Graph:
    """Return the notes that are linked with a note, in either direction, and those behind them."""
    from vaultmem.services.finding.links import LinkGraph
    from vaultmem.services.reading.read_notes import resolve_address

    middle = str(resolve_address(vault, path)[0])
    links = ((each.source, each.target) for each in LinkGraph(vault).links())
    records = {record.path: record for record in vault.view.records()}
    pairs = sorted({(a, b) for a, b in links if b in records and a != b})
    near = _find_neighbours(pairs, [middle], {middle})
    inner = near[:_INNER]
    far = _find_neighbours(pairs, inner, {middle, *near})
    rings = ([middle], inner, far[:_OUTER])
    nodes = {
        each: _place(records[each], depth, number / len(ring))
        for depth, ring in enumerate(rings)
        for number, each in enumerate(ring)
    }
    edges = [Edge(nodes[a], nodes[b]) for a, b in pairs if a in nodes and b in nodes]
    return Graph(list(nodes.values()), edges, len(near) + len(far) + 1 - len(nodes))


def _find_neighbours(
    pairs: Sequence[tuple[str, str]], notes: Sequence[str], known: Set[str]
) -> list[str]:
    """Return what is linked with these notes and not known yet, in the order of the notes."""
    order = {path: number for number, path in enumerate(notes)}
    both = [*pairs, *((b, a) for a, b in pairs)]
    beside = sorted((order[a], b) for a, b in both if a in order and b not in known)
    return list(dict.fromkeys(b for _, b in beside))


def _place(record: NoteRecord, depth: int, turn: float) -> Node:
    """Return a note's place in its ring; `turn` is the part of a full one, from the top."""
    angle = 2 * math.pi * turn + 0.2 * depth
    x, y = _RADII[depth] * math.sin(angle) * _STRETCH, -_RADII[depth] * math.cos(angle)
    return Node(record.path, record.title, record.state, depth, round(x, 1), round(y, 1))


@answers
async def show_graph(request: Request) -> Response:
    """Show the notes around one."""
    path = read_path(request, "/graph/")
    frame, graph = await read(request, partial(gather_graph, path))
    return render_page(request, "graph.html", vault=frame, graph=graph, width=WIDTH, height=HEIGHT)
