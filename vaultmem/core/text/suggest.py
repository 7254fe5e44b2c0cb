"""Did you mean: what a name that is none may have been meant for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vaultmem.core.text.paths import fold

#: Names that are offered at most, and the letters from which on a name counts that has them.
_MOST, _LETTERS = 3, 3


def find_near(name: str, known: Iterable[str] | Mapping[str, str]) -> list[str]:
    """Return what a name that begins so or has it is of, else one that is spelt nearly so.

    `known` are names, or what each name is of.
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
    """Return the question whether a near name was meant, to stand behind an error's text."""
    near = find_near(name, known)
    if not near:
        return otherwise
    return f"; did you mean {', '.join(near)}?"
