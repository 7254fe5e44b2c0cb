"""Suggest known names that are similar to an unknown one ("did you mean")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import repeat

from vaultmem.core.text.paths import fold

#: Most suggestions, and the shortest name that is searched for inside other names.
_MAX_SUGGESTIONS, _LETTERS = 3, 3

#: The similarity from which on a name is near, and the names that are compared for it at most.
_MIN_SIMILARITY, _MAX_CANDIDATES = 0.6, 200


def find_near(name: str, names: Iterable[str] | Mapping[str, str]) -> list[str]:
    """Return up to 3 known names that contain `name`, else ones spelled nearly like it.

    With a mapping, its values are returned instead of the names.
    """
    originals = {fold(each): each for each in names}
    key = fold(name.strip())
    matches = [each for each in originals if len(key) >= _LETTERS and key in each]
    matches.sort(key=lambda each: (not each.startswith(key), len(each), each))
    matches = matches or _find_similar(key, originals)
    spellings = (originals[each] for each in matches)
    results = (names[each] if isinstance(names, Mapping) else each for each in spellings)
    return list(dict.fromkeys(results))[:_MAX_SUGGESTIONS]


def _find_similar(name: str, names: Iterable[str]) -> list[str]:
    """Return the most similar names, as `difflib` measures it, the best first.

    Two names cannot be more similar than the letters that they share. The names are sorted by
    this bound, and only the first are compared.
    """
    from difflib import get_close_matches

    size = len(name)
    candidates = [
        n for n in names if n and 2 * min(size, len(n)) >= _MIN_SIMILARITY * (size + len(n))
    ]
    shared = [0] * len(candidates)
    for letter, most in Counter(name).items():
        counts = map(str.count, candidates, repeat(letter))
        shared = [
            total + (n if n < most else most) for total, n in zip(shared, counts, strict=True)
        ]
    bounds = [
        (2 * n / (size + len(each)), each) for n, each in zip(shared, candidates, strict=True)
    ]
    first = [
        each
        for bound, each in sorted(bounds, reverse=True)[:_MAX_CANDIDATES]
        if bound >= _MIN_SIMILARITY
    ]
    return get_close_matches(name, first, 2 * _MAX_SUGGESTIONS, _MIN_SIMILARITY)


def suggest_similar(name: str, names: Iterable[str] | Mapping[str, str], fallback: str = "") -> str:
    """Return "; did you mean ...?" to append to an error, or `fallback`."""
    matches = find_near(name, names)
    if not matches:
        return fallback
    return f"; did you mean {', '.join(matches)}?"
