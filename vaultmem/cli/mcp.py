"""What `vaultmem mcp` does; a client waits for it, so nothing is imported that is not needed."""

from __future__ import annotations

from pathlib import Path

from vaultmem.cli.arguments import read_words
from vaultmem.cli.opening import open_here, run
from vaultmem.cli.output import warn
from vaultmem.errors import VaultError


def serve_plainly(arguments: list[str]) -> int | None:
    """Serve as these arguments ask for it; None if they are not plain to see."""
    values = {"--vault": "vault", "--agent": "agent", "--ref": "ref"}
    read = read_words(arguments, values, {"--read-only": "read_only"})
    if read is None or read[0] != ["mcp"]:
        return None
    return run(lambda: serve_mcp(**read[1]))


def serve_mcp(
    vault: str = "",
    agent: str = "",
    ref: str = "",
    read_only: bool = False,
    http: int = 0,
    token_file: str = "",
) -> None:
    """Serve a vault over standard input and output, or over HTTP at a port.

    Raises:
        VaultError: the extra is not installed, or the token cannot be read.
    """
    opened = open_here(vault, agent, ref=ref)
    from vaultmem.mcp_server.run import read_token, serve

    served = None
    if http:
        file = Path(token_file).expanduser() if token_file else opened.state_folder / "mcp.token"
        served = (http, read_token(file))
        warn(f"serving {opened.root} at http://127.0.0.1:{http}/mcp; the token is in {file}")
    try:
        serve(opened.root, opened.author.agent or "mcp", opened.ref, read_only, served)
    except ModuleNotFoundError as error:
        raise VaultError(
            f"mcp: {error.name} is not installed; run `pip install 'vaultmem[mcp]'`"
        ) from None
