"""What a commit needs to know of git's settings, asked in one go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.storage.git.commits import Identity

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner

_WANTED = r"^(user\.(name|email)|filter\..*\.(clean|smudge|process|required))$"


class Settings(NamedTuple):
    """The person's identity, and the settings by which a repository's filters would run."""

    person: Identity
    filters: tuple[str, ...]

    def without_filters(self) -> dict[str, str]:
        """Return an environment in which git runs none of the filters.

        Git compares files that changed within the index's own tick when it writes the index, and
        would run their filters. Keys go through the environment: `-c` ends a name at its first =.
        """
        found = {"GIT_CONFIG_COUNT": str(len(self.filters))}
        for number, name in enumerate(self.filters):
            found[f"GIT_CONFIG_KEY_{number}"] = name
            found[f"GIT_CONFIG_VALUE_{number}"] = ""
        return found


def read_settings(git: GitRunner) -> Settings:
    """Ask git for the settings of its user, the machine and the repository."""
    out = git.run("config", "-z", "--get-regexp", _WANTED, check=False)
    found = dict(pair.partition("\n")[::2] for pair in out.split("\0") if pair)
    name, email = found.get("user.name") or "person", found.get("user.email") or "person@localhost"
    filters = sorted(key for key in found if re.match("filter[.]", key))
    return Settings(Identity(name, email), tuple(filters))
