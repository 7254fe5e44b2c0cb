"""Commands for a team's hub: hub init, add, remove, grant and others; serve is hub_serving."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.answers.health import checks_json
from vaultmem.answers.hub import (
    granted_json,
    grants_json,
    hub_json,
    log_json,
    removed_json,
    repository_json,
)
from vaultmem.cli.health import say_check
from vaultmem.cli.hub_options import HubOption, find_hub
from vaultmem.cli.hub_serving import serve
from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.services.hub.audit import Entry
    from vaultmem.services.hub.folder import Hub
    from vaultmem.services.hub.grants import Grant

#: Where what is done by these commands comes from, in the record.
_HERE = "terminal"

_Vaults = list[str]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The vault's name in the hub.")]


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_hub)
    add_commands(app, serve, init, add, remove, grant, grants, revoke, log, check)
    parent.add_typer(app, name="hub")


def _hub() -> None:
    """Share vaults in a team: a place to push to, and who may.

    A hub is one folder of bare git repositories. Each push is checked at its door: whose commits it
    brings, which folders they change, credentials, names, sizes; nothing is ever forced.

    Examples:
      vaultmem hub serve ~/hub
    """


def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The hub's folder; it is made.")],
    as_json: JsonOption = False,
) -> None:
    """Make a hub of an empty folder.

    Examples:
      vaultmem hub init /srv/hub
    """
    from vaultmem.services.hub.folder import make_hub

    hub = make_hub(Path(folder).expanduser())
    if as_json:
        emit_json(hub_json(hub))
        return
    say_painted("made    ", "green", f"{hub.folder}; its hub.yaml says what it takes")
    say_painted("next    ", "dim", "vaultmem hub add NAME --from VAULT")


def add(
    name: _Name,
    source: Annotated[
        str,
        typer.Option("--from", metavar="VAULT", help="A vault's folder, or an address."),
    ] = "",
    branch: Annotated[
        str, typer.Option("--branch", metavar="BRANCH", help="Its own branch; else that it is on.")
    ] = "",
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give the hub a vault, with all of its history; or an empty one.

    It is a copy: the vault itself is not changed. What is not committed there is not copied.

    Examples:
      vaultmem hub add payments --from ~/vaults/payments
    """
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.repositories import describe_repository, make_repository

    environment = dict(current_environment())
    near = Path(source).expanduser()
    given = str(near.absolute()) if source and near.exists() else source
    opened = find_hub(hub)
    folder = make_repository(opened, name, environment, given, branch)
    _record(opened, "add", [name], {"from": given})
    on, commits = describe_repository(folder, environment)
    if as_json:
        emit_json(repository_json(name, folder, on, commits))
        return
    say_painted("added   ", "green", f"{name}, {count_things(commits, 'commit')} on {on}")
    say_painted("at      ", "dim", str(folder))
    say_painted("next    ", "dim", f"vaultmem hub grant WHO --person --email EMAIL --own {name}")


def remove(name: _Name, hub: HubOption = "", as_json: JsonOption = False) -> None:
    """Take a vault out of the hub; its repository is kept aside.

    Examples:
      vaultmem hub remove payments
    """
    from vaultmem.services.hub.repositories import remove_repository

    opened = find_hub(hub)
    kept = remove_repository(opened, name, time.time())
    _record(opened, "remove", [name], {"kept": kept.name})
    if as_json:
        emit_json(removed_json(name, kept))
        return
    say_painted("removed ", "green", f"{name}; nobody can push to it or read it here")
    say_painted("kept    ", "dim", str(kept))


def grant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets the token.")],
    person: Annotated[bool, typer.Option("--person", help="It is a person.")] = False,
    agent: Annotated[bool, typer.Option("--agent", help="It is an agent of this name.")] = False,
    email: Annotated[
        _Vaults,
        typer.Option("--email", metavar="EMAIL", help='In their commits: a@b or "Name <a@b>".'),
    ] = [],  # noqa: B006
    writes_as: Annotated[
        _Vaults,
        typer.Option("--as", metavar="AGENT", help="An agent whose commits they may push, too."),
    ] = [],  # noqa: B006
    read: Annotated[
        _Vaults, typer.Option("--read", metavar="VAULT", help="May clone and ask (all of it).")
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
        typer.Option("--own", metavar="VAULT", help="May write, and change settings and branches."),
    ] = [],  # noqa: B006
    expires: Annotated[
        str, typer.Option("--expires", metavar="DAY", help="The last day on which it counts.")
    ] = "",
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give a person or an agent a token, and say what it is good for.

    VAULT is a vault's name or a pattern (`*`, `team-*`), with a folder of it behind a colon where
    only that is meant (`payments:notes/refunds`). The token is printed once: the hub keeps a
    digest.

    Examples:
      vaultmem hub grant ada --person --email "Ada Harbour <ada@example.org>" --own "*"
      vaultmem hub grant scout --agent --write payments:notes/refunds
    """
    from vaultmem.core.timestamps import parse_timestamp
    from vaultmem.services.hub.grants import Kind, Scope, make_grant

    if person == agent:
        raise RefusedError(f"is {name} a person or an agent? add --person or --agent")
    scopes = {Scope.READ: read, Scope.PROPOSE: propose, Scope.WRITE: write, Scope.OWN: own}
    until = parse_timestamp(expires, end_of_day=True) if expires else 0.0
    kind, now = (Kind.PERSON if person else Kind.AGENT), time.time()
    opened = find_hub(hub)
    made, token = make_grant(opened, name, kind, scopes, now, email, writes_as, until)
    _record(opened, "grant", [], {"name": name, "id": made.id, "scopes": dict(made.scopes)})
    if as_json:
        emit_json(granted_json(made, token))
        return
    say_painted("granted ", "green", f"{made.name}, {made.kind.value}, by the id {made.id}")
    _say_scopes(made)
    say(f"token   {token}")
    say_painted("", "dim", "        it is shown this once; give it over a safe way")


def grants(hub: HubOption = "", as_json: JsonOption = False) -> None:
    """List who may do what, and when their tokens were used last.

    Examples:
      vaultmem hub grants
    """
    from vaultmem.services.hub.grants import read_grants

    found, now = read_grants(find_hub(hub)), time.time()
    if as_json:
        emit_json(grants_json(found, now))
        return
    width = max((len(each.name) for each in found), default=0)
    for each in found:
        style = "bold" if each.is_alive(now) else "dim"
        told = f"{each.kind.value:<6}  {each.id}  {_tell_use(each, now)}"
        say_painted(f"{each.name:<{width}}", style, f"  {told}")
        _say_scopes(each, width + 2)
    if not found:
        say("Nobody has a token yet; `vaultmem hub grant NAME` gives one.")


def revoke(
    named: Annotated[
        str, typer.Argument(metavar="NAME", help="Whose tokens, or the id of one of them.")
    ],
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let somebody's tokens count no more, from the next request on.

    Examples:
      vaultmem hub revoke scout
    """
    from vaultmem.services.hub.grants import revoke as end_grants

    opened, now = find_hub(hub), time.time()
    ended = end_grants(opened, named, now)
    _record(opened, "revoke", [], {"name": ended[0].name, "ids": [each.id for each in ended]})
    if as_json:
        emit_json(grants_json(ended, now))
        return
    for each in ended:
        say_painted("revoked ", "green", f"{each.name}, {each.id}")


def log(
    who: Annotated[str, typer.Option("--who", metavar="NAME", help="What this name did.")] = "",
    vault: Annotated[str, typer.Option("--of", metavar="VAULT", help="In this vault.")] = "",
    what: Annotated[
        str, typer.Option("--what", metavar="KIND", help="Of this kind: push, ask, ...")
    ] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="From a day or a moment on.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 50,
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show who asked, who pushed and what was refused, newest first.

    Examples:
      vaultmem hub log --refused --since 2026-11-20
    """
    from vaultmem.core.timestamps import parse_timestamp
    from vaultmem.services.hub.audit import read_audit

    start = parse_timestamp(since) if since else 0.0
    outcome = "refused" if refused else ""
    found = list(islice(read_audit(find_hub(hub), who, vault, what, outcome, start), max(limit, 0)))
    if as_json:
        emit_json(log_json(found))
        return
    for each in found:
        _say_entry(each)
    if not found:
        say("Nothing is on record.")


def check(
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can be mended without losing anything.")
    ] = False,
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Check the hub's folder, its door, its grants, and each repository.

    The exit code is 1 if there is a problem.

    Examples:
      vaultmem hub check
    """
    from vaultmem.core.check import Verdict
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.checking import examine_hub

    opened = find_hub(hub, changes=False)
    checks = examine_hub(opened, dict(current_environment()), time.time(), fix)
    has_problems = any(each.verdict is Verdict.PROBLEM for each in checks)
    if as_json:
        emit_json(checks_json(checks, is_ok=not has_problems))
    else:
        for each in checks:
            say_check(each)
    if has_problems:
        raise typer.Exit(1)


def _record(hub: Hub, what: str, vaults: Iterable[str], details: dict[str, Any]) -> None:
    """Put on record what was done at the hub's own machine."""
    from vaultmem.services.hub.audit import Entry, record

    entry = Entry(time.time(), "", "", _HERE, what, tuple(vaults), "done", details)
    record(hub, entry)


def _say_scopes(made: Grant, indent: int = 0) -> None:
    rows: list[tuple[str, Iterable[str]]] = [(s.value, each) for s, each in made.scopes.items()]
    rows += [("as", (*made.emails, *(f"agent {each}" for each in made.agents)))]
    for name, values in rows:
        if told := ", ".join(values):
            say_painted(f"{'':<{indent}}{name:<8}", "dim", told)


def _tell_use(made: Grant, now: float) -> str:
    if made.revoked:
        return f"revoked {_day(made.revoked)}"
    if made.expires and made.expires <= now:
        return f"expired {_day(made.expires)}"
    used = f"used {_day(made.used)}" if made.used else "never used"
    return f"{used}, until {_day(made.expires)}" if made.expires else used


def _say_entry(entry: Entry) -> None:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    vaults = ", ".join(entry.vaults[:3]) + (" ..." if len(entry.vaults) > 3 else "")
    who = entry.who or entry.origin or "nobody"
    told = f"  {who:<12}  {entry.what:<6}  {vaults}  {entry.outcome}"
    say_painted(moment, "red" if entry.outcome != "done" else "dim", one_line(told))
    for line in _tell_details(entry):
        say(f"    {one_line(line)}")


def _tell_details(entry: Entry) -> list[str]:
    details: Any = entry.details
    lines = [
        f"{each['ref'].removeprefix('refs/heads/')}  {each['old'][:7]}..{each['new'][:7]}"
        for each in details.get("refs", ())
    ]
    if "name" in details:
        scopes = details.get("scopes", {}).items()
        told = "; ".join(f"{scope} {', '.join(vaults)}" for scope, vaults in scopes)
        lines.append(f"{details['name']}  {told}")
    return [*lines[:5], *details.get("refused", ())[:5]]


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
