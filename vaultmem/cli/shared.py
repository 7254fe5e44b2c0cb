"""The options that nearly every command has, declared once: what they say is a command's `here`.

Also how each says which extra it needs.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.cli.opening import open_here, open_synced, open_view, set_json_errors
from vaultmem.cli.options import (
    AgentOption,
    AtOption,
    JsonOption,
    RefOption,
    SessionOption,
    VaultOption,
)

if TYPE_CHECKING:
    from vaultmem.vault import Vault

_OPTIONS: dict[str, Any] = {
    "vault": VaultOption,
    "ref": RefOption,
    "at": AtOption,
    "agent": AgentOption,
    "session": SessionOption,
    "as_json": JsonOption,
}


class Here(NamedTuple):
    """Where a command works, for whom, and how it answers; what it has no option for is empty."""

    vault: str = ""
    ref: str = ""
    at: str = ""
    agent: str = ""
    session: str = ""
    as_json: bool = False

    def open(self, reads: bool = False) -> Vault:
        """Open the vault; who only `reads` waits for no writer."""
        return open_here(self.vault, self.agent, self.session, self.ref, reads)

    def open_synced(self, reads: bool = False) -> Vault:
        """Open the vault and bring its index up to what is on disk."""
        return open_synced(self.vault, self.agent, self.session, self.ref, reads)

    def open_view(self, reads: bool = False) -> Vault:
        """Open the vault in sync, and look at what the options name: by default, the folder."""
        return open_view(self.vault, self.ref, self.at, self.agent, self.session, reads)


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these names; what they say is its first argument."""
    return give_options(Here, {name: _OPTIONS[name] for name in names})


@contextlib.contextmanager
def needing(extra: str, command: str) -> Iterator[None]:
    """Say how to install what a command needs, where what it imports meanwhile is not there.

    Raises:
        VaultError: it is not.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        from vaultmem.errors import VaultError
        from vaultmem.storage.missing import tell_missing

        raise VaultError(f"{command}: {tell_missing(error.name, extra)}") from None


def give_options(
    kind: Any, options: Mapping[str, Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options; what they say is its first argument, a NamedTuple of that kind.

    Of several kinds, the argument of the one that is given last comes first.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*others: Any, **given: Any) -> None:
            if given.get("as_json"):
                set_json_errors()
            command(kind(**{name: given.pop(name) for name in options}), *others, **given)

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=kind._field_defaults.get(name, inspect.Parameter.empty),
                annotation=annotation,
            )
            for name, annotation in options.items()
        ]
        run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
        return run

    return give
