"""Sessions among the evidence: which were on this machine and when last, and their last turns."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import accumulate, islice

from vaultmem.core.sessions.turns import Line, encode_line
from vaultmem.errors import VaultError
from vaultmem.storage.machines import TURNS, SessionSign, is_name
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.storage.signals import SignalStore
from vaultmem.storage.transcripts import Transcripts
from vaultmem.vault import Vault

#: Sessions whose signs are published, those of which turns are, and lines and bytes of each.
_MAX_SIGNS = 200
_MAX_SHARED = 20
_MAX_LINES = 60
_MAX_BYTES = 64 * 1024


def gather_signs(vault: Vault, before: Mapping[str, SessionSign]) -> dict[str, SessionSign]:
    """Return the last sign of each session that was on this machine; `before` are those known."""
    now = vault.now()
    said = Transcripts(vault.root, 0).last_added()
    accounts = SignalStore(vault.state, vault.state_folder).accounts()
    called = {each.session: each.last for each in reversed(accounts)}  # The latest stands first.
    active = {record.id: record for record in ActiveSessions(vault.state_folder).all()}
    signs: dict[str, SessionSign] = {}
    for name in {*before, *said, *called, *active}:
        record = active.get(name)
        begun = record.at if record else 0.0
        known = before[name].at if name in before else 0.0
        at = max(known, begun, called.get(name, 0.0), min(said.get(name, 0.0), now))
        is_open = record is not None and not (record.recovered or record.is_gone)
        signs[name] = SessionSign(at, is_open)
    named = {name: sign for name, sign in signs.items() if is_name(name)}
    newest = sorted(named, key=lambda name: (-named[name].at, name))[:_MAX_SIGNS]
    return {name: named[name] for name in newest}


def gather_turns(vault: Vault, signs: Mapping[str, SessionSign]) -> dict[str, bytes]:
    """Return the last turns of the newest sessions that ended here, as files, if they are shared.

    They are only where the person trusts the vault, too: its settings come with it.
    """
    if not (vault.config.share_turns and vault.trust.is_trusted()):
        return {}
    ended = [name for name, sign in signs.items() if not sign.is_open]
    transcripts = Transcripts(vault.root, 0)
    files: dict[str, bytes] = {}
    for name in [each for each in ended if transcripts.exists(each)][:_MAX_SHARED]:
        with contextlib.suppress(VaultError):  # A link, or no file.
            last = islice(transcripts.read_back(name), _MAX_LINES)
            lines = [encode_line(line) for line in last if isinstance(line, Line)]
            files[f"{TURNS}/{name}.jsonl"] = b"".join(reversed(_fit(lines)))
    return files


def _fit(lines: list[bytes]) -> list[bytes]:
    """Return the first of the lines that are not too much together."""
    sizes = accumulate(map(len, lines))
    return [line for line, size in zip(lines, sizes, strict=True) if size <= _MAX_BYTES]
