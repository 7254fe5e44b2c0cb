"""Count a recall or a pack that was shown to somebody: never waits, never fails."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.token_count import count_tokens
from vaultmem.errors import VaultError
from vaultmem.storage.signals import Call, SignalStore, append, is_large
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.finding.hit import Hit
    from vaultmem.core.packs.pack_text import Pack


def count_recall(vault: Vault, query: str, hits: Sequence[Hit], shown: Sequence[str]) -> None:
    """Count a recall; `shown` is what was shown of each hit."""
    sent = sum(count_hit(hit, text) for hit, text in zip(hits, shown, strict=True))
    _count(vault, "recall", query, hits, sent, -1, len(hits))


def count_hit(hit: Hit, text: str) -> int:
    """Return the tokens of a hit of which so much was shown."""
    return count_tokens(f"{hit.name}\n{hit.address}\n{text}")


def count_pack(vault: Vault, query: str, pack: Pack) -> None:
    """Count a pack; what was pinned is no signal, for no question brought it up."""
    hits = [item.hit for item in pack.items if not item.pinned]
    account = pack.account
    _count(
        vault, "pack", query, hits if query.strip() else [], account.sent, account.flat, len(hits)
    )


def _count(
    vault: Vault, kind: str, query: str, hits: Sequence[Hit], sent: int, flat: int, found: int
) -> None:
    author = vault.author
    asked = "" if not vault.keeps_words or find_secrets(query) else query
    call = Call(vault.now(), kind, asked, author.agent, author.session, sent, flat, found)
    sections = [(hit.record.path, hit.section.heading, hit.score) for hit in hits]
    size = append(vault.state_folder, call, sections)
    if is_large(size):
        with contextlib.suppress(VaultError, OSError):
            SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1], 0.0)
