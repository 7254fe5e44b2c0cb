"""Compute git blob ids without running git."""

from __future__ import annotations

import hashlib


def blob_id(data: bytes) -> str:
    r"""Return git's blob id: the SHA-1 of ``blob <length>\0<bytes>``, 40 hex digits.

    Source: gitformat-loose objects, "Git Internals - Git Objects".
    """
    header = b"blob %d\0" % len(data)
    return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()
