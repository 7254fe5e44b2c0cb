"""A push arrives: who it is from, what the door says, and the record of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from vaultmem.errors import BusyError, RefusedError, VaultError
from vaultmem.services.hub.audit import Entry, record
from vaultmem.services.hub.claims import keep_claims, read_claims
from vaultmem.services.hub.door import check_push
from vaultmem.services.hub.folder import read_hub
from vaultmem.services.hub.grants import GRANT, HUB, ORIGIN, find_by_id
from vaultmem.services.hub.refs import claim_of
from vaultmem.services.hub.refusal import Refusal, Update
from vaultmem.services.hub.visit import Visit
from vaultmem.storage.git.bare import BareGit

#: How many refusals whoever pushes is told of, and how many (and refs) are on record.
_TOLD, _KEPT = 20, 200

_STRANGER = Refusal("the token", "does not count (any more)", "ask the hub's owner for one")
_LESS = "push less at once: fewer commits, or fewer files"


def receive(
    repository: Path,
    environment: Mapping[str, str],
    lines: bytes,
    now: float,
    limit_time: Callable[[int], object] = lambda _: None,
) -> list[str]:
    """Return why a push is refused, no lines if it is not; it is on record when this returns.

    `lines` are as git gives them to a hook: old, new and ref. `limit_time` is told how many seconds
    the check may take, and raises BusyError then; 0 ends that.

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
    git = BareGit(repository, environment, hub.limits.seconds)
    visit = Visit(hub, vault, grant, git, updates) if grant else None
    refusals = _ask_door(visit, limit_time) if visit else [_STRANGER]
    details = {
        "refs": [each._asdict() for each in updates[:_KEPT]],
        "refused": _cut(list(map(str, refusals)), _KEPT),
    }
    outcome = "refused" if refusals else "done"
    if visit and not refusals and _are_late(visit):
        outcome = "late"  # Others were quicker, and git says so by itself.
    who = (grant.name, grant.id) if grant else ("", environment.get(GRANT, ""))
    origin = environment.get(ORIGIN, "")
    record(hub, Entry(now, *who, origin, "push", (vault,), outcome, details))
    return _cut(list(map(str, refusals)), _TOLD)


def _cut(lines: list[str], most: int) -> list[str]:
    more = [f"and {len(lines) - most:,} more"] if len(lines) > most else []
    return [*lines[:most], *more]


def _ask_door(visit: Visit, limit_time: Callable[[int], object]) -> list[Refusal]:
    hub, vault, seconds = visit.hub, visit.vault, visit.limits.seconds
    limit_time(seconds)
    try:
        found = check_push(visit, read_claims(hub, vault))
        if not found:
            named = [(claim_of(each.ref), each) for each in visit.updates]
            made = {name: visit.grant.name for name, each in named if name and not each.is_removal}
            gone = [name for name, each in named if each.is_removal and name == each.ref]
            if made or gone:
                keep_claims(hub, vault, made, gone)
        return found
    except BusyError:
        why = f"its check takes longer than {seconds} seconds"
        return [Refusal("the push", why, _LESS)]
    except VaultError as error:
        return [Refusal("the push", f"could not be checked ({error})", "try again")]
    except MemoryError:
        return [Refusal("the push", "its check takes more memory than it may", _LESS)]
    finally:
        limit_time(0)
        visit.objects.close()


def _are_late(visit: Visit) -> bool:
    """Tell whether a ref was somewhere else, as the check began, than whoever pushes believes."""
    return any(visit.refs.get(each.ref, "0" * 40) != each.old for each in visit.updates)


def _parse(line: bytes) -> Update:
    old, new, ref = line.decode("utf-8", "surrogateescape").split(" ", 2)
    return Update(ref, old, new)
