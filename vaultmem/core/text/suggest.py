"""Suggest known names that are similar to an unknown one ("did you mean")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vaultmem.core.text.paths import fold

#: Most suggestions, and the shortest name that is searched for inside other names.
_MOST, _LETTERS = 3, 3


def find_near(name: str, known: Iterable[str] | Mapping[str, str]) -> list[str]:
    """Return up to 3 known names that contain `name`, else ones spelled nearly like it.

    With a mapping, its values are returned instead of the names.
    """
    called = {fold(each): each for each in known}
    wanted = fold(name.strip())
    near = [each for each in called if len(wanted) >= _LETTERS and wanted in each]
    near.sort(key=lambda each: (not each.startswith(wanted), len(each), each))
    if not near:
        from difflib import get_close_matches

        near = get_close_matches(wanted, called, 2 * _MOST)
    named = (called[each] for each in near)
    shown = (known[each] if isinstance(known, Mapping) else each for each in named)
    return list(dict.fromkeys(shown))[:_MOST]


def suggest_similar(
    name: str, known: Iterable[str] | Mapping[str, str], otherwise: str = ""
) -> str:
    """Return "; did you mean ...?" to append to an error, or `otherwise`."""
    near = find_near(name, known)
    if not near:
        return otherwise
    return f"; did you mean {', '.join(near)}?"
