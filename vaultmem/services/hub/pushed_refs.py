"""The refs that can be in a hub, and the rules for moving them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.text.display import one_line
from vaultmem.services.hub.grants import GrantScope
from vaultmem.services.hub.hub_folder import Hub, RefUpdate, Refusal, read_json, write_json
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.storage.git.machine_refs import REFS as MACHINES
from vaultmem.storage.git.pushed import is_child
from vaultmem.storage.lock import hold_lock

_BRANCH_PREFIX, _TAG_PREFIX = "refs/heads/", "refs/tags/"
PROPOSALS = f"{_BRANCH_PREFIX}proposals/"
RESCUES = "refs/vaultmem/rescue/"

_MACHINE = re.compile(rf"({MACHINES}[0-9a-f]{{16}})\.[1-9][0-9]{{0,5}}")
_RESCUE = re.compile(rf"{RESCUES}[A-Za-z0-9-]+/[^/].*")
_MAX_LENGTH = 200

_ASK_OWNER_REMEDY = "ask an owner of the vault"


class RefPurpose(Enum):
    """The purpose of a ref."""

    VAULT = "the vault's own branch"
    BRANCH = "another branch"
    PROPOSAL = "a proposal"
    TAG = "a tag"
    MACHINE = "what a machine knows of the vault's use"
    RESCUE = "commits that a branch does not take"


def find_place(visit: ReceivedPush, ref: str) -> RefPurpose | None:
    """Return the purpose of a ref, None for one that hubs reject."""
    if ref == visit.head:
        return RefPurpose.VAULT
    if ref.startswith(PROPOSALS):
        return RefPurpose.PROPOSAL if ref.count("/") >= 4 else None
    if ref.startswith(_BRANCH_PREFIX):
        return (
            None
            if ref == f"{_BRANCH_PREFIX}HEAD" or ref.startswith(f"{_BRANCH_PREFIX}refs/")
            else RefPurpose.BRANCH
        )
    if ref.startswith(_TAG_PREFIX):
        return RefPurpose.TAG
    if _MACHINE.fullmatch(ref):
        return RefPurpose.MACHINE
    return RefPurpose.RESCUE if _RESCUE.fullmatch(ref) else None


def claim_of(ref: str) -> str:
    """Return the key of a machine's ref in the claims, "" for other refs."""
    match = _MACHINE.fullmatch(ref)
    return match[1] if match else ref if _RESCUE.fullmatch(ref) else ""


def check_refs(visit: ReceivedPush, claims: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield the refs that the pusher may not move; objects are read only to check this."""
    updates = visit.updates
    if len(updates) > visit.limits.push_refs:
        most = visit.limits.push_refs
        yield Refusal("the push", f"moves more than {most} refs", "push fewer at once")
        return
    kinds = visit.objects.find(each.new for each in updates if not each.is_removal)
    for update in updates:
        label = _show(update.ref)
        place = find_place(visit, update.ref)
        problem = (
            _check_name(visit, update)
            or (None if place else _reject_unknown(update.ref))
            or (place and _check_place(visit, update, place, claims))
            or _check_rivals(visit, update)
        )
        if problem:
            yield Refusal(label, *problem)
        elif not update.is_removal and kinds.get(update.new, ("", 0))[0] != "commit":
            remedy = "push a commit" + (
                " (`git tag NAME COMMIT`, without -a)" * (place is RefPurpose.TAG)
            )
            yield Refusal(label, "does not name a commit", remedy)
        elif is_forced(visit, update):
            yield Refusal(label, "is forced: what others have would go", _how_to_follow(place))


def is_forced(visit: ReceivedPush, update: RefUpdate) -> bool:
    """Return whether a ref would lose commits."""
    if update.is_new or update.is_removal or is_child(visit.objects, update.new, update.old):
        return False
    command = ("merge-base", "--is-ancestor", update.old, update.new)
    return not visit.git.succeeds(*command)


Told = tuple[str, str]


def _check_name(visit: ReceivedPush, update: RefUpdate) -> Told | None:
    ref = update.ref
    if update.is_removal:
        return None
    if one_line(ref) != ref or not ref.isprintable() or len(ref) > _MAX_LENGTH:
        return "has a name that cannot be read, or a very long one", "choose another name"
    if mask_secrets(ref) != ref:
        return "has a name that looks like a credential", "choose another name"
    return None


def _check_rivals(visit: ReceivedPush, update: RefUpdate) -> Told | None:
    if update.is_new and (rival := visit.find_ref_rival(update.ref)):
        return f"cannot exist next to {_show(rival)}", "choose another name"
    return None


def _reject_unknown(ref: str) -> Told:
    if ref.startswith(("refs/notes/", "refs/replace/")):
        return "would change what others' commits say", "keep it in your own clone"
    if ref.startswith(PROPOSALS):
        return "names no proposal", "push it as proposals/YOU/TOPIC"
    return "is a ref that no hub keeps", "push a branch"


def _check_place(
    visit: ReceivedPush, update: RefUpdate, place: RefPurpose, claims: Mapping[str, str]
) -> Told | None:
    if place is RefPurpose.VAULT:
        return _check_vault(visit, update)
    if place is RefPurpose.PROPOSAL:
        return _check_proposal(visit, update)
    if place in {RefPurpose.MACHINE, RefPurpose.RESCUE}:
        return _check_machine(visit, update, place, claims)
    if not visit.owns:
        return f"is {place.value}, which only an owner moves", _how_to_propose(visit)
    if place is RefPurpose.TAG and not (update.is_new or update.is_removal):
        return "is a tag that others have", "choose another name for it"
    return None


def _check_vault(visit: ReceivedPush, update: RefUpdate) -> Told | None:
    if update.is_removal:
        return "is the vault's own branch", "take the vault out with `vaultmem hub remove`"
    if not visit.may(GrantScope.WRITE):
        remedy = _how_to_propose(visit) if visit.may(GrantScope.PROPOSE) else _ASK_OWNER_REMEDY
        return "you may not write to it", remedy
    return None


def _check_proposal(visit: ReceivedPush, update: RefUpdate) -> Told | None:
    owner = update.ref.removeprefix(PROPOSALS).partition("/")[0]
    if (
        owner == visit.grant.name
        or visit.owns
        or (update.is_removal and _may_decide(visit, update))
    ):
        return None
    return f"is a proposal of {_show(owner)}", _how_to_propose(visit)


def _may_decide(visit: ReceivedPush, update: RefUpdate) -> bool:
    """Return whether a writer may remove a proposal: any, or with a folder grant a merged one."""
    command = ("merge-base", "--is-ancestor", update.old, visit.tip)
    may_write = visit.may(GrantScope.WRITE)
    return visit.may(GrantScope.WRITE, "") or (
        may_write and bool(visit.tip) and visit.git.succeeds(*command)
    )


def _check_machine(
    visit: ReceivedPush, update: RefUpdate, place: RefPurpose, claims: Mapping[str, str]
) -> Told | None:
    if not visit.may(GrantScope.WRITE):
        return f"is {place.value}, and you may not write here", _ASK_OWNER_REMEDY
    name = claim_of(update.ref)
    owner = claims.get(name, "")
    if owner not in {"", visit.grant.name} and not (update.is_removal and visit.owns):
        return f"belongs to another machine, of {owner}", "`vaultmem sync` makes one of your own"
    if not owner and not update.is_new and not visit.owns:
        return "belongs to another machine", "`vaultmem sync` makes one of your own"
    if place is RefPurpose.MACHINE and not (update.is_removal or visit.may(GrantScope.WRITE, "")):
        return f"is {place.value}, and you may write only to folders of it", _ASK_OWNER_REMEDY
    prefix = MACHINES if place is RefPurpose.MACHINE else RESCUES
    own_refs = [
        each
        for each, user in claims.items()
        if user == visit.grant.name and each.startswith(prefix)
    ]
    if not owner and len(own_refs) >= visit.limits.rescues:
        return f"you have {len(own_refs)} of these here", f"{_ASK_OWNER_REMEDY} to remove old ones"
    return None


def _how_to_propose(visit: ReceivedPush) -> str:
    return f"propose it: `git push ORIGIN HEAD:refs/heads/proposals/{visit.grant.name}/TOPIC`"


def _how_to_follow(place: RefPurpose | None) -> str:
    if place is RefPurpose.VAULT:
        return "run `vaultmem sync` to merge it, and push again"
    return "merge what is there, or choose another name"


def _show(ref: str) -> str:
    return one_line(mask_secrets(ref.removeprefix(_BRANCH_PREFIX)))[:_MAX_LENGTH]


FILE_NAME, _KEY = "claims.json", "claims"


def read_claims(hub: Hub, vault: str) -> dict[str, str]:
    """Return the users of a vault's claimed refs, by ref.

    Raises:
        VaultError: the file cannot be read.
    """
    return _read_all(hub).get(vault, {})


def store_claims(
    hub: Hub, vault: str, new_claims: Mapping[str, str], removed_refs: Iterable[str] = ()
) -> None:
    """Add and remove claims of refs; an existing claim keeps its user."""
    removed_set = set(removed_refs)
    with hold_lock(hub.lock):
        claims = _read_all(hub)
        old_claims = claims.get(vault, {})
        claims[vault] = {
            k: v for k, v in (dict(new_claims) | old_claims).items() if k not in removed_set
        }
        if claims[vault] != old_claims:
            write_json(hub, FILE_NAME, _KEY, claims)


def _read_all(hub: Hub) -> dict[str, dict[str, str]]:
    return read_json(hub, FILE_NAME, _KEY, dict[str, dict[str, str]]) or {}
