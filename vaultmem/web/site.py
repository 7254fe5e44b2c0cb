"""What an app has to know of where it is served, and of who may come in."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

#: Bytes of a request's body at most: the largest note, and what a form adds to it.
MAX_BODY = 2 * 1024 * 1024


#: Below which address the pages are served whose links are made: "" where nothing is above them.
BELOW: ContextVar[str] = ContextVar("below", default="")

_NOTHING: Mapping[str, str] = MappingProxyType({})

#: What of a server's own settings counts for all who come: not who its owner said to be.
_SHARED = (
    *("VAULTMEM_EMBEDDING_", "VAULTMEM_RERANK_", "VAULTMEM_LLM_"),
    *("VAULTMEM_RECEIPTS", "VAULTMEM_TOKENIZER"),
)


def choose_shared(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment counts for all who come."""
    return {name: value for name, value in environment.items() if name.startswith(_SHARED)}


class Site(NamedTuple):
    """Where a vault is served, and what may be done there.

    `hosts` are the names, with their port, under which it may be asked for; `token` is that of
    programs; `folder` is a private one, where one-time codes are kept. In the browser nothing is
    written unless `may_write`; programs write if `programs_write`. `ref` is the branch that is
    looked at where a request names none, and `environment` names models, and nobody. Who
    `asks_others` may ask other vaults of the user's. `scheme` is "https" behind a proxy with that.
    """

    root: Path
    hosts: frozenset[str]
    token: str
    folder: Path
    may_write: bool = False
    programs_write: bool = True
    ref: str = ""
    environment: Mapping[str, str] = _NOTHING
    asks_others: bool = False
    scheme: str = "http"

    @property
    def origins(self) -> frozenset[str]:
        """What browsers say of the pages of this site, where these send something."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: cookies know no ports."""
        port = min(self.hosts, default="").rpartition(":")[2]
        return f"vaultmem-{port}"
