"""A push arrives: who it is from, what the door says, and the record of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vaultmem.errors import BusyError, RefusedError, VaultError
from vaultmem.services.hub.audit import Entry, record
from vaultmem.services.hub.door import Visit, check_push
from vaultmem.services.hub.folder import Hub, read_hub
from vaultmem.services.hub.grants import GRANT, HUB, ORIGIN, Grant, find_by_id
from vaultmem.services.hub.refusal import Refusal, Update
from vaultmem.storage.git.bare import BareGit

#: How many refusals whoever pushes is told of.
_TOLD = 20


def receive(
    repository: Path, environment: Mapping[str, str], lines: bytes, now: float, started: float
) -> list[str]:
    """Return why a push is refused, "" lines for none; it is on record when this returns.

    `lines` are as git gives them to a hook: old, new and ref. `now` is the time, and `started` that
    of `time.monotonic`.

    Raises:
        VaultError: nobody knows who pushes, or the check could not be made: nothing is taken in.
    """
    if not environment.get(HUB):
        raise RefusedError("this repository is a hub's; push to the hub's address instead")
    hub = read_hub(Path(environment[HUB]))
    grant = find_by_id(hub, environment.get(GRANT, ""), now)
    vault = repository.name.removesuffix(".git")
    if repository.parent != hub.repositories:
        raise RefusedError(f"{repository.name}: not of the hub that {HUB} names")
    updates = [_parse(line) for line in lines.splitlines()]
    refusals = _ask_door(hub, vault, grant, updates, environment, started)
    details = {
        "refs": [each._asdict() for each in updates],
        "refused": [str(each) for each in refusals],
    }
    outcome = "refused" if refusals else "done"
    who = (grant.name, grant.id) if grant else ("", environment.get(GRANT, ""))
    origin = environment.get(ORIGIN, "")
    record(hub, Entry(now, *who, origin, "push", (vault,), outcome, details))
    more = [f"and {len(refusals) - _TOLD} more"] if len(refusals) > _TOLD else []
    return [*map(str, refusals[:_TOLD]), *more]


def _ask_door(
    hub: Hub,
    vault: str,
    grant: Grant | None,
    updates: Sequence[Update],
    environment: Mapping[str, str],
    started: float,
) -> list[Refusal]:
    if grant is None:
        return [Refusal("the token", "does not count (any more)", "ask the hub's owner for one")]
    seconds = hub.limits.seconds
    git = BareGit(hub.repositories / f"{vault}.git", environment, started + seconds)
    try:
        return check_push(Visit(hub, vault, grant, git), updates)
    except BusyError:
        why = f"its check takes longer than {seconds} seconds"
        return [Refusal("the push", why, "push less at once: fewer commits, or fewer files")]
    except VaultError as error:
        return [Refusal("the push", f"could not be checked ({error})", "try again")]


def _parse(line: bytes) -> Update:
    old, new, ref = line.decode("utf-8", "surrogateescape").split(" ", 2)
    return Update(ref, old, new)
