"""Tags match whole, and as a parent of others."""

from __future__ import annotations


def has_tag(tags: tuple[str, ...], wanted: str) -> bool:
    """Tell whether a tag matches whole or as a parent: `auth` has `auth/tokens` inside it."""
    name = wanted.strip().lstrip("#").casefold()
    return any(tag.casefold() == name or tag.casefold().startswith(f"{name}/") for tag in tags)
