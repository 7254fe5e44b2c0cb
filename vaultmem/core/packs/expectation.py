"""What a pack is expected to show, and whether it does."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from vaultmem.core.packs.pack_text import Pack
from vaultmem.core.paths import parse_note_path
from vaultmem.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Expectation:
    """That the pack for `query` shows these notes and says these texts, or with `negated` none.

    `finds` are paths or addresses (`path#Heading`); `says` are compared without regard to case
    and line breaks. `budget` is in tokens, 0 for the vault's own.
    """

    query: str
    finds: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    negated: bool = False
    budget: int = 0

    def __post_init__(self) -> None:
        """Refuse an expectation that every pack fulfils."""
        if not any(map(str.strip, (*self.finds, *self.says))):
            raise RefusedError("nothing is expected; say what with --finds PATH or --says TEXT")


def expect(
    query: str, finds: Sequence[str], says: Sequence[str], negated: bool, budget: int
) -> Expectation:
    """Return an expectation as somebody words it.

    Raises:
        RefusedError: nothing is expected, or to find what is no path in a vault.
    """
    for address in finds:
        parse_note_path(address.partition("#")[0])
    return Expectation(query, tuple(finds), tuple(says), negated, budget)


def judge_pack(pack: Pack, expected: Expectation) -> list[str]:
    """Return why a pack is not as expected, in sentences; none if it is."""
    shown = {item.hit.record.path for item in pack.items}
    shown |= {item.hit.address for item in pack.items}
    text = read_plain("\n".join(f"{item.hit.name}\n{item.text}" for item in pack.items))
    checks = [(f"shows {path}", path in shown) for path in expected.finds]
    checks += [(f'says "{words}"', read_plain(words) in text) for words in expected.says]
    if expected.negated:
        return [f"the pack {what}" for what, is_so in checks if is_so]
    return [f"no section of the pack {what}" for what, is_so in checks if not is_so]


def read_plain(text: str) -> str:
    """Return a text as expectations compare it: without regard to case and line breaks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
