"""A push to check: the pusher, the ref updates, and the new objects.

It contains all that the check needs, so no hub is asked. For a fleet, the check runs in a clone, on
the machine that has the clone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from vaultmem.core.text.paths import fold
from vaultmem.errors import VaultError
from vaultmem.services.hub.grants import GrantScope, may
from vaultmem.services.hub.hub_access import PushIdentity
from vaultmem.services.hub.hub_folder import RefUpdate
from vaultmem.storage.git.bare import BareGit
from vaultmem.storage.git.machine_refs import REFS as MACHINES
from vaultmem.storage.git.pushed import Bounds, NewCommit, ObjectReader, read_commits

if TYPE_CHECKING:
    from vaultmem.config import Config


#: Refs whose commits are not checked like a branch's: of machines, and a host's pull requests.
_UNCHECKED_PREFIXES = (MACHINES, "refs/pull/")


class ReceivedPush:
    """A push; `git` can read its objects before they are accepted.

    With `remote`, `git` is a clone that already has the new commits. The refs before the push are
    then the tracking refs of `remote`.
    """

    def __init__(
        self, pusher: PushIdentity, git: BareGit, updates: Sequence[RefUpdate], remote: str = ""
    ) -> None:
        self.pusher, self.git, self.updates, self.remote = pusher, git, updates, remote
        self.vault, self.grant, self.limits = pusher.vault, pusher.grant, pusher.limits
        self.bounds = Bounds(self.limits.push_commits, self.limits.push_files)
        self.objects = ObjectReader(git)

    def read_commits(self, revisions: Sequence[str]) -> list[NewCommit]:
        """Return the commits of revisions (as for `git log`), newest first.

        Raises:
            TooMuchError, LockTimeoutError, SystemFailureError: as for `pushed.read_commits`.
        """
        return list(read_commits(self.git, self.objects, revisions, self.bounds))

    def may(self, scope: GrantScope, path: str | None = None) -> bool:
        """Return whether the pusher has a permission at a path (None: any, "": whole vault)."""
        return may(self.grant, self.vault, scope, path)

    @cached_property
    def owns(self) -> bool:
        """Whether the pusher has admin permission on the whole vault."""
        return self.may(GrantScope.OWN, "")

    @cached_property
    def head(self) -> str:
        """The ref of the vault's default branch."""
        text = (self.git.repository / "HEAD").read_text(encoding="utf-8", errors="surrogateescape")
        return text.strip().removeprefix("ref: ")

    @cached_property
    def refs(self) -> dict[str, str]:
        """The refs before the push, with their objects."""
        return self.list_refs()

    def list_refs(self) -> dict[str, str]:
        """Return the current refs, with their objects."""
        if not self.remote:
            return self.git.list_refs()
        prefix = f"refs/remotes/{self.remote}/"
        refs = self.git.list_refs(prefix)
        return {f"refs/heads/{ref.removeprefix(prefix)}": name for ref, name in refs.items()}

    @property
    def exclusions(self) -> tuple[str, ...]:
        """Arguments for git that exclude checked commits; refs of machines count as unchecked."""
        if self.remote:
            return ("--not", f"--remotes={self.remote}")
        return ("--not", *(f"--exclude={each}*" for each in _UNCHECKED_PREFIXES), "--all")

    @cached_property
    def tip(self) -> str:
        """The commit of the vault's default branch, "" before the first."""
        return self.refs.get(self.head, "")

    @cached_property
    def rules(self) -> str:
        """The commit with the valid rules for credentials: an owner's pushed one, else the tip."""
        pushed_commits = {each.ref: each.new for each in self.updates if not each.is_removal}
        return pushed_commits.get(self.head, self.tip) if self.owns else self.tip

    @cached_property
    def config(self) -> Config:
        """The vault's settings by its owners, or the defaults."""
        return _parse(self._settings)

    @cached_property
    def promoters(self) -> frozenset[str]:
        """The agents that may promote policies, by the settings before the push."""
        return frozenset(_parse(self._read_settings(self.tip or self.rules)).promoting_agents)

    def allows_secrets(self, path: str) -> bool:
        """Return whether the vault's owners allow credential-like text in a file."""
        return "allow_secrets" in self._settings and self.config.allows_secrets(path)

    @cached_property
    def _settings(self) -> str:
        return self._read_settings(self.rules)

    def _read_settings(self, commit: str) -> str:
        contents = self.objects.read([f"{commit}:vaultmem.yaml"] if commit else [])
        return next((data.decode("utf-8", "replace") for _, data in contents), "")

    def find_ref_rival(self, ref: str) -> str:
        """Return a ref that cannot exist next to a new one, "" for none.

        Some disks use one path for both, or one name is a folder of the other.
        """
        pushed_refs = [each.ref for each in self.updates if not each.is_removal]
        own = fold(ref)
        for other in (*self.refs, *pushed_refs):
            folded = fold(other)
            prefixes = f"{own}/", f"{folded}/"
            if other != ref and (
                prefixes[0].startswith(prefixes[1]) or prefixes[1].startswith(prefixes[0])
            ):
                return other
        return ""


def _parse(settings: str) -> Config:
    from vaultmem.config import Config, parse_config  # Most pushes do not need it.

    try:
        return parse_config(settings)
    except VaultError:  # Invalid settings allow nothing.
        return Config()
