"""All that a restore may tell, before a budget chooses from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vaultmem.core.packs.pack_text import PackSource
    from vaultmem.core.sessions.chain import ChainLink
    from vaultmem.core.sessions.session import Session
    from vaultmem.core.sessions.turns import Turn


class DecisionNote(NamedTuple):
    """The note of a decision: `text` is its body, "" if it may not be shown."""

    path: str
    blob: str
    title: str
    state: str
    pinned: bool
    text: str


class FileFate(NamedTuple):
    """What became of a file, in few words and in more."""

    short: str
    full: str


class EarlierSession(NamedTuple):
    """A session before the one that is restored; `session` is None where its note is missing."""

    link: ChainLink
    session: Session | None


class RestoreMaterial(NamedTuple):
    """A session, those before it (nearest first), and what is known of what they name.

    `decisions` are by the link's target, `files` by path, `turns` (with their numbers) oldest
    first.
    """

    session: Session
    source: PackSource
    earlier: tuple[EarlierSession, ...] = ()
    decisions: Mapping[str, DecisionNote] = MappingProxyType({})
    files: Mapping[str, FileFate] = MappingProxyType({})
    turns: tuple[tuple[int, Turn], ...] = ()
