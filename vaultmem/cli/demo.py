"""The command that shows what vaultmem is, on a copy of the sample vault: demo."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import say

if TYPE_CHECKING:
    from vaultmem.vault import Vault

#: What is worth a look.
_COMMANDS = (
    'vaultmem pack "how are refunds handled?" --budget 600',
    "vaultmem log",
    'vaultmem bisect --good HEAD~4 -- "staging database" --says "PostgreSQL 16"',
)


def demo(
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="DIR", help="Make the copy here, and leave it there."),
    ] = "",
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Show it here, and no page in a browser.")
    ] = False,
) -> None:
    """Show a sample vault in a browser: notes, a week of history.

    An agent believes something wrong in it: find out since when. Without a screen, the link is
    printed; without the extra `web` or a terminal, you see the history here. The copy is removed
    when you press Ctrl-C, with all that was kept of it.

    Examples:
      vaultmem demo
      vaultmem demo --no-open --keep ferrylane
    """
    from vaultmem.environment import choose_own, current_environment
    from vaultmem.services.vaults.demo import forget_demo, lay_demo
    from vaultmem.vault import find_user_folders, open_vault

    above = None if keep else tempfile.TemporaryDirectory(prefix="vaultmem-demo-")
    root = Path(keep).expanduser().absolute() if above is None else Path(above.name, "ferrylane")
    own = choose_own(current_environment())
    given = {name: value for name, value in own.items() if not name.startswith("VAULTMEM_")}
    folders = find_user_folders(given)
    try:
        lay_demo(root, folders, time.time())
        _show(open_vault(root, by_person=True, folders=folders, environment=given), no_open)
    finally:
        if above is not None:
            forget_demo(root, folders)
            above.cleanup()
            say("\nThe copy is gone again; `vaultmem demo --keep DIR` leaves you one.")


def _show(vault: Vault, no_open: bool) -> None:
    """Serve the page, or run the commands here and say why there is no page."""
    from vaultmem.environment import has_screen
    from vaultmem.services.reading.sync import sync_vault

    sync_vault(vault)
    notes, _ = vault.view.totals()
    say(f"{notes} notes of a ferry operator's ticketing project, with a week of history, in")
    say(f"{vault.root}\n")
    opens = has_screen()
    reason = "" if no_open else _find_reason_against(opens)
    if not (no_open or reason):
        from vaultmem.cli.serving import serve_here

        say("Look at the page, or try in another terminal:")
        say(f"  cd {shlex.quote(str(vault.root))}")
        say("".join(f"  {line}\n" for line in _COMMANDS))
        token = vault.state_folder / "mcp.token"
        serve_here(vault, (0, "127.0.0.1", ()), True, False, token, opens, False)
        return
    vault.close()
    for line in _COMMANDS:
        say(f"$ {line}")
        sys.stdout.flush()
        command = [sys.executable, "-P", "-m", *shlex.split(line)]
        subprocess.run(command, cwd=vault.root, env=vault.environment, check=False)
        say("")
    if reason:
        say(reason)


def _find_reason_against(has_screen: bool) -> str:
    """Return why no page can be shown here; empty, if one can."""
    from vaultmem.storage.missing import tell_missing

    try:
        import vaultmem.serve.http  # noqa: F401
    except ModuleNotFoundError as error:
        return f"For the page: {tell_missing(error.name, 'web')}."
    lack = "This is neither a screen nor a terminal; in a terminal, `vaultmem demo` prints a link."
    return "" if has_screen or sys.stdout.isatty() else lack
