"""Commands about what an agent saw: receipts and replay."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.opening import open_here
from vaultmem.cli.options import AgentOption, JsonOption, SessionOption, VaultOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.plain import PlainCommand
from vaultmem.core.plain import as_named
from vaultmem.core.plain_text import one_line

if TYPE_CHECKING:
    from vaultmem.core.packs.receipt import Receipt


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("receipts", cls=PlainCommand)(receipts)
    app.command("replay", cls=PlainCommand)(replay)


def receipts(
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", help="Receipts at most.")
    ] = 20,
    vault: VaultOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    as_json: JsonOption = False,
) -> None:
    """List the packs that have a receipt, newest first: who asked what, and what it cost."""
    from vaultmem.services.finding.receipts import list_receipts

    found = list(islice(list_receipts(open_here(vault), agent, session), limit))
    if as_json:
        emit_json({"receipts": [_receipt_json(receipt) for receipt in found]})
        return
    if not found:
        say("No receipts yet; `vaultmem pack --receipt` keeps one, and each pack of an agent does.")
    for receipt in found:
        who = " ".join(filter(None, (receipt.agent or "person", receipt.session)))
        cost = f"{len(receipt.shown):>3} sections {receipt.account.sent:>6} tokens"
        asked = one_line(receipt.query) or "(no question)"
        say_painted(receipt.id, "yellow", f"  {who[:24]:<24}  {cost}  {asked[:60]}")


def replay(
    receipt: Annotated[
        str, typer.Argument(metavar="RECEIPT", help="Its id, the start of it, or its file.")
    ],
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Print the very pack that a receipt stands for, rendered again from git."""
    from vaultmem.services.finding.receipts import replay_receipt

    found, text = replay_receipt(open_here(vault), receipt)
    if as_json:
        emit_json({**_receipt_json(found), "text": text})
    else:
        say(text.rstrip("\n"))


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    content: dict[str, Any] = as_named(receipt)
    del content["texts"]
    return content
