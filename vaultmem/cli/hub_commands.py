"""Commands of a team's hub: serve, init, add, remove, grant, grants, revoke, log, check."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.health_commands import show_checks
from vaultmem.cli.options import ONLY_HERE, HostOption, JsonOption, PortOption
from vaultmem.cli.output import emit_json, print_line, print_styled, warn
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.serve_commands import NamesOption, ProxyOption, find_served, print_places, serving
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import ArgumentError, NoVaultError, RefusedError, VaultError
from vaultmem.operations.vault_data import granted_json, grants_json, removed_json, repository_json

if TYPE_CHECKING:
    from vaultmem.services.hub.grants import Grant
    from vaultmem.services.hub.hub_folder import AuditEntry, Hub


# The hub of a command, and its audit log entry.

HubOption = Annotated[
    str,
    typer.Option(
        "--hub",
        metavar="DIR",
        help="Folder of the hub.  [default: $VAULTMEM_HUB, or around this folder]",
    ),
]


def find_hub(hub_option: str, changes: bool = True) -> Hub:
    """Open the named hub, or the one around the caller's folder.

    Read-only callers (without `changes`) never repair the hub.

    Raises:
        NoVaultError: no hub was found.
    """
    from vaultmem.environment import current_environment, current_folder
    from vaultmem.services.hub.hub_folder import CONFIG_NAME, open_hub, read_hub

    folder = hub_option or current_environment().get("VAULTMEM_HUB", "")
    if not folder:
        cwd = Path(current_folder())
        folders = (each for each in (cwd, *cwd.parents) if (each / CONFIG_NAME).is_file())
        hub_folder = next(folders, None)
        if hub_folder is None:
            raise NoVaultError(f"{cwd}: no hub here or above; name its folder with --hub DIR")
        folder = str(hub_folder)
    path = Path(folder).expanduser()
    return open_hub(path) if changes else read_hub(path)


def record_here(hub: Hub, action: str, vaults: Iterable[str], details: dict[str, Any]) -> None:
    """Log an action on the hub's own machine to the audit log."""
    from vaultmem.services.hub.hub_folder import AuditEntry, record

    entry = AuditEntry(time.time(), "", "", "terminal", action, tuple(vaults), "done", details)
    record(hub, entry)


# Commands on access to a hub: hub grant, grants, revoke, log.

_Vaults = list[str]

#: How long a replaced token stays valid.
_ROTATION_GRACE = "7d"


def grant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="User of the token.")],
    person: Annotated[bool, typer.Option("--person", help="The user is a person.")] = False,
    agent: Annotated[
        bool, typer.Option("--agent", help="The user is an agent with this name.")
    ] = False,
    email: Annotated[
        _Vaults,
        typer.Option(
            "--email", metavar="EMAIL", help='Author of their commits: a@b or "Name <a@b>".'
        ),
    ] = [],  # noqa: B006
    writes_as: Annotated[
        _Vaults,
        typer.Option(
            "--push-as",
            metavar="AGENT",
            help="Agent whose commits they may push.  [default: agents without a token]",
        ),
    ] = [],  # noqa: B006
    read: Annotated[
        _Vaults,
        typer.Option("--read", metavar="VAULT", help="May clone and query the whole vault."),
    ] = [],  # noqa: B006
    propose: Annotated[
        _Vaults,
        typer.Option("--propose", metavar="VAULT", help="May read, and propose on a branch."),
    ] = [],  # noqa: B006
    write: Annotated[
        _Vaults,
        typer.Option("--write", metavar="VAULT", help="May propose, and write to the vault."),
    ] = [],  # noqa: B006
    own: Annotated[
        _Vaults,
        typer.Option(
            "--admin", metavar="VAULT", help="May write, and change settings and branches."
        ),
    ] = [],  # noqa: B006
    expires: Annotated[
        str, typer.Option("--expires", metavar="DAY", help="Last day on which the token is valid.")
    ] = "",
    rotate: Annotated[
        bool,
        typer.Option("--rotate", help="Replace a token, by its name or id, by a new one."),
    ] = False,
    grace: Annotated[
        str,
        typer.Option(
            "--grace", metavar="AGE", help="Until the replaced token ends: 12h, 7d.  [default: 7d]"
        ),
    ] = "",
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give a person or an agent a token with its permissions.

    VAULT is a vault's name or a pattern (`*`, `team-*`), with a folder of it after a colon where
    only that is meant (`payments:notes/refunds`). The token is printed once: the hub keeps a
    digest. Other tokens of the same name count as before. With --rotate the new token may do what
    the old one may, which ends after a grace period.

    Examples:
      vaultmem hub grant ada --person --email ada@example.org --admin "*"
      vaultmem hub grant scout --agent --write payments:notes/refunds
      vaultmem hub grant scout --rotate --grace 2d
    """
    from vaultmem.core.text.timestamps import parse_timestamp
    from vaultmem.services.hub.grants import GrantKind, GrantScope, make_grant, read_grants

    expiry = parse_timestamp(expires, end_of_day=True) if expires else 0.0
    if rotate:
        if person or agent or any((email, writes_as, read, propose, write, own)):
            raise RefusedError("--rotate: the new token may do what the old one may; name no more")
        _rotate(find_hub(hub), name, grace, expiry, as_json)
        return
    if grace:
        raise RefusedError("--grace: is for --rotate alone; add that")
    if person == agent:
        raise RefusedError(f"{name}: a person or an agent; add --person or --agent")
    scopes = {
        GrantScope.READ: read,
        GrantScope.PROPOSE: propose,
        GrantScope.WRITE: write,
        GrantScope.OWN: own,
    }
    kind, now = (GrantKind.PERSON if person else GrantKind.AGENT), time.time()
    opened = find_hub(hub)
    new_grant, token = make_grant(opened, name, kind, scopes, now, email, writes_as, expiry)
    record_here(
        opened, "grant", [], {"name": name, "id": new_grant.id, "scopes": dict(new_grant.scopes)}
    )
    valid_grants = [
        each for each in read_grants(opened) if each.name == name and each.is_alive(now)
    ]
    others = [each for each in valid_grants if each.id != new_grant.id]
    _warn_unknown(opened, new_grant)
    if as_json:
        emit_json(granted_json(new_grant, token, others))
        return
    _print_granted(new_grant, token)
    if others:
        ids = ", ".join(each.id for each in others)
        text = f"{pluralize(len(others), 'older token')} of {name} as before: {ids}"
        print_styled("counts  ", "dim", text)
        print_styled(
            "", "dim", "        `vaultmem hub revoke ID` ends one, `--rotate` replaces one"
        )


def _warn_unknown(hub: Hub, new_grant: Grant) -> None:
    """Print a warning for each vault of a grant that the hub does not have.

    A hub without repositories is the front of a fleet, whose vaults are unknown here.
    """
    from vaultmem.services.hub.repositories import list_repositories

    vaults = list_repositories(hub)
    patterns = {each.partition(":")[0] for scope in new_grant.scopes.values() for each in scope}
    for name in sorted(patterns - vaults.keys()) if vaults else ():
        if not {"*", "?"} & set(name):
            default = f"; `vaultmem hub add {name}` adds one"
            warn(f"{name}: the hub has no such vault{suggest_similar(name, [*vaults], default)}")


def _rotate(hub: Hub, name: str, grace: str, expiry: float, as_json: bool) -> None:
    """Replace a token by a new one, and print when the old one ends."""
    from vaultmem.core.text.timestamps import parse_age
    from vaultmem.services.hub.grants import rotate

    old, new_grant, token = rotate(
        hub, name, time.time(), parse_age(grace or _ROTATION_GRACE), expiry
    )
    details = {
        "name": new_grant.name,
        "id": new_grant.id,
        "replaces": old.id,
        "scopes": dict(new_grant.scopes),
    }
    record_here(hub, "grant", [], details)
    if as_json:
        emit_json(granted_json(new_grant, token, replaced=old))
        return
    _print_granted(new_grant, token)
    print_styled("ends    ", "yellow", f"the old token, {old.id}, on {_minute(old.expires)}")


def _print_granted(new_grant: Grant, token: str) -> None:
    print_styled(
        "granted ", "green", f"{new_grant.name}, {new_grant.kind.value}, by the id {new_grant.id}"
    )
    _print_scopes(new_grant)
    print_line(f"token   {token}")
    print_styled("", "dim", "        it is shown this once; give it over a safe way")


def grants(hub: HubOption = "", as_json: JsonOption = False) -> None:
    """List who may do what, and when their tokens were used last.

    Examples:
      vaultmem hub grants
    """
    from vaultmem.services.hub.grants import read_grants

    all_grants, now = read_grants(find_hub(hub)), time.time()
    if as_json:
        emit_json(grants_json(all_grants, now))
        return
    width = max((len(each.name) for each in all_grants), default=0)
    for each in all_grants:
        style = "bold" if each.is_alive(now) else "dim"
        text = f"{each.kind.value:<6}  {each.id}  {_describe_use(each, now)}"
        print_styled(f"{each.name:<{width}}", style, f"  {text}")
        _print_scopes(each, width + 2)
    if not all_grants:
        print_line("No user has a token yet; `vaultmem hub grant NAME` creates one.")


def revoke(
    named: Annotated[str, typer.Argument(metavar="NAME", help="User, or the id of one token.")],
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Revoke the tokens of a user, from the next request on.

    Examples:
      vaultmem hub revoke scout
    """
    from vaultmem.services.hub.grants import revoke as end_grants

    opened, now = find_hub(hub), time.time()
    old_grants = end_grants(opened, named, now)
    record_here(
        opened, "revoke", [], {"name": old_grants[0].name, "ids": [each.id for each in old_grants]}
    )
    if as_json:
        emit_json(grants_json(old_grants, now))
        return
    for each in old_grants:
        print_styled("revoked ", "green", f"{each.name}, {each.id}")


def log(
    who: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Only requests of this user.")
    ] = "",
    vault: Annotated[
        str, typer.Option("--vault", metavar="VAULT", help="Only of this vault.")
    ] = "",
    what: Annotated[
        str, typer.Option("--action", metavar="KIND", help="Only of this kind: push, ask ...")
    ] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only rejections.")] = False,
    since: Annotated[
        str, typer.Option("--since", metavar="DATE", help="Only from this day or time on.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Entries at most.")] = 50,
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show requests, pushes and rejections, newest first.

    Examples:
      vaultmem hub log --refused --since 2026-11-20
    """
    from vaultmem.core.text.timestamps import parse_timestamp
    from vaultmem.services.hub.hub_folder import read_audit

    if limit < 1:
        raise ArgumentError(f"--limit must be at least 1, not {limit}")
    start = parse_timestamp(since) if since else 0.0
    outcome = "refused" if refused else ""
    entries = list(islice(read_audit(find_hub(hub), who, vault, what, outcome, start), limit))
    if as_json:
        emit_json({"entries": entries})
        return
    for each in entries:
        _print_log_entry(each)
    if not entries:
        is_narrow = who or vault or what or refused or since
        print_line("No entry matches." if is_narrow else "The log is empty.")


def _label_scope(scope: str) -> str:
    """Return the option of `hub grant` that gives a scope, without its dashes."""
    return "admin" if scope == "own" else scope


def _print_scopes(hub_grant: Grant, indent: int = 0) -> None:
    from vaultmem.services.hub.writers import list_allowed_agents

    rows: list[tuple[str, Iterable[str]]] = [
        (_label_scope(s.value), each) for s, each in hub_grant.scopes.items()
    ]
    rows += [("as", (*hub_grant.emails, *map(list_allowed_agents, hub_grant.agents)))]
    for name, values in rows:
        if text := ", ".join(values):
            print_styled(f"{'':<{indent}}{name:<8}", "dim", text)


def _describe_use(hub_grant: Grant, now: float) -> str:
    if hub_grant.revoked:
        return f"revoked {_day(hub_grant.revoked)}"
    if hub_grant.expires and hub_grant.expires <= now:
        return f"expired {_day(hub_grant.expires)}"
    usage = f"used {_day(hub_grant.used)}" if hub_grant.used else "never used"
    if hub_grant.replaced_by:
        return f"{usage}, ends {_minute(hub_grant.expires)}, replaced by {hub_grant.replaced_by}"
    return f"{usage}, until {_day(hub_grant.expires)}" if hub_grant.expires else usage


def _print_log_entry(entry: AuditEntry) -> None:
    timestamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    vaults = ", ".join(entry.vaults[:3]) + (" ..." if len(entry.vaults) > 3 else "")
    caller = entry.who or entry.origin or "nobody"
    text = f"  {caller:<12}  {entry.what:<6}  {vaults}  {entry.outcome}"
    print_styled(timestamp, "dim" if entry.outcome in {"done", "begun"} else "red", one_line(text))
    for line in _describe_details(entry):
        print_line(f"    {one_line(line)}")


def _describe_details(entry: AuditEntry) -> list[str]:
    details: Any = entry.details
    lines = [
        f"{each['ref'].removeprefix('refs/heads/')}  {each['old'][:7]}..{each['new'][:7]}"
        for each in details.get("refs", ())
    ]
    if "name" in details:
        scopes = details.get("scopes", {}).items()
        scopes_text = "; ".join(
            f"{_label_scope(scope)} {', '.join(vaults)}" for scope, vaults in scopes
        )
        lines.append(f"{details['name']}  {scopes_text}")
    return [*lines[:5], *details.get("refused", ())[:5]]


def _minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


# The command that serves a hub: hub serve.

#: The example name for a hub without vaults.
_EXAMPLE = "team"

_FolderArgument = Annotated[
    str, typer.Argument(metavar="[DIR]", help="Folder of the hub; an empty one becomes a hub.")
]
_OwnerOption = Annotated[
    str, typer.Option("--owner", metavar="NAME", help="For a new hub: name of its owner.")
]
_EmailOption = Annotated[
    str,
    typer.Option(
        "--email", metavar="ADDRESS", help="For a new hub: author of the owner's commits."
    ),
]


def serve(
    folder: _FolderArgument = ".",
    port: PortOption = 8378,
    host: HostOption = ONLY_HERE,
    name: NamesOption = [],  # noqa: B006
    proxy: ProxyOption = False,
    owner: _OwnerOption = "",
    email: _EmailOption = "",
) -> None:
    """Serve a team's vaults by tokens: git, pages, API and MCP.

    An empty folder becomes a hub, and you its owner, whose token is printed once. Only this machine
    is served, without --host.

    Examples:
      vaultmem hub serve ~/hub
      vaultmem hub serve ~/hub --allowed-host hub.example.org --trust-proxy
    """
    from vaultmem.services.hub.grants import read_grants
    from vaultmem.services.hub.hub_folder import CONFIG_NAME, make_hub, open_hub
    from vaultmem.services.hub.repositories import list_repositories

    served = find_served("hub serve", port, host, name, proxy)
    place = Path(folder).expanduser()
    hub = open_hub(place) if (place / CONFIG_NAME).exists() else make_hub(place)
    with serving(hub, served) as address:
        if not read_grants(hub):
            token = _make_owner(hub, owner, email)
            print_line(
                f"Made a hub in {hub.folder}, and you its owner. Your token, shown only now:"
            )
            print_line(f"\n  {token}\n")
        print_places(hub.folder, address, with_git=True)
        _print_next(hub, address, next(iter(list_repositories(hub)), ""))


def _make_owner(hub: Hub, owner: str, email: str) -> str:
    """Create and return an admin token for the hub's creator."""
    import getpass
    import time

    from vaultmem.services.hub.grants import GrantKind, GrantScope, make_grant
    from vaultmem.storage.git.runner import GitRunner

    git = GitRunner(hub.folder, hub.folder)
    address = email or git.run("config", "--global", "--get", "user.email", check=False)
    if not address:
        raise VaultError("hub serve: git does not know your address; name it with --email ADDRESS")
    name = owner or getpass.getuser()
    scopes = {GrantScope.OWN: ["*"]}
    return make_grant(hub, name, GrantKind.PERSON, scopes, time.time(), [address])[1]


def _print_next(hub: Hub, address: str, vault: str) -> None:
    """Print the steps by which others get access."""
    option = f"--hub {hub.folder}"
    if not vault:
        print_line("\nNo vault is in it yet; in another terminal:")
        print_line(f"  vaultmem hub add {_EXAMPLE} --from VAULT {option}")
    name = vault or _EXAMPLE
    scheme, _, place = address.partition("://")
    print_line("\nA teammate gets a token from you:")
    print_line(f"  vaultmem hub grant NAME --person --email EMAIL --write {name} {option}")
    print_line("and then needs two lines; git asks for the token as the password:")
    print_line(f"  git clone {scheme}://NAME@{place}/git/{name}.git")
    print_line(f"  cd {name} && vaultmem sync")


_Name = Annotated[str, typer.Argument(metavar="NAME", help="The vault's name in the hub.")]


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_hub)
    add_commands(app, serve, init, add, remove, grant, grants, revoke, log, check)
    parent.add_typer(app, name="hub")


def _hub() -> None:
    """Share vaults in a team: a server with access control.

    A hub is a folder of bare git repositories. It checks each push: authors, folders, credentials,
    names and sizes. It rejects forced pushes.

    Examples:
      vaultmem hub serve ~/hub
    """


def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of the new hub.")],
    as_json: JsonOption = False,
) -> None:
    """Make a hub of an empty folder.

    Examples:
      vaultmem hub init /srv/hub
    """
    from vaultmem.services.hub.hub_folder import make_hub

    hub = make_hub(Path(folder).expanduser())
    if as_json:
        emit_json({"folder": hub.folder})
        return
    print_styled("made    ", "green", f"{hub.folder}; its hub.yaml sets the limits of a push")
    print_styled("next    ", "dim", "vaultmem hub add NAME --from VAULT")


def add(
    name: _Name,
    source: Annotated[
        str,
        typer.Option("--from", metavar="VAULT", help="A vault's folder, or an address."),
    ] = "",
    branch: Annotated[
        str,
        typer.Option(
            "--branch", metavar="BRANCH", help="Branch of the vault.  [default: checked-out branch]"
        ),
    ] = "",
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Add a vault with its history to the hub, or a new one.

    It is a copy: the vault itself is not changed. What is not committed there is not copied. A new
    one has what `vaultmem init` lays down, so people and agents can write at once.

    Examples:
      vaultmem hub add payments --from ~/vaults/payments
    """
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.repositories import describe_repository, make_repository

    environment = dict(current_environment())
    local_folder = Path(source).expanduser()
    origin = str(local_folder.absolute()) if source and local_folder.exists() else source
    opened = find_hub(hub)
    folder = make_repository(opened, name, environment, origin, branch)
    record_here(opened, "add", [name], {"from": origin})
    head_branch, commits = describe_repository(folder, environment)
    if as_json:
        emit_json(repository_json(name, folder, head_branch, commits))
        return
    print_styled("added   ", "green", f"{name}, {pluralize(commits, 'commit')} on {head_branch}")
    print_styled("at      ", "dim", str(folder))
    print_styled("next    ", "dim", f"vaultmem hub grant WHO --person --email EMAIL --admin {name}")


def remove(name: _Name, hub: HubOption = "", as_json: JsonOption = False) -> None:
    """Take a vault out of the hub; its repository is kept aside.

    Examples:
      vaultmem hub remove payments
    """
    from vaultmem.services.hub.repositories import remove_repository

    opened = find_hub(hub)
    folder = remove_repository(opened, name, time.time())
    record_here(opened, "remove", [name], {"kept": folder.name})
    if as_json:
        emit_json(removed_json(name, folder))
        return
    print_styled("removed ", "green", f"{name}; it can no longer be read or pushed to here")
    print_styled("kept    ", "dim", str(folder))


def check(
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what can be repaired without loss.")
    ] = False,
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Check the hub's folder, grants and repositories.

    The exit code is 1 if there is a problem.

    Examples:
      vaultmem hub check
    """
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.hub_health import examine_hub

    opened = find_hub(hub, changes=False)
    checks = examine_hub(opened, dict(current_environment()), time.time(), fix)
    show_checks(checks, as_json)
