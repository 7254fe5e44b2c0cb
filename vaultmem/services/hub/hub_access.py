"""Find the user that pushes, and its rules: a hub's token, or a name in an access.yaml.

access.yaml is for git hosts that run the push check as their hook:

    version: 1
    pusher: VAULTMEM_PUSHER        # the variable with who pushes; Forgejo's and Gitea's need none
    people:
      ada: {emails: ["Ada Harbour <ada@example.org>"], own: ["*"]}
      ben: {emails: [ben@example.org], agents: [claude-*], write: ["team:notes/refunds"]}
    agents:
      scout: {propose: [team]}
    limits: {note_bytes: 64K}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.text.display import one_line
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.hub.grants import (
    GRANT,
    HUB,
    ORIGIN,
    Grant,
    GrantKind,
    GrantScope,
    check_email,
    choose_agents,
    parse_scope,
    read_grants,
    split_email,
)
from vaultmem.services.hub.hub_folder import (
    CONFIG_NAME,
    Hub,
    PushLimits,
    Refusal,
    check_name,
    parse_limit,
    read_hub,
)
from vaultmem.storage.atomic import make_private_folder
from vaultmem.storage.git.bare import BareGit

ACCESS_NAME = "access.yaml"

#: The folder of a repository outside a hub with its audit log and claims.
_DATA_FOLDER = "vaultmem"

#: Variables in which git hosts name the pusher, unless access.yaml names another one. Source:
#: modules/repository/env.go of Gitea, whose names Forgejo keeps; `git help http-backend`.
_PUSHERS = ("GITEA_PUSHER_NAME", "REMOTE_USER", "VAULTMEM_PUSHER")
_REPOSITORY, _DEPLOY_KEY = "GITEA_REPO_NAME", "GITEA_DEPLOY_KEY_ID"
_INTERNAL = "GITEA_INTERNAL_PUSH"

#: Refs of pull requests, which these hosts push by themselves.
_PULLS = b"refs/pull/"

_INVALID_TOKEN_REFUSAL = Refusal(
    "the token", "does not count (any more)", "ask the hub's owner for one"
)

_KEYS = ("version", "pusher", "people", "agents", "limits")


class PushIdentity(NamedTuple):
    """A pusher of a vault, with its rules; it can be pickled.

    The grant has no digest, since that signs cookies. `others` are names of other grants and of
    their e-mails.
    """

    vault: str
    grant: Grant
    others: frozenset[str]
    limits: PushLimits


class PushAccess(NamedTuple):
    """The way to find a push's identity (None without a grant), and its place in the audit log.

    `hub` has the audit log and the claims. `id`, `origin` and `now` (seconds since the epoch) are
    logged. `stranger` is the refusal of a push without a grant.
    """

    hub: Hub
    vault: str
    id: str
    origin: str
    now: float
    find: Callable[[], PushIdentity | None]
    stranger: Refusal


def find_access(
    repository: Path, environment: Mapping[str, str], file: str, now: float
) -> PushAccess:
    """Return the access of a push to a repository, from a hook's environment.

    `file` is the access.yaml of a repository outside a hub; by default, the one in the repository.

    Raises:
        RefusedError: the pusher is unknown.
        VaultError: the hub or access.yaml cannot be read.
    """
    if environment.get(HUB):
        hub = read_hub(Path(environment[HUB]))
        if repository.parent != hub.repositories:
            raise RefusedError(f"{repository.name}: not of the hub that {HUB} names")
        vault = repository.name.removesuffix(".git")
        return access_hub(hub, vault, environment.get(GRANT, ""), environment.get(ORIGIN, ""), now)
    place = Path(file) if file else repository / ACCESS_NAME
    if not (file or place.exists()):
        if not (repository.parent.parent / CONFIG_NAME).exists():
            raise RefusedError(
                f"{ACCESS_NAME}: not found in {repository.name}; write it there, or name the file "
                "with --access"
            )
        raise RefusedError(
            "this repository is a hub's; push to the hub's address instead "
            f"(or name an {ACCESS_NAME} with --access)"
        )
    return _find_by_file(repository, environment, place, now)


def access_hub(hub: Hub, vault: str, id: str, origin: str, now: float) -> PushAccess:
    """Return the access of a push or write to a hub's vault, by a grant id."""
    return PushAccess(
        hub,
        vault,
        id,
        origin,
        now,
        partial(find_pusher, hub, vault, id, now),
        _INVALID_TOKEN_REFUSAL,
    )


def find_pusher(hub: Hub, vault: str, id: str, now: float) -> PushIdentity | None:
    """Return the identity of a grant id, None if it is not valid now.

    Raises:
        VaultError: the grants cannot be read.
    """
    grants = read_grants(hub)
    grant = next((each for each in grants if each.id == id and each.is_alive(now)), None)
    return _make_pusher(vault, grant, grants, hub.limits) if grant else None


def is_hosts_own(environment: Mapping[str, str], refs: Iterable[bytes]) -> bool:
    """Return whether Forgejo or Gitea itself moves refs of pull requests, which are not checked.

    Their commits are checked when a branch gets them.
    """
    is_internal = environment.get(_INTERNAL) == "true" and not environment.get(HUB)
    return is_internal and all(ref.startswith(_PULLS) for ref in refs)


def _find_by_file(
    repository: Path, environment: Mapping[str, str], file: Path, now: float
) -> PushAccess:
    git = BareGit(repository, environment)
    checks = git.run("config", "--type=bool", "--get", "receive.fsckObjects", fine=(0, 1))
    if checks.strip() != b"true":
        raise RefusedError(
            "this repository takes malformed objects; run `git config receive.fsckObjects true` "
            f"in {repository.name}"
        )
    settings = _read_file(file)
    name = _read_pusher(settings, environment, file.name)
    rows = _as_mapping(settings.get("limits"), f"{file.name}: limits")
    limits = PushLimits(
        **{key: parse_limit(key, str(each), file.name) for key, each in rows.items()}
    )
    hub = Hub(repository / _DATA_FOLDER, limits)
    make_private_folder(hub.folder)
    make_private_folder(hub.folder / "audit")
    vault = environment.get(_REPOSITORY, "") or repository.name.removesuffix(".git")
    ssh = environment.get("SSH_CONNECTION", "").partition(" ")[0]
    origin = environment.get("REMOTE_ADDR", "") or ssh

    def find() -> PushIdentity | None:
        grants = _list_grants(_read_file(file), file.name)
        grant = next((each for each in grants if each.name == name), None)
        return _make_pusher(vault, grant, grants, limits) if grant else None

    reason, remedy = f"is not in {file.name}", "ask the repository's owner to add the name"
    return PushAccess(
        hub,
        vault,
        name,
        origin,
        now,
        find,
        Refusal(one_line(mask_secrets(name))[:40], reason, remedy),
    )


def _make_pusher(
    vault: str, grant: Grant, grants: Sequence[Grant], limits: PushLimits
) -> PushIdentity:
    others = [each for each in grants if each.name != grant.name]
    names = {each.name for each in others}
    names |= {name for each in others for name, _ in map(split_email, each.emails) if name}
    return PushIdentity(vault, grant._replace(digest=""), frozenset(names), limits)


def _read_pusher(settings: Mapping[str, Any], environment: Mapping[str, str], file: str) -> str:
    """Return the git host's name for the pusher.

    A push with a deploy key has the repository owner's name, so the key gets a name of its own.
    """
    own_variable = str(settings.get("pusher") or "")
    if not own_variable and environment.get(_DEPLOY_KEY, "0") not in {"", "0"}:
        return f"deploy-key-{environment[_DEPLOY_KEY]}"
    for variable in (own_variable,) if own_variable else _PUSHERS:
        if name := environment.get(variable, ""):
            return name
    names = own_variable or ", ".join(_PUSHERS)
    raise RefusedError(
        f"the pusher is unknown: {names} is not set; name the variable of your git host with "
        f'"pusher" in {file}'
    )


def _read_file(file: Path) -> Mapping[str, Any]:
    from vaultmem.storage.yaml_file import read_yaml  # A hub's own hook does not use it.

    settings = read_yaml(file)
    if not isinstance(settings, dict):
        raise VaultError(f"{file.name}: begin it with `version: 1`, and name people and agents")
    for key in settings:
        if key not in _KEYS:
            raise VaultError(f'{file.name}: unknown key "{key}"{suggest_similar(str(key), _KEYS)}')
    if settings.get("version") != 1:
        raise VaultError(
            f"{file.name}: is not of version 1; write `version: 1`, or update vaultmem"
        )
    return settings


def _list_grants(settings: Mapping[str, Any], file: str) -> list[Grant]:
    grants: list[Grant] = []
    for key, kind in (("people", GrantKind.PERSON), ("agents", GrantKind.AGENT)):
        for name, entry in (_as_mapping(settings.get(key), f"{file}: {key}")).items():
            try:
                grants.append(_read_grant(str(name), kind, _as_mapping(entry, str(name))))
            except (RefusedError, VaultError) as error:
                raise VaultError(f"{file}: {key}: {error}") from None
    names = [each.name for each in grants]
    if duplicate := next((name for name in names if names.count(name) > 1), ""):
        raise VaultError(
            f"{file}: {duplicate}: is a person and an agent; choose another name for one"
        )
    return grants


def _read_grant(name: str, kind: GrantKind, entry: Mapping[str, Any]) -> Grant:
    keys = ("emails", "agents", *GrantScope)
    for key in entry:
        if key not in keys:
            suggestion = suggest_similar(str(key), keys, f"; use one of {', '.join(keys)}")
            raise VaultError(f'{name}: unknown key "{key}"{suggestion}')
    texts = {key: _list_texts(entry.get(key), f"{name}: {key}") for key in keys}
    scopes = {s: tuple(parse_scope(s, each) for each in texts[s]) for s in GrantScope if texts[s]}
    emails = tuple(map(check_email, texts["emails"]))
    if kind is GrantKind.PERSON and not emails and set(scopes) - {GrantScope.READ}:
        raise VaultError(f'{name}: has no e-mail; add "emails", as in their commits')
    agents = choose_agents(name, kind, texts["agents"])
    return Grant(check_name(name), name, kind, "", emails, agents, scopes, created=time.time())


def _as_mapping(data: Any, label: str) -> Mapping[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise VaultError(f"{label}: has to be a mapping, as `ada: {{...}}`")
    return {str(key): value for key, value in data.items()}


def _list_texts(data: Any, label: str) -> list[str]:
    if isinstance(data, str):
        return [data]
    if data is None:
        return []
    if not (isinstance(data, list) and all(isinstance(each, str) for each in data)):
        raise VaultError(f'{label}: has to be a list of texts, as ["*"]')
    return data
