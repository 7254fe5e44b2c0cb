"""A client of the HTTP API of `vaultmem serve`, without dependencies (docs/reference/http.md)."""

from vaultmem.client.client import Client
from vaultmem.client.values import (
    Answer,
    Hit,
    LeftOut,
    Note,
    NoteRecord,
    Pack,
    PackItem,
    Remembered,
    Version,
)

__all__ = [
    "Answer",
    "Client",
    "Hit",
    "LeftOut",
    "Note",
    "NoteRecord",
    "Pack",
    "PackItem",
    "Remembered",
    "Version",
]
