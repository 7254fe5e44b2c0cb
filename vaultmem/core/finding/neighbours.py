"""The notes written just before and after one, of the same session or with a tag in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.finding.distinct import sort_distinct


def link_neighbours(
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
    labels: tuple[NDArray[np.uint32], NDArray[np.int64]],
    size: int,
    nearest: int,
    longest: float,
) -> NDArray[np.int32] | None:
    """Return the nearest neighbours of each row (shape: 2 * nearest, size; -1 where none).

    `rows` are in the order in which they were written; a neighbour has a label in common: the
    session (an odd number), or a tag and a date of its own (`times` in seconds, one for each of
    `rows`, else nan) at most `longest` away. First come the nearest before, the second nearest
    before and so on, then those after. `labels` are all rows' labels and where each row's begin.
    None if nothing has a neighbour.
    """
    flat, starts = labels
    sizes = np.diff(starts)[rows]
    total = int(sizes.sum())
    if not total:
        return None
    # One entry for each label of each row, sorted by label and then by the order of writing.
    position = np.repeat(np.arange(len(rows)), sizes)
    offset = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    label = flat[starts[rows][position] + offset]
    order = np.lexsort((position, label))
    position, label = position[order], label[order]
    before: list[NDArray[np.int64]] = []
    for step in range(1, nearest + 1):
        same = np.flatnonzero(label[step:] == label[:-step])
        apart = times[position[same + step]] - times[position[same]]
        same = same[(label[same] & 1 == 1) | (np.abs(apart) <= longest)]
        before.append(position[same + step] * len(rows) + position[same])
    edges = sort_distinct(np.concatenate(before))
    if not len(edges):
        return None
    later, earlier = edges // len(rows), edges % len(rows)
    found = np.full((2 * nearest, size), -1, np.int32)
    _put_last(found[:nearest], rows, later, earlier)
    turned = np.lexsort((-later, earlier))
    _put_last(found[nearest:], rows, earlier[turned], later[turned])
    return found


def _put_last(
    found: NDArray[np.int32],
    rows: NDArray[np.int64],
    of: NDArray[np.int64],
    neighbour: NDArray[np.int64],
) -> None:
    """Write the last few of each run of equal `of` into a table, the very last first."""
    ends = np.append(np.flatnonzero(np.diff(of)), len(of) - 1)
    sizes = np.diff(np.concatenate([[-1], ends]))
    for nth in range(len(found)):
        enough = sizes > nth
        at = ends[enough] - nth
        found[nth, rows[of[at]]] = rows[neighbour[at]]
