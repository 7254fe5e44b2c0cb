"""The command serve, and the server options that it shares with others."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import ONLY_HERE, HostOption, PortOption
from vaultmem.cli.output import emit_json, print_line, warn
from vaultmem.cli.quick_typer import add_commands
from vaultmem.cli.shared import needing, takes
from vaultmem.cli.sync_commands import be_resident, print_status, start_daemon, stop_resident
from vaultmem.errors import RefusedError
from vaultmem.operations.vault_data import daemon_json

if TYPE_CHECKING:
    from vaultmem.hub.hub_server import ServeOptions
    from vaultmem.services.fleet.pool import Pool
    from vaultmem.services.hub.hub_folder import Hub
    from vaultmem.vault import Vault


#: Shorter tokens can be guessed.
_MIN_TOKEN_CHARS = 16


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_commands(app, serve)


@takes("vault", "ref", "agent", "as_json")
def serve(
    context: CommandContext,
    port: PortOption = 8377,
    host: HostOption = ONLY_HERE,
    name: Annotated[
        list[str],
        typer.Option(
            "--allowed-host",
            metavar="HOST",
            help="Host that requests may name: HOST or HOST:PORT (repeatable).",
        ),
    ] = [],  # noqa: B006
    write: Annotated[
        bool, typer.Option("--write", help="Allow browsers to write in your name.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Reject every write, of agents and programs too.")
    ] = False,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    link: Annotated[
        bool, typer.Option("--print-link", help="Only print a link to the page that is served.")
    ] = False,
    token_file: Annotated[
        str,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the token for programs.  [default: in the state folder]",
        ),
    ] = "",
    daemon: Annotated[bool, typer.Option("--daemon", help="Run in the background.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show which server runs.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the server.")] = False,
) -> None:
    """Show the vault in a browser, and watch it meanwhile.

    It answers programs and agents too, and needs the extra `web`. Without --host, only this machine
    is served. A browser opens a link with a one-time code; programs and agents (MCP at /mcp) send a
    token.

    Examples:
      vaultmem serve --open
      vaultmem serve --write --port 8400
    """
    vault = context.open(for_owner=True)
    if status:
        print_status(vault, context.as_json)
    elif stop:
        stop_resident(vault, context.as_json)
    elif link:
        _print_link(vault, context.as_json, opens)
    elif write and read_only:
        raise RefusedError("serve: --write and --read-only contradict each other; name one")
    elif daemon:
        words = ["serve", "--port", str(port), "--token-file", str(_find_token(vault, token_file))]
        words += ["--host", host, *(word for each in name for word in ("--allowed-host", each))]
        words += ["--write"] * write + ["--read-only"] * read_only
        words += ["--agent", context.agent] * bool(context.agent) + ["--ref", context.ref] * bool(
            context.ref
        )
        watcher, log = start_daemon(vault, words)
        if context.as_json:
            emit_json(daemon_json(watcher, log))
        else:
            print_line(f"Serving {vault.root} as process {watcher.pid}; it writes to {log}.")
            _print_link(vault, context.as_json, opens)
    else:
        place = (port, host, tuple(each.lower() for each in name))
        token = _find_token(vault, token_file)
        serve_here(vault, place, write, read_only, token, opens, context.as_json)


def serve_here(
    vault: Vault,
    place: tuple[int, str, tuple[str, ...]],
    write: bool,
    read_only: bool,
    token: Path,
    opens: bool,
    as_json: bool,
) -> None:
    """Serve at `place` (port, address, other names) until a signal, as `serve` does."""
    with needing("web", "serve"):
        from vaultmem.serve.http import ADDRESS, MCP_PATH, HttpServer, ListenAddress, ServerAccess
        from vaultmem.web.access import make_code
    from vaultmem.workers import Caller

    caller = Caller(
        vault.author.agent or vault.config.agent or "mcp",
        ref=vault.ref,
        environment=vault.environment,
        may_write=not read_only,
        asks_others=place[1] == ADDRESS and not place[2],  # No other machine has access.
    )
    access = ServerAccess(read_token(token), caller, vault.state_folder, write)
    server = HttpServer(ListenAddress(*place), access)

    def begun() -> str:
        page = f"http://{server.hosts[0]}/enter?code={make_code(vault.state_folder)}"
        if opens:
            _open(page)
        print_line(f"Serving {vault.root} as process {os.getpid()}; press Ctrl-C to stop.")
        print_line(f"page  {page}")
        return f"MCP   {server.address}{MCP_PATH}, with the token in {token}"

    be_resident(vault, as_json, begun, web=server)


def _print_link(vault: Vault, as_json: bool, opens: bool) -> None:
    """Print a link with a one-time code for a browser."""
    from vaultmem.services.watching.lease import find_watcher
    from vaultmem.web.access import make_code

    watcher = find_watcher(vault)
    if watcher is None or not watcher.address:
        raise RefusedError(f"{vault.root}: no server runs; start one with `vaultmem serve`")
    page = f"{watcher.address}/enter?code={make_code(vault.state_folder)}"
    if opens:
        _open(page)
    emit_json({"link": page}) if as_json else print_line(page)


def _open(page: str) -> None:
    import webbrowser

    if not webbrowser.open(page):
        warn("no browser was found; open the link yourself")


def _find_token(vault: Vault, file_name: str) -> Path:
    return Path(file_name).expanduser().resolve() if file_name else vault.state_folder / "mcp.token"


def read_token(file: Path) -> str:
    """Return the token in a file that only its owner can read; create the file if needed.

    Raises:
        RefusedError: others can read the file, or its token is shorter than 16 characters.
    """
    import contextlib
    import secrets
    from pathlib import PurePosixPath

    from vaultmem.errors import ConflictError
    from vaultmem.storage.files import create_file

    if not file.exists():
        fresh = f"{secrets.token_urlsafe(32)}\n".encode()
        with contextlib.suppress(ConflictError):  # Another server created it.
            create_file(file.parent, PurePosixPath(file.name), fresh, 0o600)
    if file.stat().st_mode & 0o077:
        raise RefusedError(f"{file}: others can read it; run `chmod 600 {file}`")
    token = file.read_text(encoding="ascii").strip()
    if len(token) < _MIN_TOKEN_CHARS:
        raise RefusedError(f"{file}: a token needs {_MIN_TOKEN_CHARS} characters or more")
    return token


# Shared by `hub serve` and `fleet serve`: their addresses, options and output.

NamesOption = Annotated[
    list[str],
    typer.Option(
        "--allowed-host",
        metavar="HOST",
        help="Host that requests may name: HOST or HOST:PORT (repeatable).",
    ),
]
ProxyOption = Annotated[
    bool,
    typer.Option("--trust-proxy", help="A proxy in front has HTTPS and sends X-Forwarded headers."),
]


def find_served(command: str, port: int, host: str, names: list[str], proxy: bool) -> ServeOptions:
    """Return the addresses and options by which a command serves.

    Raises:
        VaultError: the extra `web` is not installed.
    """
    with needing("web", command):
        from vaultmem.hub.hub_server import ServeOptions
        from vaultmem.serve.http import ListenAddress
    from vaultmem.environment import current_environment

    place = ListenAddress(port, host, tuple(each.lower() for each in names))
    return ServeOptions(place, proxy, current_environment())


@contextlib.contextmanager
def serving(
    hub: Hub,
    served: ServeOptions,
    find_pool: Callable[[], Pool] | None = None,
) -> Iterator[str]:
    """Start serving, yield the address, and then serve until a signal.

    Raises:
        RefusedError: as `HubServer` and its `start` do.
    """
    from vaultmem.hub.hub_server import HubServer

    server = HubServer(hub, served)
    try:
        server.heed_signals()  # Before it prints how to stop it.
        server.start(find_pool)
        yield server.address
        sys.stdout.flush()  # It runs for long; pipes and files need the text now.
        server.wait()
    finally:
        server.close()


def print_places(subject: object, address: str, with_git: bool = False) -> None:
    """Print what this process serves, and the addresses."""
    print_line(f"Serving {subject} as process {os.getpid()}; press Ctrl-C to stop.")
    print_line(f"page  {address}/")
    if with_git:
        print_line(f"git   {address}/git/NAME.git, with a token as the password")
    print_line(f"API   {address}/v/NAME/api/v1, and over all vaults /api/v1")
    print_line(f"MCP   {address}/v/NAME/mcp, and over all vaults /mcp")
