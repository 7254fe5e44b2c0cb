"""A push as it stands at the door: who it is, what it wants to move, and what it brings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from vaultmem.core.paths import fold
from vaultmem.errors import VaultError
from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.grants import Grant, Scope, may
from vaultmem.services.hub.refusal import Update
from vaultmem.storage.git.bare import BareGit
from vaultmem.storage.git.pushed import Bounds, Objects

if TYPE_CHECKING:
    from vaultmem.config import Config


class Visit:
    """Who pushes what to which vault of a hub; `git` sees the objects that are not taken in yet."""

    def __init__(
        self, hub: Hub, vault: str, grant: Grant, git: BareGit, updates: Sequence[Update]
    ) -> None:
        self.hub, self.vault, self.grant, self.git = hub, vault, grant, git
        self.updates = updates
        self.limits = hub.limits
        self.bounds = Bounds(hub.limits.push_commits, hub.limits.push_files)
        self.objects = Objects(git)

    def may(self, scope: Scope, path: str | None = None) -> bool:
        """Tell whether whoever pushes may do this at a path; None is anywhere, "" everywhere."""
        return may(self.grant, self.vault, scope, path)

    @cached_property
    def owns(self) -> bool:
        """Whether the whole vault is theirs."""
        return self.may(Scope.OWN, "")

    @cached_property
    def head(self) -> str:
        """The ref of the vault's own branch."""
        text = (self.git.repository / "HEAD").read_text(encoding="utf-8", errors="surrogateescape")
        return text.strip().removeprefix("ref: ")

    @cached_property
    def refs(self) -> dict[str, str]:
        """The refs that there are before the push, with their objects."""
        out = self.git.run("for-each-ref", "--format=%(refname) %(objectname)")
        lines = out.decode("utf-8", "surrogateescape").split("\n")
        return {ref: name for ref, _, name in (line.rpartition(" ") for line in lines) if ref}

    @cached_property
    def tip(self) -> str:
        """The commit of the vault's own branch, "" before the first."""
        return self.refs.get(self.head, "")

    @cached_property
    def rules(self) -> str:
        """The commit that has the owners' word on credentials: of an owner, what is pushed."""
        pushed = {each.ref: each.new for each in self.updates if not each.is_removal}
        return pushed.get(self.head, self.tip) if self.owns else self.tip

    @cached_property
    def config(self) -> Config:
        """The vault's settings as its owners have them; the usual ones where they say nothing."""
        from vaultmem.config import Config, parse_config  # Most pushes have no need of it.

        try:
            return parse_config(self._settings)
        except VaultError:  # Then nothing is allowed by it.
            return Config()

    def allows_secrets(self, path: str) -> bool:
        """Tell whether the vault's owners allow what looks like a credential in a file."""
        return "allow_secrets" in self._settings and self.config.allows_secrets(path)

    @cached_property
    def _settings(self) -> str:
        found = self.objects.read([f"{self.rules}:vaultmem.yaml"] if self.rules else [])
        return next((data.decode("utf-8", "replace") for _, data in found), "")

    def find_ref_rival(self, ref: str) -> str:
        """Return a ref that cannot be beside a new one, "" for none.

        Some disk has one place for both, or one's name is a folder of the other's.
        """
        pushed = [each.ref for each in self.updates if not each.is_removal]
        own = fold(ref)
        for other in (*self.refs, *pushed):
            folded = fold(other)
            both = f"{own}/", f"{folded}/"
            if other != ref and (both[0].startswith(both[1]) or both[1].startswith(both[0])):
                return other
        return ""
