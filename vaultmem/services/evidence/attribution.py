"""Share which agents' lines plain git committed here, and read what other machines share.

What a machine shares counts for commits that its owner made, and for no other person's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from vaultmem.errors import VaultError
from vaultmem.services.evidence.usage import list_machines
from vaultmem.services.reading.attribute import carry_attribution
from vaultmem.storage.git.attribution import (
    CLAIMS_REF,
    Wrote,
    format_attribution,
    parse_attribution,
    read_attribution,
    replace_attribution,
)
from vaultmem.storage.git.machine_refs import read_files
from vaultmem.storage.machines import ATTRIBUTION, Machine
from vaultmem.vault import Vault

_FILE = re.compile(rf"{ATTRIBUTION}/[0-9a-f]{{2}}\.json")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def gather_attribution(vault: Vault) -> dict[str, bytes]:
    """Return what this machine knows of who wrote what plain git committed, as files.

    A file is of all commits whose ids begin with the same two digits.
    """
    carry_attribution(vault)
    shards: dict[str, dict[str, list[str]]] = {}
    try:
        notes = read_attribution(vault.history)
    except VaultError:
        return {}
    for commit, text in sorted(notes.items()):
        own = [
            each
            for each in parse_attribution(text)
            if each.path.startswith(vault.history.prefix) and not each.claimed_by
        ]
        if own:
            lines = format_attribution(own).decode("utf-8", "replace").splitlines()
            shards.setdefault(commit[:2], {})[commit] = lines
    return {
        f"{ATTRIBUTION}/{start}.json": json.dumps(shard, indent=0, sort_keys=True).encode() + b"\n"
        for start, shard in shards.items()
    }


def take_attribution(vault: Vault) -> None:
    """Make what other machines share of it count here, as their claims and no other ones.

    Raises:
        VaultError: git cannot read or write it now.
    """
    found: dict[str, bytes] = {}
    for machine in list_machines(vault):
        claims = dict(_read_claims(vault, machine))
        for commit in _list_commits_of(vault, machine.owner.email, claims):
            claimed = (each._replace(claimed_by=machine.name) for each in claims[commit])
            found[commit] = found.get(commit, b"") + format_attribution(claimed)
    replace_attribution(vault.history, CLAIMS_REF, found, int(vault.now()))


def _read_claims(vault: Vault, machine: Machine) -> Iterator[tuple[str, list[Wrote]]]:
    """Yield what a machine claims, by commit."""
    files = read_files(vault.history, machine.commit, lambda path: bool(_FILE.fullmatch(path)))
    for data in files.values():
        try:
            shard = json.loads(data)
        except (ValueError, RecursionError):
            continue
        for commit, lines in shard.items() if isinstance(shard, dict) else ():
            if not (_COMMIT.fullmatch(commit) and isinstance(lines, list)):
                continue
            text = "\n".join(line for line in lines if isinstance(line, str))
            if wrote := [
                each
                for each in parse_attribution(text)
                if each.path.startswith(vault.history.prefix)
            ]:
                yield commit, wrote


def _list_commits_of(vault: Vault, email: str, commits: Mapping[str, object]) -> list[str]:
    """Return those of the commits that are here and that an e-mail address made."""
    if not commits:
        return []
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    command = ("log", "--no-walk", "--ignore-missing", "--no-notes", "--no-show-signature")
    out = vault.history.git.run(*command, "--format=%H %ae %ce", "--stdin", stdin=asked)
    found = []
    for line in out.splitlines():
        commit, _, emails = line.partition(" ")
        if commit in commits and email.casefold() in emails.casefold().split(" "):
            found.append(commit)
    return found
