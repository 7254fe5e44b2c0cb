"""Whose name git gives to a commit that a person makes here, by git's own rules.

Git is asked with the author of the person's environment: `GIT_AUTHOR_NAME`, `GIT_AUTHOR_EMAIL`,
then `author.*` and `user.*` of all its settings, `EMAIL`, and what the system knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vaultmem.errors import VaultError
from vaultmem.storage.git.commit_draft import Identity
from vaultmem.storage.git.runner import GitRunner

#: Whose commits a person's are where git itself would make none.
NOBODY = Identity("person", "person@localhost")

_VARIABLES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL")


class Person(NamedTuple):
    """Who the person is; `problem` says that git does not know it, and what to do."""

    identity: Identity
    problem: str = ""


def find_person(git: GitRunner, environment: Mapping[str, str]) -> Person:
    """Return who git takes the person for, asked anew."""
    given = {name: environment[name] for name in _VARIABLES if name in environment}
    try:
        shown = git.run("var", "GIT_AUTHOR_IDENT", env=given)
    except VaultError:
        return Person(
            NOBODY,
            "git does not know who you are, so what you write is committed as "
            f"{NOBODY.name} <{NOBODY.email}>; say it with `git config --global user.name NAME` and "
            "`git config --global user.email ADDRESS`",
        )
    name, _, rest = shown.rpartition(" <")
    return Person(Identity(name, rest.partition(">")[0]))
