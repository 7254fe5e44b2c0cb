"""The graph of a note: notes one or two links away, drawn in two rings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.search.link_walk import LinkMap
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, read, read_path
from vaultmem.web.rendering import render_page

#: The most notes in the inner and in the outer ring, and the radius of each ring.
_INNER, _OUTER = 16, 32
_RADII = (0.0, 190.0, 330.0)

#: Names are next to their dots, so rings are wider than high.
_ASPECT_RATIO = 1.25

#: Half the width and height of the drawing.
WIDTH, HEIGHT = 560, 400


class GraphNode(NamedTuple):
    """A note in the drawing: its distance in links, and its position."""

    path: str
    title: str
    state: str
    depth: int
    x: float
    y: float

    @property
    def is_left(self) -> bool:
        """Whether the name is left of the dot."""
        return self.x < 0


class GraphEdge(NamedTuple):
    """A link between two notes of the drawing."""

    start: GraphNode
    end: GraphNode


class Graph(NamedTuple):
    """The notes around the center, the links between them, and the number of omitted ones."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    left_out: int


def collect_graph(path: str, vault: Vault) -> Graph:
    """Return the notes linked with a note in either direction, and those one link further.

    Raises:
        NoteNotFoundError: there is no such note, or a symbolic link leads to it.
    """
    from vaultmem.services.search.link_walk import map_links
    from vaultmem.services.views.read_notes import resolve_address

    center = str(resolve_address(vault, path)[0])
    links = map_links(vault)
    neighbours = [each for each in _list_linked(links, center) if each != center]
    inner = neighbours[:_INNER]
    neighbour_paths = {center, *neighbours}
    outer_paths = dict.fromkeys(
        b for a in inner for b in _list_linked(links, a) if b not in neighbour_paths
    )
    second_neighbours = list(outer_paths)
    rings = ([center], inner, second_neighbours[:_OUTER])
    records = _find_records(vault, [each for ring in rings for each in ring])
    if center not in records:
        raise NoteNotFoundError(f"{center}: note not found; /notes lists all notes")
    nodes = {
        each: _place(records[each], depth, number / len(ring))
        for depth, ring in enumerate(rings)
        for number, each in enumerate(ring)
        if each in records
    }
    targets = ((a, b) for a in nodes for b in links.targets.get(a, ()))
    edges = [GraphEdge(nodes[a], nodes[b]) for a, b in targets if b in nodes]
    return Graph(
        list(nodes.values()),
        edges,
        len(neighbours) + len(second_neighbours) - len(rings[1] + rings[2]),
    )


def _list_linked(links: LinkMap, path: str) -> list[str]:
    """Return the notes that a note links to, then those that link to it."""
    paths = (*links.targets.get(path, ()), *links.sources.get(path, ()))
    return [each for each in dict.fromkeys(paths) if is_note_name(each)]


def _find_records(vault: Vault, paths: Sequence[str]) -> dict[str, NoteRecord]:
    marks = ", ".join("?" * len(paths))
    return {each.path: each for each in vault.view.records(f"d.path IN ({marks})", paths)}


def _place(record: NoteRecord, depth: int, turn: float) -> GraphNode:
    """Return a note's position in its ring; `turn` is the fraction of a circle, from the top."""
    angle = 2 * math.pi * turn + 0.2 * depth
    x, y = _RADII[depth] * math.sin(angle) * _ASPECT_RATIO, -_RADII[depth] * math.cos(angle)
    return GraphNode(record.path, record.title, record.state, depth, round(x, 1), round(y, 1))


@answers
async def show_graph(request: Request) -> Response:
    """Show the graph of a note."""
    path = read_path(request, "/graph/")
    frame, graph = await read(request, partial(collect_graph, path))
    return render_page(request, "graph.html", vault=frame, graph=graph, width=WIDTH, height=HEIGHT)
