"""Commands about who may do what in a hub: hub grant, grants, revoke, log."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.answers.hub import granted_json, grants_json, log_json
from vaultmem.cli.hub_options import HubOption, find_hub, record_here
from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    from vaultmem.services.hub.audit import Entry
    from vaultmem.services.hub.folder import Hub
    from vaultmem.services.hub.grants import Grant

_Vaults = list[str]

#: For how long a token that is replaced still counts.
_GRACE = "7d"


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
        typer.Option(
            "--as",
            metavar="AGENT",
            help="An agent whose commits they may push; else each without a token here.",
        ),
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
    """Give a person or an agent a token, and say what it is good for.

    VAULT is a vault's name or a pattern (`*`, `team-*`), with a folder of it behind a colon where
    only that is meant (`payments:notes/refunds`). The token is printed once: the hub keeps a
    digest. Other tokens of the same name count as before. With --rotate the new token may do what
    the old one may, which ends after a grace period.

    Examples:
      vaultmem hub grant ada --person --email ada@example.org --own "*"
      vaultmem hub grant scout --agent --write payments:notes/refunds
      vaultmem hub grant scout --rotate --grace 2d
    """
    from vaultmem.core.timestamps import parse_timestamp
    from vaultmem.services.hub.grants import Kind, Scope, make_grant, read_grants

    until = parse_timestamp(expires, end_of_day=True) if expires else 0.0
    if rotate:
        if person or agent or any((email, writes_as, read, propose, write, own)):
            raise RefusedError("--rotate: the new token may do what the old one may; name no more")
        _rotate(find_hub(hub), name, grace, until, as_json)
        return
    if grace:
        raise RefusedError("--grace: is for --rotate alone; add that")
    if person == agent:
        raise RefusedError(f"is {name} a person or an agent? add --person or --agent")
    scopes = {Scope.READ: read, Scope.PROPOSE: propose, Scope.WRITE: write, Scope.OWN: own}
    kind, now = (Kind.PERSON if person else Kind.AGENT), time.time()
    opened = find_hub(hub)
    made, token = make_grant(opened, name, kind, scopes, now, email, writes_as, until)
    record_here(opened, "grant", [], {"name": name, "id": made.id, "scopes": dict(made.scopes)})
    known = [each for each in read_grants(opened) if each.name == name and each.is_alive(now)]
    others = [each for each in known if each.id != made.id]
    if as_json:
        emit_json(granted_json(made, token, others))
        return
    _say_granted(made, token)
    if others:
        ids = ", ".join(each.id for each in others)
        told = f"{count_things(len(others), 'older token')} of {name} as before: {ids}"
        say_painted("counts  ", "dim", told)
        say_painted("", "dim", "        `vaultmem hub revoke ID` ends one, `--rotate` replaces one")


def _rotate(hub: Hub, named: str, grace: str, until: float, as_json: bool) -> None:
    """Replace a token by a new one, and say when the old one ends."""
    from vaultmem.cli.changing import parse_age
    from vaultmem.services.hub.grants import rotate

    old, made, token = rotate(hub, named, time.time(), parse_age(grace or _GRACE), until)
    told = {"name": made.name, "id": made.id, "replaces": old.id, "scopes": dict(made.scopes)}
    record_here(hub, "grant", [], told)
    if as_json:
        emit_json(granted_json(made, token, replaced=old))
        return
    _say_granted(made, token)
    say_painted("ends    ", "yellow", f"the old token, {old.id}, on {_minute(old.expires)}")


def _say_granted(made: Grant, token: str) -> None:
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
    record_here(opened, "revoke", [], {"name": ended[0].name, "ids": [each.id for each in ended]})
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


def _say_scopes(made: Grant, indent: int = 0) -> None:
    from vaultmem.services.hub.writers import tell_agents

    rows: list[tuple[str, Iterable[str]]] = [(s.value, each) for s, each in made.scopes.items()]
    rows += [("as", (*made.emails, *map(tell_agents, made.agents)))]
    for name, values in rows:
        if told := ", ".join(values):
            say_painted(f"{'':<{indent}}{name:<8}", "dim", told)


def _tell_use(made: Grant, now: float) -> str:
    if made.revoked:
        return f"revoked {_day(made.revoked)}"
    if made.expires and made.expires <= now:
        return f"expired {_day(made.expires)}"
    used = f"used {_day(made.used)}" if made.used else "never used"
    if made.replaced_by:
        return f"{used}, ends {_minute(made.expires)}, replaced by {made.replaced_by}"
    return f"{used}, until {_day(made.expires)}" if made.expires else used


def _say_entry(entry: Entry) -> None:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    vaults = ", ".join(entry.vaults[:3]) + (" ..." if len(entry.vaults) > 3 else "")
    who = entry.who or entry.origin or "nobody"
    told = f"  {who:<12}  {entry.what:<6}  {vaults}  {entry.outcome}"
    say_painted(moment, "dim" if entry.outcome in {"done", "begun"} else "red", one_line(told))
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


def _minute(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
