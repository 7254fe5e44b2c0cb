"""A commit's message: subject, body and trailers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MAX_LINES = 200


def format_message(subject: str, body: Sequence[str], trailers: Mapping[str, str]) -> str:
    """Return a message that `git interpret-trailers` reads; empty trailers are left out.

    Each line stays one line, so that no text can pass for a trailer.
    """
    shown = [_one_line(line, 500) for line in body[:_MAX_LINES]]
    if len(body) > len(shown):
        shown.append(f"... and {len(body) - len(shown)} more")
    lines = [f"{key}: {_one_line(value, 200)}" for key, value in trailers.items() if value]
    parts = [_one_line(subject, 200), "\n".join(shown), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _one_line(text: str, limit: int) -> str:
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain[:limit]
