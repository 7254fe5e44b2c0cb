"""The grants of a hub: one token each, stored as a digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.hub.hub_folder import Hub, check_name, read_json, write_json
from vaultmem.storage.lock import hold_lock

FILE_NAME, _KEY = "grants.json", "grants"

#: Prefix of tokens, so that scanners recognize them.
PREFIX = "vmhub_"

#: Seconds before the stored time of a token's last use is updated.
_USE = 3600.0

#: Seconds before expiry (or replacement) from which a token's holder is warned.
EXPIRY_WARNING_SECONDS = 14 * 86_400.0

#: Variables a server sets for the hook: the hub's folder, the grant's id, and the caller's origin.
HUB, GRANT, ORIGIN = "VAULTMEM_HUB", "VAULTMEM_HUB_GRANT", "VAULTMEM_HUB_FROM"

#: Most memory that git allocates at once: small data can unpack to any size.
_MAX_GIT_ALLOCATION = "256m"


class GrantKind(StrEnum):
    """The kind of a grant's holder; an agent's commits have to name it."""

    PERSON = "person"
    AGENT = "agent"


class GrantScope(StrEnum):
    """A permission; each includes those before it."""

    READ = "read"
    PROPOSE = "propose"
    WRITE = "write"
    OWN = "own"


_ORDER = tuple(GrantScope)


class Grant(NamedTuple):
    """A token and its permissions.

    `emails` are the allowed authors of its commits, as `a@b` or `Name <a@b>`. `agents` are patterns
    of agents that they can name, without agents that have tokens. `scopes` has patterns of vaults,
    each with an optional folder after a colon (`payments:notes/refunds`). Times are in seconds
    since the epoch, 0 for never. `replaced_by` is the id of the grant that `rotate` made.
    """

    id: str
    name: str
    kind: GrantKind
    digest: str = ""
    emails: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    scopes: dict[GrantScope, tuple[str, ...]] = {}  # noqa: RUF012  # A default, never changed.
    created: float = 0.0
    used: float = 0.0
    expires: float = 0.0
    revoked: float = 0.0
    replaced_by: str = ""

    def is_alive(self, now: float) -> bool:
        """Return whether the token is neither revoked nor expired."""
        return not self.revoked and (not self.expires or now < self.expires)

    def ends_soon(self, now: float) -> bool:
        """Return whether the holder should ask for a new token."""
        return bool(
            self.expires and (self.replaced_by or self.expires - now < EXPIRY_WARNING_SECONDS)
        )


def may(grant: Grant, vault: str, scope: GrantScope, path: str | None = None) -> bool:
    """Return whether a grant has this permission at a path of a vault.

    None is any path, "" the whole vault. Any permission in a vault includes reading all of it,
    since a clone has all of it.
    """
    scopes = _ORDER[_ORDER.index(scope) :]
    patterns = [each for wider_scope in scopes for each in grant.scopes.get(wider_scope, ())]
    is_anywhere = path is None or scope is GrantScope.READ
    return any(_covers(each, vault, None if is_anywhere else path) for each in patterns)


def _covers(pattern: str, vault: str, path: str | None) -> bool:
    name, _, folder = pattern.partition(":")
    if not fnmatchcase(vault, name):
        return False
    return path is None or not folder or path == folder or path.startswith(f"{folder}/")


def parse_scope(scope: GrantScope, text: str) -> str:
    """Return a pattern in its stored form, its folder without slashes at the ends.

    Raises:
        RefusedError: it is invalid.
    """
    name, colon, folder = text.partition(":")
    folder = folder.strip("/")
    check_name(name.replace("*", "x").replace("?", "x"))
    if colon and (not folder or {"", ".", ".."} & set(folder.split("/")) or "\\" in folder):
        raise RefusedError(f'"{text}": a folder follows the colon, as in `{name}:notes/team`')
    if colon and scope is GrantScope.READ:
        raise RefusedError(
            f'"{text}": who may read a vault can clone all of it; name the vault without a folder'
        )
    return f"{name}:{folder}" if colon else name


def read_grants(hub: Hub) -> list[Grant]:
    """Return all grants, including revoked and expired ones, oldest first.

    Raises:
        VaultError: the file cannot be read; then no token is valid.
    """
    return list(read_json(hub, FILE_NAME, _KEY, tuple[Grant, ...]) or ())


def find_grant(hub: Hub, token: str, now: float) -> Grant | None:
    """Return the grant of a valid token, None for any other text.

    The time of its last use is stored, at most once an hour.

    Raises:
        VaultError: the grants cannot be read.
    """
    digest = _digest(token)
    grant = next((each for each in read_grants(hub) if each.digest == digest), None)
    if grant is None or not grant.is_alive(now):
        return None
    if now - grant.used > _USE:
        _replace(hub, grant.id, used=now)
    return grant


def find_by_id(hub: Hub, id: str, now: float) -> Grant | None:
    """Return the valid grant of an id, None if there is none."""
    grants = (each for each in read_grants(hub) if each.id == id)
    return next((each for each in grants if each.is_alive(now)), None)


def build_pusher_environment(hub: Hub, grant: Grant, origin: str = "") -> dict[str, str]:
    """Return variables with the pusher for `git receive-pack` in a hub's repository, or `git push`.

    `origin` is logged: an address, or "api" or "mcp".
    """
    variables = {HUB: str(hub.folder), GRANT: grant.id, ORIGIN: origin}
    return variables | {"GIT_ALLOC_LIMIT": _MAX_GIT_ALLOCATION}


def make_grant(
    hub: Hub,
    name: str,
    kind: GrantKind,
    scopes: Mapping[GrantScope, Sequence[str]],
    now: float,
    emails: Iterable[str] = (),
    agents: Iterable[str] = (),
    expires: float = 0.0,
) -> tuple[Grant, str]:
    """Create a grant; return it with its token, which is not stored.

    An agent may always write as itself. A person without `agents` can push the work of all agents
    that have no token.

    Raises:
        RefusedError: the name, an e-mail or a pattern is invalid, or nothing would be granted.
    """
    check_name(name)
    patterns = {s: tuple(parse_scope(s, each) for each in scopes.get(s, ())) for s in GrantScope}
    if not any(patterns.values()):
        raise RefusedError("nothing is granted; add --read, --propose, --write or --admin VAULT")
    mails = tuple(dict.fromkeys(map(check_email, emails)))
    agent_names = choose_agents(name, kind, agents)
    if kind is GrantKind.PERSON and not mails and any(patterns[each] for each in _ORDER[1:]):
        raise RefusedError("a person who writes needs --email, as in their commits")
    token = _make_token()
    granted_scopes = {scope: each for scope, each in patterns.items() if each}
    with hold_lock(hub.lock):
        grants = read_grants(hub)
        if others := [each for each in grants if each.name == name and each.kind is not kind]:
            raise RefusedError(f'"{name}" is a {others[0].kind} here; choose another name')
        grant = Grant(
            _make_id(grants),
            name,
            kind,
            _digest(token),
            mails,
            agent_names,
            granted_scopes,
            now,
            expires=expires,
        )
        _write(hub, [*grants, grant])
    return grant, token


def choose_agents(name: str, kind: GrantKind, agents: Iterable[str]) -> tuple[str, ...]:
    """Return the agents that a grant's commits may name: by default all, or the agent itself."""
    return tuple(dict.fromkeys([*([name] if kind is GrantKind.AGENT else []), *agents])) or ("*",)


def rotate(
    hub: Hub, name_or_id: str, now: float, grace: float, expires: float = 0.0
) -> tuple[Grant, Grant, str]:
    """Replace the token of a name or id by a new one with the same permissions.

    Return the old grant, which ends after `grace` seconds, the new one, and its token. The new one
    ends with the old one's expiry, or at `expires`.

    Raises:
        NoteNotFoundError: no valid token has this name or id.
        RefusedError: the name has several tokens, or this one is replaced already.
    """
    token = _make_token()
    with hold_lock(hub.lock):
        grants = read_grants(hub)
        old = _find_only(grants, name_or_id, now)
        new_expiry = expires or old.expires
        new = old._replace(
            id=_make_id(grants), digest=_digest(token), created=now, used=0.0, expires=new_expiry
        )
        old_expiry = min(now + grace, old.expires or float("inf"))
        old = old._replace(expires=old_expiry, replaced_by=new.id)
        _write(hub, [*(old if each.id == old.id else each for each in grants), new])
    return old, new, token


def _find_only(grants: Sequence[Grant], name_or_id: str, now: float) -> Grant:
    """Return the one valid grant of a name or id that is not replaced."""
    live_grants = [
        each for each in grants if name_or_id in {each.name, each.id} and each.is_alive(now)
    ]
    current_grants = [each for each in live_grants if not each.replaced_by]
    if len(current_grants) == 1:
        return current_grants[0]
    if current_grants:
        ids = ", ".join(each.id for each in current_grants)
        raise RefusedError(
            f"{name_or_id}: has {len(current_grants)} tokens; name the id of one: {ids}"
        )
    if live_grants:
        raise RefusedError(
            f"{name_or_id}: is replaced by {live_grants[-1].replaced_by} already; rotate that"
        )
    raise NoteNotFoundError(f"{name_or_id}: no token has this name or id")


def _make_token() -> str:
    import secrets  # The hook makes no tokens.

    return PREFIX + secrets.token_urlsafe(32)


def _make_id(grants: Sequence[Grant]) -> str:
    import secrets

    ids = {each.id for each in grants}
    return next(each for each in iter(lambda: secrets.token_hex(4), "") if each not in ids)


def revoke(hub: Hub, name_or_id: str, now: float) -> list[Grant]:
    """Revoke the tokens of a name, or the one of an id; return them.

    Raises:
        NoteNotFoundError: no unrevoked token has this name or id.
    """
    with hold_lock(hub.lock):
        grants = read_grants(hub)
        ids = {g.id for g in grants if name_or_id in {g.name, g.id} and not g.revoked}
        if not ids:
            raise NoteNotFoundError(f"{name_or_id}: no token has this name or id")
        new_grants = [g._replace(revoked=now) if g.id in ids else g for g in grants]
        _write(hub, new_grants)
    return [each for each in new_grants if each.id in ids]


def _replace(hub: Hub, id: str, **fields: Any) -> None:
    with hold_lock(hub.lock):
        grants = read_grants(hub)
        _write(hub, [g._replace(**fields) if g.id == id else g for g in grants])


def check_email(text: str) -> str:
    """Return an e-mail in a grant's form: `a@b`, or `Name <a@b>`.

    Raises:
        RefusedError: it is invalid.
    """
    name, bracket, rest = text.strip().rpartition("<")
    mail = rest.removesuffix(">") if bracket else text.strip()
    if mail.count("@") != 1 or any(mark in mail for mark in " <>\t\n") or mail[0] == "@":
        raise RefusedError(f'"{text}" is not an e-mail address; write a@b or "Name <a@b>"')
    return f"{name.strip()} <{mail}>" if name.strip() else mail


def split_email(email: str) -> tuple[str, str]:
    """Return the name of a grant's e-mail, "" for any name, and the address."""
    name, bracket, mail = email.rpartition("<")
    return (name.strip(), mail.rstrip(">")) if bracket else ("", email)


def _digest(token: str) -> str:
    import hashlib

    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _write(hub: Hub, grants: Iterable[Grant]) -> None:
    write_json(hub, FILE_NAME, _KEY, list(grants))
