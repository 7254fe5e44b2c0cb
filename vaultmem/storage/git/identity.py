"""Whose name git gives to a commit that a person makes here, by git's own rules.

`GIT_AUTHOR_NAME` and `GIT_AUTHOR_EMAIL` count first, then `author.*` and `user.*` of all settings.
Where these do not say it all, git itself is asked: it looks at `EMAIL` and at what the system
knows, and may refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vaultmem.core.notes.encoding import read_escapes
from vaultmem.errors import VaultError
from vaultmem.storage.git.commit_draft import Identity, Settings, clean_name
from vaultmem.storage.git.runner import GitRunner

#: Whose commits a person's are where git itself would make none.
NOBODY = Identity("person", "person@localhost")

_UNKNOWN = (
    f"git does not know who you are, so what you write is committed as {NOBODY.name} "
    f"<{NOBODY.email}>; say it with `git config --global user.name NAME` and "
    "`git config --global user.email ADDRESS`"
)

_VARIABLES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL")


class Person(NamedTuple):
    """Who the person is; `problem` says that git does not know it, and what to do."""

    identity: Identity
    problem: str = ""


def find_person(git: GitRunner, environment: Mapping[str, str], settings: Settings) -> Person:
    """Return who git takes the person for."""
    given = {name: environment[name] for name in _VARIABLES if name in environment}
    named = [
        given.get(variable, settings.names.get(f"author.{key}", settings.names.get(f"user.{key}")))
        for variable, key in zip(_VARIABLES, ("name", "email"), strict=True)
    ]
    read = [read_escapes(each or "") for each in named]
    if all(map(clean_name, read)):
        return Person(Identity(*read))
    try:
        shown = git.run("var", "GIT_AUTHOR_IDENT", env=given)
    except VaultError:
        return Person(NOBODY, _UNKNOWN)
    name, _, rest = read_escapes(shown).rpartition(" <")
    return Person(Identity(name, rest.partition(">")[0]))
