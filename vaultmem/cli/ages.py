"""Ages as people write them."""

from __future__ import annotations

import re

from vaultmem.errors import RefusedError

_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365}


def parse_age(text: str) -> float:
    """Return the seconds of an age such as 12h, 90d, 12w, 6m (of 30 days) or 1y (of 365).

    Raises:
        RefusedError: it is not written like that.
    """
    match = re.fullmatch(r"([0-9]{1,6})([hdwmy])", text.strip().lower())
    if match is None:
        raise RefusedError(f'"{text}" is not an age; write it like 90d, 12w or 1y')
    return int(match[1]) * _DAYS[match[2]] * 86_400
