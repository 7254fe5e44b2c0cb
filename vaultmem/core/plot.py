"""A plot in plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = tuple[float, float]


def plot_lines(
    series: Sequence[tuple[str, Sequence[Point]]],
    x_name: str,
    y_name: str,
    width: int = 56,
    height: int = 12,
) -> str:
    """Return lines of points in a frame; both axes are logarithmic, values must be above 0.

    `series` are a mark (one character) and its points. Where marks meet, the later one is seen.
    """
    points = [point for _, each in series for point in each]
    if not points:
        return ""
    (left, right), (low, high) = (_range([p[axis] for p in points]) for axis in (0, 1))
    rows = [[" "] * width for _ in range(height)]
    for mark, each in series:
        for x, y in each:
            column = round((math.log10(x) - left) / (right - left) * (width - 1))
            row = round((math.log10(y) - low) / (high - low) * (height - 1))
            rows[height - 1 - min(max(row, 0), height - 1)][min(max(column, 0), width - 1)] = mark
    labels = {
        height - 1 - round((k - low) / (high - low) * (height - 1)): 10**k
        for k in range(math.ceil(low), math.floor(high) + 1)
    }
    side = max([len(_short(value)) for value in labels.values()], default=0)
    lines = [f"{'':{side}}  {y_name}"]
    for number, cells in enumerate(rows):
        label = _short(labels[number]) if number in labels else ""
        lines.append(f"{label:>{side}} |{''.join(cells)}".rstrip())
    lines.append(f"{'':{side}} +{'-' * width}")
    scale = [" "] * (width + 8)
    for k in range(math.ceil(left), math.floor(right) + 1):
        text = _short(10**k)
        start = max(round((k - left) / (right - left) * (width - 1)) - len(text) // 2, 0)
        scale[start : start + len(text)] = text
    lines.append(f"{'':{side}}  {''.join(scale).rstrip()}  {x_name}")
    return "\n".join(lines)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten that values lie between, whole ones, at least one apart.

    A value that is hardly beyond one (100,002) counts as that one.
    """
    low = math.floor(math.log10(min(values)) + 0.01)
    high = math.ceil(math.log10(max(values)) - 0.01)
    return float(low), float(max(high, low + 1))


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
