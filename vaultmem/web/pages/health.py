"""How the vault is: what needs somebody, what memory costs and saves, and what nobody found."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.check import Check, Verdict
from vaultmem.services.economics import Stats
from vaultmem.services.showings import Shown
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read
from vaultmem.web.rendering import render_page

#: What was shown last, of which so much is listed.
_LAST = 15


class Account(NamedTuple):
    """What packs and recalls cost and saved, and what was shown last."""

    stats: Stats
    shown: list[Shown]


def gather_account(vault: Vault) -> Account:
    """Return the account of all packs and recalls."""
    from vaultmem.services.economics import read_stats
    from vaultmem.services.showings import list_recent

    return Account(read_stats(vault), list_recent(vault, _LAST))


def gather_checks(vault: Vault) -> list[Check]:
    """Return what the checks say, problems first."""
    from vaultmem.services.health.doctor import examine_vault

    return sorted(examine_vault(vault), key=lambda check: check.verdict is Verdict.OK)


@answers
async def show_health(request: Request) -> Response:
    """Show what memory costs and saves; the checks come behind."""
    frame, account = await read(request, gather_account)
    return render_page(request, "health.html", vault=frame, account=account)


@answers
async def show_checks(request: Request) -> Response:
    """Show what needs somebody; its page loads it late, for it takes a while."""
    frame, checks = await read(request, gather_checks)
    return render_page(request, "checks.html", vault=frame, checks=checks)
