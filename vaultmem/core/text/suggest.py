"""Suggest known names that are similar to an unknown one ("did you mean")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import repeat

from vaultmem.core.text.paths import fold

#: Most suggestions, and the shortest name that is searched for inside other names.
_MOST, _LETTERS = 3, 3

#: The similarity from which on a name is near, and the names that are compared for it at most.
_NEAR, _COMPARED = 0.6, 200


def find_near(name: str, known: Iterable[str] | Mapping[str, str]) -> list[str]:
    """Return up to 3 known names that contain `name`, else ones spelled nearly like it.

    With a mapping, its values are returned instead of the names.
    """
    called = {fold(each): each for each in known}
    wanted = fold(name.strip())
    near = [each for each in called if len(wanted) >= _LETTERS and wanted in each]
    near.sort(key=lambda each: (not each.startswith(wanted), len(each), each))
    near = near or _find_similar(wanted, called)
    named = (called[each] for each in near)
    shown = (known[each] if isinstance(known, Mapping) else each for each in named)
    return list(dict.fromkeys(shown))[:_MOST]


def _find_similar(wanted: str, names: Iterable[str]) -> list[str]:
    """Return the most similar names, as `difflib` measures it, the best first.

    Two names cannot be more similar than the letters that they share. The names are sorted by
    this bound, and only the first are compared.
    """
    from difflib import get_close_matches

    size = len(wanted)
    known = [n for n in names if n and 2 * min(size, len(n)) >= _NEAR * (size + len(n))]
    shared = [0] * len(known)
    for letter, most in Counter(wanted).items():
        counts = map(str.count, known, repeat(letter))
        shared = [have + (n if n < most else most) for have, n in zip(shared, counts, strict=True)]
    bounds = [(2 * n / (size + len(each)), each) for n, each in zip(shared, known, strict=True)]
    first = [each for bound, each in sorted(bounds, reverse=True)[:_COMPARED] if bound >= _NEAR]
    return get_close_matches(wanted, first, 2 * _MOST, _NEAR)


def suggest_similar(
    name: str, known: Iterable[str] | Mapping[str, str], otherwise: str = ""
) -> str:
    """Return "; did you mean ...?" to append to an error, or `otherwise`."""
    near = find_near(name, known)
    if not near:
        return otherwise
    return f"; did you mean {', '.join(near)}?"
