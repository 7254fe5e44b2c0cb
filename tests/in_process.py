"""The command line without a process for each run: the same commands, parsed and printed.

For tables with many rows. What a process of its own adds (start-up, signals, the current folder on
Python's path) is tested where `run_cli` is used.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Result

import vaultmem.environment
from vaultmem.cli import opening
from vaultmem.cli.app import build_commands, run
from vaultmem.vault import Vault


def run_here(
    *arguments: str | bytes | os.PathLike[str],
    cwd: Path | None = None,
    stdin: str | bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Result:
    """Run `vaultmem` in this process, as `run_cli` does in one of its own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    words = [os.fsdecode(word) for word in arguments]
    given = io.TextIOWrapper(io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin))
    with _settings(env or {}, given), contextlib.chdir(cwd or Path.cwd()), _closing_vaults():
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(lambda: _commands().main(args=words, prog_name="vaultmem"))
        opening._given.clear()
    shown = []
    for stream in (out, err):
        stream.flush()
        shown.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return Result(code, *shown)


def _commands(found: list[Any] = []) -> Any:  # noqa: B006 - made once.
    if not found:
        found.append(build_commands())
    return found[0]


@contextlib.contextmanager
def _settings(env: Mapping[str, str], stdin: io.TextIOWrapper) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        for name, value in env.items():
            patch.setenv(name, value)
        yield


@contextlib.contextmanager
def _closing_vaults() -> Iterator[None]:
    """Close what a command leaves open because its process ends."""
    vaults: list[Vault] = []
    real = vaultmem.environment.open_vault

    def open_one(*arguments: Any, **who: Any) -> Vault:
        vaults.append(real(*arguments, **who))
        return vaults[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vaultmem.environment, "open_vault", open_one)
        try:
            yield
        finally:
            for vault in vaults:
                vault.close()
