"""A list of notes that their owner vouches for, as the very bytes that are signed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vaultmem.core.json_values import fits

#: What the signatures are for; one that was made for another purpose counts for nothing.
NAMESPACE = "trust@vaultmem"

_FORMAT = "vaultmem trust 1"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TrustList(NamedTuple):
    """The digest of each text that is vouched for, by path, in the vault of these names.

    Of one signer's lists that with the highest `serial` counts; `date` is for people.
    """

    serial: int
    date: str
    names: tuple[str, ...]
    notes: Mapping[str, str]


def format_list(listed: TrustList) -> str:
    """Return a list as text; there is one text of each list."""
    value = {"format": _FORMAT, **listed._asdict()}
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def parse_list(text: str) -> TrustList | None:
    """Return the list that a text is, None if it is none to the letter."""
    try:
        value: dict[str, Any] = json.loads(text)
        if value.pop("format") != _FORMAT:
            return None
        listed = TrustList(**{**value, "names": tuple(value["names"])})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    is_sound = (
        fits(listed._replace(notes={}), TrustList)
        and fits(listed.notes, dict[str, str])
        and all(map(_DIGEST.fullmatch, listed.notes.values()))
    )
    return listed if is_sound and format_list(listed) == text else None
